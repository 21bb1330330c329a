"""Read engine: bursts of several streams in one order, data back to their targets."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import ID_BITS
from ..config import Config
from ..regmap import ERRORS
from .layouts import BOUNDARY, STREAM_BEATS, TARGET, Sizes, Target
from .queue import Queue


__all__ = ["DMAReader", "ErrorLayout"]


#: The first error: its code (see `ERRORS`) and the address of its burst.
ErrorLayout = data.StructLayout({"valid": 1, "code": range(len(ERRORS)), "addr": 40})


class DMAReader(wiring.Component):
    """Issue bursts for which there is space, and route their data in the order of issue.

    The first of `bursts` that is valid and finds space in its target is chosen, and issued in the
    next cycle: its space is reserved, it enters the queue of bursts in flight, and it goes to the
    AXI port or, with `hit`, to the KV buffer. So a stream whose target is full is overtaken by
    the others, as is the ring's while `STREAM_BEATS` of it are in flight: data come in the order
    of issue. And read data always find space; `rready` is low only while a beat is cut into words
    of the ring that are shorter, while data of the KV buffer pass, and while nothing is in flight.

    Data are routed by the order of issue alone. **The far side must answer reads in the order
    of their addresses, also across IDs**, as a single memory controller does; a beat whose ID is
    not the expected class is error 6. Behind an interconnect that reorders IDs the board's top
    gives all reads one ID and restores `rid` by a queue of the issued ones.

    With `stop`, after an error, nothing more is chosen before a reset: an address may come from
    data (a token, an instruction) that are not what was asked for. What is in flight still reaches
    its target.

    Latency: from a burst to `arvalid` 3 cycles, from read data to `beats` 0. Throughput: one burst
    in three cycles, and one beat per cycle.

    Parameters
    ----------
    config : Config
        Configuration.
    sources : int
        Streams of bursts; lower ones go first.

    Members
    -------
    bursts : ``In(stream.Signature(Sizes(config).burst))`` each
        Bursts to read.
    ar..., r... : AXI
        Read channels.
    kv_request, kv_beat : ``Out(stream.Signature({addr, beats}))``, ``In(stream.Signature(bits))``
        Bursts that the KV buffer answers, in order, and its data.
    beats : ``Out(stream.Signature(Sizes(config).beat_layout(target)))`` for each target
        Data. Only the ring's stream may pause.
    freed : ``In(...)`` for each target
        Units of space that became free in this cycle.
    halt : ``In(1)``
        Issue nothing, and take what is owed without passing it on.
    stop : ``In(1)``
        Choose no further burst: after an error, whose data may be the address of the next read.
    idle : ``Out(1)``
        Nothing is in flight.
    error : ``Out(ErrorLayout)``
        Error of the beat in this cycle.
    ready_burst, blocked_burst : ``Out(1)``
        A burst is issued; some burst waits and none has space.
    fire, hit, cls, target : ``Out(1)``, ``Out(1)``, ``Out(ID_BITS)``, ``Out(TARGET)``
        A beat is taken in this cycle, from the KV buffer, of that class, for that target.
    """
    def __init__(self, config: Config, sources):
        self.config = config
        self.sizes = sizes = Sizes(config)
        self.sources = sources
        bits = config.port_bits
        super().__init__({
            "bursts": In(stream.Signature(sizes.burst)).array(sources),
            "arvalid": Out(1), "arready": In(1), "araddr": Out(config.addr_bits),
            "arlen": Out(8), "arid": Out(ID_BITS),
            "rvalid": In(1), "rready": Out(1), "rid": In(ID_BITS), "rdata": In(bits),
            "rresp": In(2),
            "kv_request": Out(stream.Signature(data.StructLayout({
                "addr": config.addr_bits, "beats": 8}))),
            "kv_beat": In(stream.Signature(bits)),
            **{f"beats_{t.name.lower()}": Out(stream.Signature(sizes.beat_layout(t)))
               for t in Target},
            **{f"freed_{t.name.lower()}": In(range(sizes.capacity(t) + 1)) for t in Target},
            "halt": In(1), "stop": In(1), "idle": Out(1), "error": Out(ErrorLayout),
            "ready_burst": Out(1), "blocked_burst": Out(1),
            "fire": Out(1), "hit": Out(1), "cls": Out(ID_BITS), "target": Out(TARGET),
        })

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        depth = self.config.outstanding

        # Space of each target, reserved before a read is issued.
        space = {t: Signal(range(sizes.capacity(t) + 1), init=sizes.capacity(t),
                           name=f"space_{t.name.lower()}") for t in Target}
        streamed = (Target.RING, Target.SCALES)
        ahead = Signal(range(STREAM_BEATS + 256))   # beats of the ring's stream in flight
        more = Signal()
        m.d.comb += more.eq(ahead < STREAM_BEATS)
        fits = Signal(self.sources)
        for index, burst in enumerate(self.bursts):
            with m.Switch(burst.payload.target):
                for t in Target:
                    with m.Case(t):
                        m.d.comb += fits[index].eq((burst.payload.units <= space[t])
                                                   & (more if t in streamed else 1))

        # Choice, into a register, among the bursts that found space a cycle ago: a burst is chosen
        # in one cycle and issued in the next one at the earliest, where its space is reserved.
        # So the cycle after an issue looks anew, and the one after that chooses.
        pending = Signal()
        chosen = Signal(sizes.burst, reset_less=True)
        waiting = Cat(burst.valid for burst in self.bursts)
        able = Signal(self.sources)
        denied = Signal()
        choose = Signal()
        m.d.sync += [
            able.eq(Mux(pending | (choose & able.any()) | self.halt, 0, waiting & fits)),
            denied.eq(waiting.any() & ~(waiting & fits).any()),
        ]
        m.d.comb += choose.eq(~pending & ~self.halt & ~self.stop)
        for index in reversed(range(self.sources)):
            earlier = able[:index].any() if index else C(0, 1)
            m.d.comb += self.bursts[index].ready.eq(choose & able[index] & ~earlier)
            with m.If(choose & able[index]):
                m.d.sync += chosen.eq(self.bursts[index].payload)

        flight = Signal(range(depth + 1))       # bursts between issue and their last beat
        issue = Signal()
        m.d.comb += [
            issue.eq(pending & (~self.arvalid | self.arready) & self.kv_request.ready
                     & (flight != depth) & ~self.halt),
            self.ready_burst.eq(pending | able.any() | (waiting.any() & ~denied)),
            self.blocked_burst.eq(~pending & waiting.any() & ~able.any() & denied),
        ]
        with m.If(choose):
            m.d.sync += pending.eq(able.any())
        with m.Elif(issue | self.halt):
            m.d.sync += pending.eq(0)

        # Address channel.
        aligned = Cat(C(0, sizes.beat_log2), chosen.addr[sizes.beat_log2:])
        m.d.comb += [
            self.kv_request.valid.eq(issue & chosen.hit),
            self.kv_request.payload.addr.eq(aligned),
            self.kv_request.payload.beats.eq(chosen.beats),
        ]
        with m.If(self.arready):
            m.d.sync += self.arvalid.eq(0)
        with m.If(issue & ~chosen.hit):
            m.d.sync += [
                self.arvalid.eq(1),
                self.araddr.eq(aligned),
                self.arlen.eq(chosen.beats),
                self.arid.eq(chosen.cls),
            ]

        # Bursts in flight.
        m.submodules.route = route = Queue(sizes.burst, depth + 1)
        head = route.o.payload
        pop = Signal()
        m.d.comb += [
            route.i.valid.eq(issue),
            route.i.payload.eq(chosen),
            route.o.ready.eq(pop),
            self.idle.eq((flight == 0) & ~self.arvalid & ~pending),
        ]
        m.d.sync += flight.eq(flight + issue - pop)

        # Data channel.
        beat = Signal(8)
        take = Signal()                         # the target, or nothing in a reset, takes a beat
        last_beat = Signal()
        end = Signal()
        m.d.comb += [
            take.eq(self.beats_ring.ready | (head.target != Target.RING) | self.halt),
            self.rready.eq(route.o.valid & ~head.hit & take),
            self.kv_beat.ready.eq(route.o.valid & head.hit & take),
            self.hit.eq(head.hit),
            self.cls.eq(head.cls), self.target.eq(head.target),
            self.fire.eq(Mux(head.hit, self.kv_beat.valid & self.kv_beat.ready,
                             self.rvalid & self.rready)),
            last_beat.eq(beat == head.beats),
            end.eq(last_beat & head.last),
            # Nothing is owed for data of the KV buffer.
            pop.eq((self.fire & last_beat) | (self.halt & route.o.valid & head.hit)),
        ]
        with m.If(pop):
            m.d.sync += beat.eq(0)
        with m.Elif(self.fire):
            m.d.sync += beat.eq(beat + 1)

        # A single word is moved to the lowest lane; only requests have such.
        bits = self.config.port_bits
        value = Signal(bits)
        m.d.comb += value.eq(Mux(head.hit, self.kv_beat.payload, self.rdata))
        lanes = Array(value[32 * lane:32 * lane + 32] for lane in range(bits // 32))
        for t in Target:
            port = getattr(self, f"beats_{t.name.lower()}")
            split = sizes.split(t)
            m.d.comb += [
                port.valid.eq(route.o.valid & (head.target == t) & ~self.halt
                              & Mux(head.hit, self.kv_beat.valid, self.rvalid)),
                port.payload.data.eq(value),
                port.payload.words.eq(split - 1),
                port.payload.flush.eq(end),
            ]
            if split > 1 and t in (Target.RING, Target.PROGRAM):
                with m.If(end):
                    m.d.comb += port.payload.words.eq(head.tail)
            if t == Target.REQUEST:
                with m.If(head.single):
                    m.d.comb += port.payload.words.eq(0)
                    if bits > 32:
                        lane = head.addr[2:sizes.beat_log2]
                        m.d.comb += port.payload.data[:32].eq(lanes[lane])

        for t in Target:
            taken = Signal(space[t].shape(), name=f"taken_{t.name.lower()}")
            with m.If(issue & (chosen.target == t)):
                m.d.comb += taken.eq(chosen.units)
            m.d.sync += space[t].eq(space[t] - taken + getattr(self, f"freed_{t.name.lower()}"))
            with m.If(self.halt):
                m.d.sync += space[t].eq(sizes.capacity(t))

        def of_stream(target):
            return (target == streamed[0]) | (target == streamed[1])

        m.d.sync += ahead.eq(ahead + Mux(issue & of_stream(chosen.target),
                                         chosen.beats + 1, 0)
                             - (self.fire & of_stream(head.target)))
        with m.If(self.halt):
            m.d.sync += ahead.eq(0)

        # Codes of `ERRORS`: 1 SLVERR, 2 DECERR, 6 out of order.
        m.d.comb += self.error.addr.eq(Cat(C(0, sizes.beat_log2), head.addr[sizes.beat_log2:]))
        with m.If(self.fire & ~head.hit):
            with m.If(self.rresp[1]):
                m.d.comb += [self.error.valid.eq(1), self.error.code.eq(1 + self.rresp[0])]
            with m.Elif(self.rid != head.cls):
                m.d.comb += [self.error.valid.eq(1), self.error.code.eq(6)]

        assert sizes.config.burst_bytes <= BOUNDARY
        return m

"""The memory system: every read and write of the accelerator."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import AXI4Signature
from ..config import Config
from ..interfaces import AppendLayout, CommandLayout, RequestLayout, field, words
from ..isa import INSTRUCTION_BYTES, Op
from .events import EventLayout, connect_events
from .gearbox import Gearbox
from .kv_buffer import KVBuffer
from .layouts import FetchLayout, LinearLayout, SingleLayout, Sizes, Target
from .pieces import ALIGN_LOG2, FetchPlanner, RequestPlanner, TablePlanner
from .queue import Queue
from .reader import DMAReader, ErrorLayout
from .skid import Skid
from .splitter import BurstSplitter
from .stream_planner import StreamPlanner
from .writer import DMAWriter
from .writes import WriteJobs


__all__ = ["MemorySystem"]


#: AXI burst type: ascending addresses.
INCR = 1

#: Commands that wait between the sequencer and each of the two planners.
COMMANDS = 4


class MemorySystem(wiring.Component):
    """Plan, issue, route and write: see ``docs/memory-system.md``.

    Four streams of reads share the port, in this order of precedence: the program, requests of the
    vector unit, tables, and the stream of weights and cache to the ring. Each is cut into bursts,
    and a burst is issued when its target has space. Tables are planned beside the ring's stream,
    so a table whose reader is busy does not hold weights up.

    Members
    -------
    axi : ``Out(AXI4Signature(addr_bits, port_bits))``
        Memory. IDs are classes; reads must be answered in order, see `DMAReader`.
    base : ``In(addr_bits)``
        Added to all addresses, a multiple of 4096. Constant while anything is in progress, as
        `kv_base` and `kv_pinned` are.
    kv_base, kv_pinned : ``In(32)``, ``In(32)``
        Beginning of the cache and length of its pinned part, in units of 64 bytes.
    commands : ``In(stream.Signature(CommandLayout))``
        MATMUL, ATTN, NORM and APPEND.
    appended : ``In(1)``
        Pulse: an APPEND is complete in memory.
    fetch, instructions : ``In(stream.Signature(FetchLayout))``, ``Out(stream of 256 bits)``
        Fetches of instructions, and the instructions.
    requests, request_data : ``In(stream of RequestLayout)``, ``Out(stream of words(lanes))``
        Reads of the vector unit, and the answers in order.
    tables : ``Out(stream.Signature(words(lanes)))``
        Norm gains and RoPE rows.
    kv_scales : ``Out(stream.Signature(words(softmax_lanes, 16)))``
        For each block, 32 K scales, then 32 V scales.
    weights, freed : ``Out(stream.Signature(8 * stride))``, ``In(range(ring_words + 1))``
        Words for the ring, and words of it that became free in this cycle. There is always room
        in the ring for a word that is offered, so it should be ready at all times.
    append, append_data, linear, linear_data, single : as in `WriteJobs`
        Writes.
    write_idle : ``Out(1)``
        Everything that was accepted in earlier cycles is acknowledged by memory.
    append_idle : ``Out(1)``
        Readers of the cache see every append that was accepted in earlier cycles: what is pinned
        is in the KV buffer, the rest is acknowledged.
    reset, resetting : ``In(1)``, ``Out(1)``
        Pulse: forget everything. `resetting` is 1 from the next cycle until everything that is
        owed to the port is settled. The contents of the KV buffer stay.
    error : ``Out(ErrorLayout)``
        The first error since the last reset. Reads that were issued are answered, further ones
        are not issued: their addresses may come from the data of the failed one.
    events : ``Out(EventLayout(config))``
        Events for the counters.
    """
    def __init__(self, config: Config):
        self.config = config
        lanes = config.lanes
        super().__init__({
            "axi": Out(AXI4Signature(config.addr_bits, config.port_bits)),
            "base": In(config.addr_bits), "kv_base": In(32), "kv_pinned": In(32),
            "commands": In(stream.Signature(CommandLayout)), "appended": In(1),
            "fetch": In(stream.Signature(FetchLayout)),
            "instructions": Out(stream.Signature(8 * INSTRUCTION_BYTES)),
            "requests": In(stream.Signature(RequestLayout)),
            "request_data": Out(stream.Signature(words(lanes))),
            "tables": Out(stream.Signature(words(lanes))),
            "kv_scales": Out(stream.Signature(words(config.softmax_lanes, 16))),
            "weights": Out(stream.Signature(8 * config.stride)),
            "freed": In(range(config.ring_words + 1)),
            "append": In(stream.Signature(AppendLayout)),
            "append_data": In(stream.Signature(words(lanes, 8))),
            "linear": In(stream.Signature(LinearLayout)),
            "linear_data": In(stream.Signature(words(lanes))),
            "single": In(stream.Signature(SingleLayout)),
            "write_idle": Out(1), "append_idle": Out(1), "reset": In(1), "resetting": Out(1),
            "error": Out(ErrorLayout), "events": Out(EventLayout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        halt = Signal()
        m.d.comb += halt.eq(self.reset | self.resetting)

        def clearable(name, component):
            """Add a submodule that a reset empties at once."""
            m.submodules[name] = ResetInserter(halt)(component)
            return component

        def admit(port, target):
            """Connect an input; what is offered during a reset waits for its end."""
            m.d.comb += [
                target.payload.eq(port.payload),
                target.valid.eq(port.valid & ~halt),
                port.ready.eq(target.ready & ~halt),
            ]

        kv_end = Signal(32)
        origin = Signal(config.addr_bits)
        m.d.sync += [
            kv_end.eq(self.kv_base + self.kv_pinned),
            origin.eq(self.base + (self.kv_base << ALIGN_LOG2)),
        ]

        # Plans. Commands part into two queues, so that tables and the ring's stream are
        # independent of each other.
        fetch = clearable("fetch_planner", FetchPlanner(config))
        request = clearable("request_planner", RequestPlanner(config))
        table = clearable("table_planner", TablePlanner(config))
        ring = clearable("stream_planner", StreamPlanner(config))
        table_commands = clearable("table_commands", Queue(CommandLayout, COMMANDS))
        ring_commands = clearable("stream_commands", Queue(CommandLayout, COMMANDS))
        admit(self.fetch, fetch.i)
        admit(self.requests, request.i)
        wiring.connect(m, table_commands.o, table.i)
        wiring.connect(m, ring_commands.o, ring.i)
        op = field(self.commands.payload, "op")
        for queue, ops in ((table_commands, (Op.NORM, Op.RMS, Op.APPEND)),
                           (ring_commands, (Op.MATMUL, Op.ATTN))):
            m.d.comb += queue.i.payload.eq(self.commands.payload)
            with m.If(op.matches(*(int(wanted) for wanted in ops))):
                m.d.comb += [
                    queue.i.valid.eq(self.commands.valid & ~halt),
                    self.commands.ready.eq(queue.i.ready & ~halt),
                ]
        m.d.comb += [
            *(planner.base.eq(self.base) for planner in (fetch, request, table, ring)),
            ring.kv_end.eq(kv_end),
            ring.appended.eq(self.appended),
        ]

        # Bursts, in their order of precedence.
        m.submodules.reader = reader = DMAReader(config, 4)
        for index, (name, planner, targets) in enumerate((
                ("program", fetch, (Target.PROGRAM,)), ("request", request, (Target.REQUEST,)),
                ("table", table, (Target.TABLES,)),
                ("stream", ring, (Target.RING, Target.SCALES)))):
            splitter = clearable(f"{name}_splitter", BurstSplitter(config, targets))
            # The choice of a burst is long enough without the plans that follow from it.
            skid = clearable(f"{name}_skid", Skid(splitter.sizes.piece))
            wiring.connect(m, planner.o, skid.i)
            wiring.connect(m, skid.o, splitter.i)
            wiring.connect(m, splitter.o, reader.bursts[index])

        # Data to their targets. The ring has reserved its own memory; the others get a queue.
        for target, port in ((Target.RING, self.weights), (Target.SCALES, self.kv_scales),
                             (Target.TABLES, self.tables), (Target.REQUEST, self.request_data),
                             (Target.PROGRAM, self.instructions)):
            name = target.name.lower()
            sizes = Sizes(config)
            gearbox = clearable(f"{name}_gearbox",
                                Gearbox(config.port_bits, 8 * sizes.word(target)))
            beats = getattr(reader, f"beats_{name}")
            freed = getattr(reader, f"freed_{name}")
            if target == Target.RING:
                wiring.connect(m, beats, gearbox.i)
                m.d.comb += freed.eq(self.freed * max(1, config.stride // config.port_bytes))
            else:
                queue = clearable(f"{name}_queue", Queue(sizes.beat_layout(target),
                                                         sizes.capacity(target)))
                wiring.connect(m, beats, queue.i)
                wiring.connect(m, queue.o, gearbox.i)
                m.d.comb += freed.eq(queue.o.valid & queue.o.ready)
            m.d.comb += [
                port.valid.eq(gearbox.o.valid),
                Value.cast(port.payload).eq(gearbox.o.payload),
                gearbox.o.ready.eq(port.ready),
            ]

        # Writes, which also keep the KV buffer up to date.
        jobs = clearable("write_jobs", WriteJobs(config))
        m.submodules.writer = writer = DMAWriter(config)
        buffer = clearable("kv_buffer", KVBuffer(config))
        # Whoever sends logits need not see how full the queue of beats is.
        logits = clearable("linear_skid", Skid(self.linear_data.payload.shape()))
        wiring.connect(m, logits.o, jobs.linear_data)
        admit(self.linear_data, logits.i)
        for name in ("append", "append_data", "linear", "single"):
            admit(getattr(self, name), getattr(jobs, name))
        wiring.connect(m, jobs.beat, writer.beat)
        wiring.connect(m, jobs.burst, writer.burst)
        wiring.connect(m, reader.kv_request, buffer.request)
        wiring.connect(m, buffer.o, reader.kv_beat)
        m.d.comb += [
            jobs.base.eq(self.base),
            jobs.kv_end.eq(kv_end),
            buffer.origin.eq(origin),
            self.write_idle.eq(jobs.idle & writer.idle),
        ]

        # A cycle late, to part the paths; no read asks for a word before its write is
        # acknowledged. Outside of the reset: what goes to memory goes to the buffer as well.
        m.d.sync += [
            buffer.write_addr.eq(jobs.beat_addr),
            buffer.write_data.eq(jobs.beat.payload.data),
            buffer.write_strb.eq(jobs.pinned_strb),
        ]
        # Reads of what is pinned never go to memory: no acknowledgement is awaited.
        owed = Signal()
        m.d.comb += self.append_idle.eq(jobs.idle & (writer.idle | ~owed))
        with m.If(jobs.unpinned):
            m.d.sync += owed.eq(1)
        with m.Elif(self.write_idle | halt):
            m.d.sync += owed.eq(0)

        self._connect_axi(m, reader, writer)

        # Reset: the engines settle what they owe while everything else is held empty.
        m.d.comb += [reader.halt.eq(halt), writer.halt.eq(halt),
                     reader.stop.eq(self.error.valid)]
        with m.If(self.reset):
            m.d.sync += self.resetting.eq(1)
        with m.Elif(reader.idle & writer.idle):
            m.d.sync += self.resetting.eq(0)

        with m.If(halt):
            m.d.sync += self.error.valid.eq(0)
        with m.Elif(~self.error.valid):
            m.d.sync += self.error.eq(Mux(reader.error.valid, reader.error, writer.error))

        connect_events(m, self.events, reader, writer, ring)
        return m

    def _connect_axi(self, m, reader, writer):
        size = self.config.port_bytes.bit_length() - 1
        for names, engine in ((("arvalid", "araddr", "arlen", "arid", "rready"), reader),
                              (("awvalid", "awaddr", "awlen", "awid", "wvalid", "wdata", "wstrb",
                                "wlast", "bready"), writer)):
            m.d.comb += [getattr(self.axi, name).eq(getattr(engine, name)) for name in names]
        for names, engine in ((("arready", "rvalid", "rid", "rdata", "rresp"), reader),
                              (("awready", "wready", "bvalid", "bresp"), writer)):
            m.d.comb += [getattr(engine, name).eq(getattr(self.axi, name)) for name in names]
        m.d.comb += [
            self.axi.arsize.eq(size), self.axi.arburst.eq(INCR),
            self.axi.awsize.eq(size), self.axi.awburst.eq(INCR),
        ]

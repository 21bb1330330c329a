"""Counters of 64 bits in a memory, with narrow counters in front."""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import CLASSES, Config
from ..matmul.matmul import EventsLayout as MatmulEvents
from ..regmap import COUNTERS


__all__ = ["CounterBank", "IncrementLayout"]


#: The counter that is a register of full width.
CYCLES = COUNTERS.index("cycles")


def IncrementLayout(config: Config):
    """What one cycle adds to each counter but `cycles`.

    `read_weights` is signed: the bytes of scales inside weight streams are taken from it when they
    are recognised, after they have been read.
    """
    port = range(config.port_bytes + 1)
    matmul = MatmulEvents(config)
    scales = Shape.cast(matmul["scale_bytes"].shape)
    shapes = {
        **{f"read_{name}": port for name in CLASSES},
        "read_weights": signed(max(scales.width, Shape.cast(port).width) + 1),
        "read_scales": scales,
        "written_kv": port, "written_activations": port, "kv_hits": port, "kv_misses": port,
        "macs": matmul["macs"].shape,
    }
    return data.StructLayout({name: shapes.get(name, 1) for name in COUNTERS if name != "cycles"})


class CounterBank(wiring.Component):
    """All counters of a run.

    Each counter is the sum of a word in a memory and of a narrow register, which is added to the
    word in turn: one adder of 64 bits serves all. `cycles` is a register. All counters change at
    the same time, one cycle after the event, so that sums hold at every moment.

    Members
    -------
    start : ``In(1)``
        Everything becomes 0.
    run : ``In(1)``
        Count in this cycle.
    increments : ``In(IncrementLayout(config))``
        What this cycle adds.
    hold : ``In(1)``
        Take a snapshot. The next one may be taken when all words have been read.
    index : ``In(8)``
        Word of the snapshot: counter ``index // 2``, its low half first. Words must be read in
        order, not more than one in 3 cycles.
    word : ``Out(32)``
        The word, one cycle after its index.
    read, read_index : ``In(1)``, ``In(range(len(COUNTERS)))``
        Read a counter, until `read_done`.
    read_done, read_data : ``Out(1)``, ``Out(64)``
        Its value now, at most 100 cycles after `read`.
    """

    #: Bits of the narrow counters beyond those of the increment. Between two visits lie a round
    #: of all counters, a snapshot and reads: less than 256 cycles.
    extra_bits = 8

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "start": In(1), "run": In(1), "increments": In(IncrementLayout(config)),
            "hold": In(1), "index": In(8), "word": Out(32),
            "read": In(1), "read_index": In(range(len(COUNTERS))),
            "read_done": Out(1), "read_data": Out(64),
        })

    def elaborate(self, platform):
        m = Module()
        layout = IncrementLayout(self._config)
        names = [name for name in COUNTERS if name != "cycles"]
        number = range(len(COUNTERS))

        run = Signal()
        cycles, cycles_held = Signal(64), Signal(64)
        increments = Signal(layout)
        m.d.sync += [run.eq(self.run), increments.eq(self.increments)]
        with m.If(run):
            m.d.sync += cycles.eq(cycles + 1)
        with m.If(self.hold):
            m.d.sync += cycles_held.eq(cycles)

        # A visit takes two cycles: read the word, then write the sum. What the next visit is for is
        # decided in the second one of the visit before, so that it comes out of registers.
        flush_index = Signal(number, init=1)
        hold_index = Signal(number)          # 0: no snapshot is being taken
        write = Signal(init=1)
        kind, written_kind = Signal(2), Signal(2)    # 0 flush, 1 snapshot, 2 read
        index, visited = Signal(number), Signal(number)
        flushes = Signal(len(COUNTERS))      # one hot: counters that this cycle moves to the word
        m.d.sync += write.eq(~write)
        with m.If(write):
            m.d.sync += flushes.eq(0)
            # A snapshot that begins now has been copied when the next visit begins.
            with m.If(self.hold | (hold_index != 0)):
                following = Mux(self.hold, 1, hold_index)
                m.d.sync += [kind.eq(1), index.eq(following),
                             hold_index.eq(Mux(following == len(COUNTERS) - 1, 0, following + 1))]
            with m.Elif(self.read & ~self.read_done):
                m.d.sync += [kind.eq(2), index.eq(self.read_index)]
            with m.Else():
                m.d.sync += [kind.eq(0), index.eq(flush_index), flushes.eq(1 << flush_index),
                             flush_index.eq(Mux(flush_index == len(COUNTERS) - 1, 1,
                                                flush_index + 1))]
        with m.Else():
            m.d.sync += [flushes.eq(0), written_kind.eq(kind), visited.eq(index)]
            with m.If(self.hold):
                m.d.sync += hold_index.eq(1)

        narrow, held = [], []
        fresh = Signal(len(COUNTERS), init=-1)      # nothing has been added to the word yet
        for position, name in enumerate(names, start=1):
            shape = Shape.cast(layout[name].shape)
            shape = Shape(shape.width + self.extra_bits, shape.signed)
            counter, copy = Signal(shape, name=name), Signal(shape, name=f"{name}_held")
            kept = Signal(shape, name=f"{name}_kept")
            m.d.comb += kept.eq(Mux(flushes[position], 0, counter))
            with m.If(self.hold):
                m.d.sync += copy.eq(kept)
            m.d.sync += counter.eq(Mux(run, kept + increments[name], kept))
            with m.If(self.start):
                m.d.sync += counter.eq(0)
            narrow.append(counter)
            held.append(copy)
        widest = max(len(counter) for counter in narrow)
        addend, zero = Signal(signed(widest + 1)), Signal()
        with m.If(~write):
            m.d.sync += addend.eq(Mux(kind == 1, self._select(m, held, index, "held"),
                                      self._select(m, narrow, index, "narrow")))
            m.d.sync += zero.eq(fresh.bit_select(index, 1))
        m.d.sync += fresh.eq(fresh & ~flushes)
        with m.If(self.start):
            m.d.sync += [fresh.eq(-1), cycles.eq(0)]

        m.submodules.totals = totals = Memory(shape=64, depth=len(COUNTERS), init=[])
        m.submodules.snapshot = snapshot = Memory(shape=64, depth=len(COUNTERS), init=[])
        old, new = totals.read_port(), totals.write_port()
        snap_read, snap_write = snapshot.read_port(), snapshot.write_port()
        total = Signal(64)
        m.d.comb += [
            old.addr.eq(index),
            total.eq(Mux(zero, 0, old.data) + addend),
            new.addr.eq(visited), new.data.eq(total), new.en.eq(write & (written_kind == 0)),
            snap_write.addr.eq(visited), snap_write.data.eq(total),
            snap_write.en.eq(write & (written_kind == 1)),
        ]

        high, first = Signal(), Signal()
        m.d.sync += [high.eq(self.index[0]), first.eq(self.index[1:] == CYCLES)]
        m.d.comb += [
            snap_read.addr.eq(self.index[1:]),
            self.word.eq(Mux(first, cycles_held, snap_read.data).word_select(high, 32)),
            self.read_done.eq(self.read & write & (written_kind == 2)
                              & (visited == self.read_index)),
            self.read_data.eq(Mux(visited == CYCLES, cycles, total)),
        ]

        return m

    def _select(self, m, values, index, name):
        """Value of counter `index`; the first one is counter 1."""
        width = max(len(value) for value in values)
        selected = Signal(signed(width + 1), name=f"{name}_selected")
        with m.Switch(index):
            for position, value in enumerate(values, start=1):
                with m.Case(position):
                    m.d.comb += selected.eq(value)
        return selected

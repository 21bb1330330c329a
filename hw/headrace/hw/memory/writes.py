"""Everything that the vector unit writes, as one stream of beats."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import CLASSES, Config
from ..interfaces import AppendLayout, words
from .append import AppendWriter
from .layouts import LinearLayout, SingleLayout, Sizes
from .pieces import ALIGN_LOG2
from .queue import Queue
from .scatter import ScatterWriter
from .serializer import Serializer


__all__ = ["WriteJobs"]


#: Appends that wait, and words of them: a short APPEND ends before it is written, so that the
#: vector unit can go on.
APPENDS = 4
APPEND_WORDS = 32


class WriteJobs(wiring.Component):
    """Put appends, vectors and single words behind each other, and place them.

    Runs are taken one at a time, single words first, then vectors, then appends; there is no
    order between the three. A vector of no elements is dropped.

    Members
    -------
    append, append_data : ``In(stream.Signature(AppendLayout))``, ``In(stream of words(lanes, 8))``
        Appends to the cache, class kv.
    linear, linear_data : ``In(stream.Signature(LinearLayout))``, ``In(stream of words(lanes))``
        Vectors, class activations. The last word may be partial.
    single : ``In(stream.Signature(SingleLayout))``
        Words, class activations.
    base, kv_end : ``In(addr_bits)``, ``In(32)``
        Address that all others count from; first unit behind the pinned part of the cache.
    beat, burst, pinned_strb, beat_addr : as in `ScatterWriter`
        What is to be written.
    idle : ``Out(1)``
        Nothing that was accepted is still in here.
    unpinned : ``Out(1)``
        Pulse: an append goes to memory only, not to the KV buffer.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "append": In(stream.Signature(AppendLayout)),
            "append_data": In(stream.Signature(words(config.lanes, 8))),
            "linear": In(stream.Signature(LinearLayout)),
            "linear_data": In(stream.Signature(words(config.lanes))),
            "single": In(stream.Signature(SingleLayout)),
            "base": In(config.addr_bits), "kv_end": In(32),
            "beat": Out(stream.Signature(ScatterWriter.beat_layout(config))),
            "burst": Out(stream.Signature(ScatterWriter.burst_layout(config))),
            "pinned_strb": Out(config.port_bytes), "beat_addr": Out(config.addr_bits),
            "idle": Out(1), "unpinned": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        m.submodules.append = append = AppendWriter(config)
        m.submodules.scatter = scatter = ScatterWriter(config)
        m.submodules.serializer = serializer = Serializer(config.lanes, 4)
        m.submodules.append_queue = heads = Queue(AppendLayout, APPENDS)
        m.submodules.append_data_queue = values = Queue(words(config.lanes, 8), APPEND_WORDS)
        for name, port in (("append", heads.i), ("append_data", values.i),
                           ("linear_data", serializer.i)):
            wiring.connect(m, wiring.flipped(getattr(self, name)), port)
        wiring.connect(m, heads.o, append.append)
        wiring.connect(m, values.o, append.data)
        for name in ("beat", "burst"):
            wiring.connect(m, getattr(scatter, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [
            append.base.eq(self.base),
            append.kv_end.eq(self.kv_end),
            self.unpinned.eq(append.unpinned),
            append.wide.eq(scatter.size != 0),
            self.pinned_strb.eq(scatter.pinned_strb),
            self.beat_addr.eq(scatter.beat_addr),
        ]

        # One register of runs for vectors and one for words.
        run = Sizes(config).run
        linear = stream.Signature(run).create(path=("linear_run",))
        single = stream.Signature(run).create(path=("single_run",))
        for source, target in ((self.linear, linear), (self.single, single)):
            # Not in the cycle in which the last run is taken, which is known late.
            m.d.comb += source.ready.eq(~target.valid)
            with m.If(target.ready):
                m.d.sync += target.valid.eq(0)
            with m.If(source.ready):
                m.d.sync += [
                    target.valid.eq(source.valid),
                    target.payload.step.eq(4),
                    target.payload.size.eq(2),
                    target.payload.cls.eq(CLASSES.index("activations")),
                ]
        with m.If(self.linear.ready):
            m.d.sync += [
                linear.valid.eq(self.linear.valid & (self.linear.payload.elems != 0)),
                linear.payload.addr.eq(self.base + (self.linear.payload.addr << ALIGN_LOG2)),
                linear.payload["items"].eq(self.linear.payload.elems),
            ]
        with m.If(self.single.ready):
            m.d.sync += [
                single.payload.addr.eq(self.base + self.single.payload.addr),
                single.payload["items"].eq(1),
                single.payload.literal.eq(1),
                single.payload.value.eq(self.single.payload.data),
            ]

        is_append = Signal()                    # the run in progress is an append's
        sources = (single, linear, append.run)
        chosen = Signal(range(len(sources)))
        m.d.comb += chosen.eq(Mux(single.valid, 0, Mux(linear.valid, 1, 2)))
        for index, source in enumerate(sources):
            with m.If(chosen == index):
                m.d.comb += [
                    scatter.run.valid.eq(source.valid),
                    scatter.run.payload.eq(source.payload),
                    source.ready.eq(scatter.run.ready),
                ]
        with m.If(scatter.run.ready):
            m.d.sync += is_append.eq(chosen == 2)

        m.d.comb += serializer.drop.eq(scatter.final)
        with m.If(is_append):
            m.d.comb += [
                scatter.item.valid.eq(append.item.valid),
                scatter.item.payload.eq(append.item.payload),
                append.item.ready.eq(scatter.item.ready),
            ]
        with m.Else():
            m.d.comb += [
                scatter.item.valid.eq(serializer.o.valid),
                scatter.item.payload.eq(serializer.o.payload),
                serializer.o.ready.eq(scatter.item.ready),
            ]

        m.d.comb += self.idle.eq(heads.empty & ~append.busy & ~linear.valid & ~single.valid
                                  & ~scatter.active)

        return m

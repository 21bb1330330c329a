"""What accompanies each row of sums to the accumulator."""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import KV_BLOCK, Config
from ..formats import ONE_BITS
from ..interfaces import PScaleLayout, SWriteSignature
from .layouts import SCALE_SLOTS, PassLayout, RowLayout, in_buffer, macs_bits


__all__ = ["RowTagger"]


class RowTagger(wiring.Component):
    """Walk over the rows of a pass, one per cycle, and describe each.

    Holds the memory of activation scales and the factors of the probabilities (`p_buffers`
    buffers). Scale addresses, storage addresses and useful products are running sums; streams
    continue from pass to pass of a block.

    Latency: row ``r`` of a pass is read in cycle ``1 + r`` after `start` and leaves one cycle
    later. Passes start at least as many cycles apart as they have rows.

    Members
    -------
    s_write : ``In(SWriteSignature)``
        Write port of the memory of activation scales.
    p_en, p_buffer, p_stream, p_scale : ``In``
        Write port of the factors of the probabilities.
    start : ``In(1)``
        A pass begins: sample `work`, `buffer` and `slot`.
    work : ``In(PassLayout(config))``
        The pass.
    buffer : ``In(range(p_buffers))``
        Buffer of the probabilities that it uses.
    slot : ``In(range(SCALE_SLOTS))``
        Slot of the weight scales that it uses.
    o_valid, o : ``Out(1)``, ``Out(RowLayout(config))``
        Description of a row.
    macs : ``Out``
        Useful multiply-accumulates of a row in the pass, a cycle after its description; 0 when
        there is none.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "s_write": In(SWriteSignature(config)),
            "p_en": In(1), "p_buffer": In(range(config.p_buffers)),
            "p_stream": In(range(config.streams)), "p_scale": In(PScaleLayout),
            "start": In(1), "work": In(PassLayout(config)),
            "buffer": In(range(config.p_buffers)), "slot": In(range(SCALE_SLOTS)),
            "o_valid": Out(1), "o": Out(RowLayout(config)), "macs": Out(macs_bits(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        work = Signal(PassLayout(config))
        buffer = Signal.like(self.buffer)
        slot = Signal.like(self.slot)
        left = Signal(range(config.rows + 1))
        s_head = Signal(16)              # scale of stream 0 in group 0 of the head
        s_row = Signal(16)               # ... of the present stream
        stream = Signal(range(config.streams))
        storage = Signal(range(config.acc_words))
        tokens = Signal(signed(13))      # tokens up to the position of the stream
        beyond = Signal(signed(13))      # ... and those that its window leaves out
        repeat = Signal(8)
        active = Signal()
        m.d.comb += active.eq(left != 0)

        with m.If(active):
            m.d.sync += [left.eq(left - 1), s_row.eq(s_row + work.s_stride),
                         stream.eq(stream + 1), storage.eq(storage + work.row_words)]
            with m.If(repeat == 1):
                m.d.sync += [repeat.eq(work.n_rep), tokens.eq(tokens + 1),
                             beyond.eq(beyond + 1)]
            with m.Else():
                m.d.sync += repeat.eq(repeat - 1)
            with m.If((left == 1) & work.head_done):
                m.d.sync += s_head.eq(s_row + work.s_stride)
        with m.If(self.start):
            new = self.work
            m.d.sync += [work.eq(new), buffer.eq(self.buffer), slot.eq(self.slot),
                         left.eq(new.rows)]
            with m.If(new.s_start):
                m.d.sync += [s_head.eq(new.s_base), s_row.eq(new.s_base)]
            with m.Elif(new.restart):
                # The head may end with the row that is read in this very cycle.
                ends = active & work.head_done
                m.d.sync += s_row.eq(Mux(ends, s_row + work.s_stride, s_head))
            with m.If(new.restart):
                m.d.sync += [stream.eq(0), tokens.eq(new.tokens),
                             beyond.eq(new.beyond), repeat.eq(new.n_rep)]
            with m.If(new.acc_start):
                m.d.sync += storage.eq(Mux(new.v, config.streams * config.col_words, 0))

        # Memories.
        m.submodules.scales = scales = memory.Memory(shape=32, depth=config.s_words, init=[])
        s_write = scales.write_port()
        s_read = scales.read_port()
        m.submodules.factors = factors = memory.Memory(
            shape=unsigned(Shape.cast(PScaleLayout).width),
            depth=config.p_buffers * config.streams, init=[])
        p_write = factors.write_port()
        p_read = factors.read_port()
        m.d.comb += [
            s_write.en.eq(self.s_write.en), s_write.addr.eq(self.s_write.addr),
            s_write.data.eq(self.s_write.data),
            s_read.en.eq(active & ~work.v), s_read.addr.eq(s_row + work.group),
            p_write.en.eq(self.p_en),
            p_write.addr.eq(in_buffer(config, self.p_buffer, config.streams, self.p_stream)),
            p_write.data.eq(self.p_scale),
            p_read.en.eq(active & work.v),
            p_read.addr.eq(in_buffer(config, buffer, config.streams, stream)),
        ]

        # One cycle later, beside the data.
        tag = Signal(RowLayout(config))
        from_p = Signal()
        factor = Signal(PScaleLayout)
        m.d.sync += [
            self.o_valid.eq(active), from_p.eq(work.v),
            tag.addr.eq(storage), tag.words.eq(work.row_words), tag.first.eq(work.first),
            tag.narrow.eq(work.narrow),
            tag.last.eq(work.last), tag.scores.eq(work.attn & ~work.v), tag.scaled.eq(~work.attn),
            tag.affine.eq(work.affine), tag.slot.eq(slot),
            tag.release.eq(work.closes & ~work.attn & (left == 1)),
        ]
        m.d.comb += [
            factor.eq(p_read.data), self.o.eq(tag),
            self.o.act_scale.eq(Mux(from_p, factor.act_scale, s_read.data)),
            self.o.rescale.eq(Mux(from_p, factor.rescale, ONE_BITS)),
            self.o.row_scale.eq(Mux(from_p, factor.inv_sum, ONE_BITS)),
        ]

        # Useful products, in two cycles: every factor but the number of columns is a shift.
        most = Mux(work.v, KV_BLOCK, config.k_cols)
        count = Signal(range(KV_BLOCK + 1))
        counts = Signal()
        attn, v, narrow, length = (Signal(getattr(work, name).shape(), name=f"counted_{name}")
                                   for name in ("attn", "v", "narrow", "length"))

        def inside(number):
            return Mux(number <= 0, 0, Mux(number >= most, most, number))

        m.d.sync += [
            count.eq(inside(tokens) - inside(beyond)), counts.eq(active), attn.eq(work.attn),
            v.eq(work.v), narrow.eq(work.narrow), length.eq(work.length),
        ]
        useful = Signal.like(self.macs)
        with m.If(~attn):
            m.d.comb += useful.eq((length >> 4) * (16 * config.cols))
            for value in config.last_tiles(8)[1:]:
                with m.If(narrow == value):
                    m.d.comb += useful.eq((length >> 4) * (16 * config.stride >> value))
        with m.Elif(v):
            with m.Switch(narrow):
                for value in range(4):
                    with m.Case(value):
                        m.d.comb += useful.eq(count * (config.stride >> value))
        with m.Else():
            m.d.comb += useful.eq(Mux(length[5], count << 5, count << 4))
        m.d.sync += self.macs.eq(Mux(counts, useful, 0))

        return m

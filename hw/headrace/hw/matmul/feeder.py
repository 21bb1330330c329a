"""Activations for the array: activation SRAM and probabilities."""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import KV_BLOCK, Config
from ..interfaces import AWriteSignature, words
from .layouts import in_buffer


__all__ = ["Feeder"]


class Feeder(wiring.Component):
    """A word holds ``lanes`` values of each of ``rows`` rows; it is read once and shifted out.

    Latency: 2 cycles from `fetch` to the first values of the word, ``2**fold`` values per row and
    cycle.

    Members
    -------
    a_write : ``In(AWriteSignature)``
        Write port of the activation SRAM.
    p_en, p_buffer, p_addr, p_row, p_data : ``In``
        Write port of the probabilities, see `PWriteSignature`.
    start : ``In(1)``
        A pass begins: sample `addr`, `from_p` and `buffer`.
    addr : ``In(16)``
        Its first word.
    from_p : ``In(1)``
        Read probabilities, of `buffer`, and not the activation SRAM.
    buffer : ``In(range(p_buffers))``
        Buffer of the probabilities.
    fetch : ``In(1)``
        Read the next word, from the cycle after `start` on.
    fold : ``In(range(log2(folds) + 1))``
        log2 of the values per row and cycle. Sampled in every cycle.
    o : ``Out(ArrayLayout(8, rows * folds))``
        Activations: value `j` of row `r` at ``r * folds + j``; those from ``2**fold`` on are
        undefined.
    """
    def __init__(self, config: Config):
        self.config = config
        #: Words of one buffer of probabilities.
        self.p_words = -(-config.streams // config.rows) * (KV_BLOCK // config.lanes)
        super().__init__({
            "a_write": In(AWriteSignature(config)),
            "p_en": In(1), "p_buffer": In(range(config.p_buffers)),
            "p_addr": In(range(self.p_words)),
            "p_row": In(range(config.rows)), "p_data": In(words(config.lanes, 8)),
            "start": In(1), "addr": In(16), "from_p": In(1),
            "buffer": In(range(config.p_buffers)), "fetch": In(1),
            "fold": In(range(config.folds.bit_length())),
            "o": Out(words(config.rows * config.folds, 8)),
        })

    def elaborate(self, platform):
        m = Module()
        rows, lanes = self.config.rows, self.config.lanes

        addr = Signal(16)
        from_p = Signal()
        buffer = Signal.like(self.buffer)
        with m.If(self.start):
            m.d.sync += [addr.eq(self.addr), from_p.eq(self.from_p), buffer.eq(self.buffer)]
        with m.Elif(self.fetch):
            m.d.sync += addr.eq(addr + 1)

        def storage(name, depth, en, row, write_addr, values, read_addr, read_en):
            m.submodules[name] = mem = memory.Memory(
                shape=unsigned(8 * rows * lanes), depth=depth, init=[])
            write = mem.write_port(granularity=8 * lanes)
            read = mem.read_port()
            m.d.comb += [write.addr.eq(write_addr),
                         write.data.eq(Value.cast(values).replicate(rows)),
                         read.addr.eq(read_addr), read.en.eq(read_en)]
            for r in range(rows):
                m.d.comb += write.en[r].eq(en & (row == r))
            return read.data

        a = self.a_write
        a_word = storage("a", self.config.a_words, a.en, a.row, a.addr, a.data, addr,
                         self.fetch & ~from_p)
        p_word = storage("p", self.config.p_buffers * self.p_words, self.p_en, self.p_row,
                         in_buffer(self.config, self.p_buffer, self.p_words, self.p_addr),
                         self.p_data, in_buffer(self.config, buffer, self.p_words, addr),
                         self.fetch & from_p)

        fresh = Signal()
        fresh_p = Signal()
        m.d.sync += [fresh.eq(self.fetch), fresh_p.eq(from_p)]
        # The window of `folds` values that the low end shows; a cycle takes 2**fold of them.
        folds = self.config.folds
        fold = Signal.like(self.fold)
        at = Signal(range(folds))
        behind = Signal(range(folds + 1))
        m.d.comb += behind.eq(at + (C(1) << fold))
        m.d.sync += [fold.eq(self.fold), at.eq(Mux(fresh, 0, behind))]
        for r in range(rows):
            part = slice(8 * lanes * r, 8 * lanes * (r + 1))
            values = Signal(8 * lanes, name=f"values_{r}", reset_less=True)
            with m.If(fresh):
                m.d.sync += values.eq(Mux(fresh_p, p_word[part], a_word[part]))
            with m.Elif(behind == folds):
                m.d.sync += values.eq(values >> 8 * folds)
            for j in range(folds):
                # `at` is a multiple of the fold, and value `j` is used if that is greater.
                step = 1 << j.bit_length()
                m.d.comb += self.o[r * folds + j].eq(
                    values[:8 * folds].word_select(at[j.bit_length():], 8 * step)[8 * j:8 * j + 8]
                    if step < folds else values[8 * j:8 * j + 8])

        return m

"""Change of width between beats and words."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


__all__ = ["Gearbox"]


class Gearbox(wiring.Component):
    """Turn beats into words whose width is a fixed ratio of a beat; lowest bits come first.

    Where words are shorter, ``words + 1`` words of each beat leave and the rest is dropped. Where
    words are longer, a word leaves when it is full or after a beat with `flush`, whose missing
    upper part is then undefined. Latency: 1 cycle. Throughput: one beat or one word per cycle,
    whichever is the less.

    Parameters
    ----------
    i_bits, o_bits : int
        Widths of beats and of words; one divides the other.

    Members
    -------
    i : ``In(stream.Signature({data: i_bits, words: range(i_bits // o_bits), flush: 1}))``
        Beats.
    o : ``Out(stream.Signature(o_bits))``
        Words.
    """
    def __init__(self, i_bits, o_bits):
        if i_bits % o_bits and o_bits % i_bits:
            raise ValueError(f"one of i_bits and o_bits must divide the other, "
                             f"not {i_bits} and {o_bits}")
        self.i_bits = i_bits
        self.o_bits = o_bits
        self.split = max(1, i_bits // o_bits)
        self.gather = max(1, o_bits // i_bits)
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({
                "data": i_bits, "words": range(self.split), "flush": 1}))),
            "o": Out(stream.Signature(o_bits)),
        })

    def elaborate(self, platform):
        m = Module()

        if self.split > 1:
            word = Signal(self.i_bits, reset_less=True)
            left = Signal(range(self.split))
            m.d.comb += [
                self.o.payload.eq(word),
                self.i.ready.eq(~self.o.valid | (self.o.ready & (left == 0))),
            ]
            with m.If(self.o.valid & self.o.ready):
                m.d.sync += [word.eq(word[self.o_bits:]), left.eq(left - 1)]
            with m.If(self.i.ready):
                m.d.sync += [
                    word.eq(self.i.payload.data),
                    left.eq(self.i.payload.words),
                    self.o.valid.eq(self.i.valid),
                ]
            return m

        part = Signal(range(self.gather))
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.i.valid & self.i.ready):
            # Each part of the word has its own enable: no shifting of wide words.
            for index in range(self.gather):
                with m.If(part == index):
                    m.d.sync += self.o.payload[index * self.i_bits:(index + 1) * self.i_bits].eq(
                        self.i.payload.data)
            with m.If(self.i.payload.flush | (part == self.gather - 1)):
                m.d.sync += [part.eq(0), self.o.valid.eq(1)]
            with m.Else():
                m.d.sync += part.eq(part + 1)

        return m

"""Rows of weights out of words of the ring."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import words
from .layouts import walk_values


__all__ = ["RowUnpacker"]


class RowUnpacker(wiring.Component):
    """Split words into rows of int8.

    A word lasts ``2**walk`` cycles, its low bits first: with a narrow tile each part holds one
    row, or those that folds take side by side. Columns beyond get whatever follows; their sums are
    not used. With `nibbles` a part holds 4 bits per column, signed or with `affine` unsigned.

    Latency: 1 cycle from `fresh` to the first part of the word, 1 part per cycle.

    Members
    -------
    word : ``In(8 * stride)``
        Word of the ring.
    fresh : ``In(1)``
        Take `word`; otherwise go on to the next part of the word.
    walk : ``In(2)``
        log2 of the parts of a word. Sampled in every cycle.
    nibbles, affine : ``In(1)``
        Format, sampled with `fresh`.
    o : ``Out(ArrayLayout(8, cols))``
        Row of weights.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "word": In(8 * config.stride), "fresh": In(1), "walk": In(2), "nibbles": In(1),
            "affine": In(1), "o": Out(words(config.cols, 8)),
        })

    def elaborate(self, platform):
        m = Module()
        bits = 8 * self.config.stride
        row = Signal(bits, reset_less=True)
        nibbles = Signal()
        affine = Signal()
        with m.If(self.fresh):
            m.d.sync += [row.eq(self.word), nibbles.eq(self.nibbles), affine.eq(self.affine)]
        with m.Else():
            # Only the steps that this configuration knows, so no shifter.
            walks = [walk for walk in walk_values(self.config) if walk]
            with m.Switch(self.walk):
                for walk in walks:
                    with m.Case(walk):
                        m.d.sync += row.eq(row >> (bits >> walk))
        for c, out in enumerate(self.o[c] for c in range(self.config.cols)):
            low = row[4 * c:4 * c + 4]
            high = Mux(nibbles, (low[3] & ~affine).replicate(4), row[8 * c + 4:8 * c + 8])
            m.d.comb += out.eq(Cat(Mux(nibbles, low, row[8 * c:8 * c + 4]), high))
        return m

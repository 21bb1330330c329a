"""Rows of weights out of words of the ring."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import words
from .layouts import select_values


__all__ = ["RowUnpacker"]


class RowUnpacker(wiring.Component):
    """Split words into rows of int8.

    A word holds ``2**select`` rows, the first in its low bits. Columns beyond a row get whatever
    follows; their sums are not used. With `nibbles` a row holds 4 bits per column, signed or with
    `affine` unsigned.

    Latency: 1 cycle from `fresh` to the first row of the word, 1 row per cycle.

    Members
    -------
    word : ``In(8 * stride)``
        Word of the ring.
    fresh : ``In(1)``
        Take `word`; otherwise go on to the next row of the word.
    select : ``In(2)``
        log2 of the rows of a word. Sampled in every cycle.
    nibbles, affine : ``In(1)``
        Format, sampled with `fresh`.
    o : ``Out(ArrayLayout(8, cols))``
        Row of weights.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "word": In(8 * config.stride), "fresh": In(1), "select": In(2), "nibbles": In(1),
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
            # Only the selections that this configuration knows, so no shifter.
            selects = [select for select in select_values(self.config) if select]
            with m.Switch(self.select):
                for select in selects:
                    with m.Case(select):
                        m.d.sync += row.eq(row >> (bits >> select))
        for c, out in enumerate(self.o[c] for c in range(self.config.cols)):
            low = row[4 * c:4 * c + 4]
            high = Mux(nibbles, (low[3] & ~affine).replicate(4), row[8 * c + 4:8 * c + 8])
            m.d.comb += out.eq(Cat(Mux(nibbles, low, row[8 * c:8 * c + 4]), high))
        return m

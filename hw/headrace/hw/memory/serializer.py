"""Words of several lanes into items."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..interfaces import words


__all__ = ["Serializer"]


class Serializer(wiring.Component):
    """Hand out the lanes of a word, lowest first: one per item, or `group` per item.

    Latency: 1 cycle. Throughput: one item per cycle.

    Parameters
    ----------
    lanes, lane_bytes : int
        Words.
    group : int
        Lanes of a wide item; divides `lanes`.

    Members
    -------
    i : ``In(stream.Signature(words(lanes, 8 * lane_bytes)))``
        Words.
    o : ``Out(stream.Signature(32))``
        Items in the lowest bits; what is above them is undefined.
    wide : ``In(1)``
        Items have `group` lanes. Changes only between words.
    drop : ``In(1)``
        The item that is taken in this cycle is the last one that counts in its word.
    """
    def __init__(self, lanes, lane_bytes, group=1):
        self.lanes = lanes
        self.lane_bits = 8 * lane_bytes
        self.group = group
        super().__init__({
            "i": In(stream.Signature(words(lanes, 8 * lane_bytes))),
            "o": Out(stream.Signature(32)), "wide": In(1), "drop": In(1),
        })

    def elaborate(self, platform):
        m = Module()

        word = Signal(self.lanes * self.lane_bits, reset_less=True)
        left = Signal(range(self.lanes + 1))    # lanes that are still to go
        step = Mux(self.wide, self.group, 1)
        last = Signal()
        taken = Signal()
        m.d.comb += [
            self.o.payload.eq(word),
            self.o.valid.eq(left != 0),
            taken.eq(self.o.valid & self.o.ready),
            last.eq(self.drop | (left == step)),
            self.i.ready.eq((left == 0) | (taken & last)),
        ]
        with m.If(taken):
            m.d.sync += left.eq(left - step)
            with m.If(self.wide):
                m.d.sync += word.eq(word >> self.group * self.lane_bits)
            with m.Else():
                m.d.sync += word.eq(word >> self.lane_bits)
        with m.If(self.i.ready):
            m.d.sync += [
                word.eq(self.i.payload),
                left.eq(Mux(self.i.valid, self.lanes, 0)),
            ]

        return m

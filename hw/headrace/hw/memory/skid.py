"""A stream whose ready does not depend on the far side's."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


__all__ = ["Skid"]


class Skid(wiring.Component):
    """Cut the path from the ready of `o` to that of `i`, by room for one item.

    Latency: 0 cycles. Throughput: one item per cycle.

    Parameters
    ----------
    shape : ShapeLike
        Items.

    Members
    -------
    i, o : ``In(stream.Signature(shape))``, ``Out(stream.Signature(shape))``
        Items.
    """
    def __init__(self, shape):
        self._shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()

        held = Signal()
        item = Signal(self._shape, reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~held),
            self.o.valid.eq(self.i.valid | held),
            self.o.payload.eq(Mux(held, item, self.i.payload)),
        ]
        m.d.sync += held.eq(self.o.valid & ~self.o.ready)
        with m.If(~held):
            m.d.sync += item.eq(self.i.payload)

        return m

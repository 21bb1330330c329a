"""Queue between streams."""

from amaranth import *
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out


__all__ = ["Queue"]


class Queue(wiring.Component):
    """First in, first out. Latency: 2 cycles when empty. Throughput: one item per cycle.

    The memory's read port is synchronous and never meets a write to the same word.

    Parameters
    ----------
    shape : ShapeLike
        Items.
    depth : int
        Items that the queue holds, at least 2. One of them is the output's register, so
        ``depth - 1`` items find place at once and the last one a cycle later.

    Members
    -------
    i, o : ``In(stream.Signature(shape))``, ``Out(stream.Signature(shape))``
        Items.
    empty : ``Out(1)``
        Holds nothing, not even an item that is not visible at the output yet.
    """
    def __init__(self, shape, depth):
        if depth < 2:
            raise ValueError(f"depth must be at least 2, not {depth}")
        self.shape = shape
        self.depth = depth
        super().__init__({
            "i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "empty": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        width = Shape.cast(self.shape).width
        m.submodules.store = store = fifo.SyncFIFOBuffered(width=width, depth=self.depth)
        m.d.comb += [
            store.w_data.eq(self.i.payload),
            store.w_en.eq(self.i.valid),
            self.i.ready.eq(store.w_rdy),
            Value.cast(self.o.payload).eq(store.r_data),
            self.o.valid.eq(store.r_rdy),
            store.r_en.eq(self.o.ready),
            self.empty.eq(store.level == 0),
        ]

        return m

"""Small queue in distributed memory."""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


__all__ = ["RowQueue"]


class RowQueue(wiring.Component):
    """First in, first out, with the oldest entry visible at once.

    Whoever writes has reserved the room; writing into a full queue and taking from an empty one
    are undefined. An entry is visible in the cycle after its write.

    Parameters
    ----------
    shape : ShapeLike
        Shape of an entry.
    depth : int
        Entries, a power of two.

    Members
    -------
    en : ``In(1)``
        Write `i`.
    i, o : ``In(shape)``, ``Out(shape)``
        New entry; oldest entry.
    valid : ``Out(1)``
        There is an entry.
    full : ``Out(1)``
        There is no room.
    take : ``In(1)``
        Remove the oldest entry.
    """
    def __init__(self, shape, depth):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"The depth must be a power of two of at least 2, not {depth}")
        self.depth = depth
        self._shape = shape
        super().__init__({"en": In(1), "i": In(shape), "o": Out(shape), "valid": Out(1),
                          "full": Out(1), "take": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.storage = storage = memory.Memory(
            shape=unsigned(Shape.cast(self._shape).width), depth=self.depth, init=[])
        write = storage.write_port()
        read = storage.read_port(domain="comb")
        level = Signal(range(self.depth + 1))
        head = Signal(range(self.depth))
        tail = Signal(range(self.depth))
        m.d.comb += [write.en.eq(self.en), write.addr.eq(tail),
                     write.data.eq(Value.cast(self.i)), read.addr.eq(head),
                     Value.cast(self.o).eq(read.data), self.valid.eq(level != 0),
                     self.full.eq(level[-1])]
        m.d.sync += [tail.eq(tail + self.en), head.eq(head + self.take),
                     level.eq(level + self.en - self.take)]
        return m

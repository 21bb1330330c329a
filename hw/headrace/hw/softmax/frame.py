"""Timing helpers: what happens at which cycle of a stream's frame, and delays."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


__all__ = ["Delay", "Frame"]


class Frame:
    """Signals derived from the phase of the frame.

    Parameters
    ----------
    m : Module
        Module that gets the registers.
    following : Value
        Cycle of the frame that comes next. It counts from 0 without a gap while any stream is in
        flight, and is 0 otherwise, as it is after a reset.
    length : int
        Cycles of a frame.
    """
    def __init__(self, m, following, length):
        self._m = m
        self._following = following
        self._length = length
        self._flags = {}

    def _flag(self, first, last):
        """Whether this is a cycle from `first` to `last`, which may be beyond the frame's end: a
        register, since operands and enables of whole units depend on it."""
        if (first, last) not in self._flags:
            def inside(cycle):
                if first <= last:
                    return (cycle >= first) & (cycle <= last)
                return (cycle >= first) | (cycle <= last)

            flag = Signal(name=f"cycle_{first}_{last}", init=int(inside(0)))
            self._m.d.sync += flag.eq(self._following == first if first == last
                                      else inside(self._following))
            self._flags[first, last] = flag
        return self._flags[first, last]

    def at(self, offset):
        """Whether this is cycle `offset` of some stream's frame."""
        return self._flag(offset % self._length, offset % self._length)

    def within(self, offset, count):
        """Whether this is one of `count` cycles from `offset` on."""
        first, last = offset % self._length, (offset + count - 1) % self._length
        if count >= self._length:
            return C(1, 1)
        return self._flag(first, last)

    def hold(self, value, ready, offset, name):
        """`value`, which is right from cycle `ready` on for `length` cycles, kept so that it is
        right from `offset` on for as long."""
        if offset < ready:
            raise ValueError(f"{name} is ready at {ready}, after its use at {offset}")
        while offset > ready:
            # The last hop may be shorter than a frame; any hop within one is right.
            hop = min(offset, ready + self._length)
            register = Signal(value.shape(), name=f"{name}_{hop}")
            with self._m.If(self.at(hop - 1)):
                self._m.d.sync += register.eq(value)
            value, ready = register, hop
        return value

    def catch(self, value, offset, name):
        """`value`, right in cycle `offset` only, kept from the next cycle on for `length`."""
        register = Signal(value.shape(), name=name)
        with self._m.If(self.at(offset)):
            self._m.d.sync += register.eq(value)
        return register

    def step(self, offset, name):
        """Counter that is 0 in cycle `offset` (at least 1), and rises in each cycle after it."""
        counter = Signal(range(self._length), name=name)
        self._m.d.sync += counter.eq(Mux(self.at(offset - 1), 0, counter + 1))
        return counter


class Delay(wiring.Component):
    """``o`` is ``i`` of `cycles` cycles ago. The contents are undefined before that.

    Parameters
    ----------
    width : int
        Bits.
    cycles : int
        Delay, at least 2. A memory: it never reads the word that it writes.
    """
    def __init__(self, width, cycles):
        if cycles < 2:
            raise ValueError(f"a delay in a memory takes at least 2 cycles, not {cycles}")
        self._cycles = cycles
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=len(self.i), depth=self._cycles, init=[])
        write, read = memory.write_port(), memory.read_port()

        # The reader is one word ahead of the writer: the oldest word.
        pointer, oldest = Signal(range(self._cycles)), Signal(range(self._cycles), init=1)
        following = Signal(range(self._cycles))
        m.d.comb += following.eq(Mux(oldest == self._cycles - 1, 0, oldest + 1))
        m.d.sync += [pointer.eq(oldest), oldest.eq(following)]
        m.d.comb += [
            write.en.eq(1), write.addr.eq(pointer), write.data.eq(self.i),
            read.addr.eq(oldest), self.o.eq(read.data),
        ]

        return m

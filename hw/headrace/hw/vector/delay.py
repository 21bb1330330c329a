"""A constant delay."""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


__all__ = ["Delay"]


class Delay(wiring.Component):
    """``o`` is ``i`` of `stages` cycles before.

    Long delays are a ring in memory and not registers: cheaper on an FPGA, and a simulator copies
    one word per cycle instead of all of them. Undefined in the first `stages` cycles after reset,
    so whatever says that `o` is valid travels in registers beside it.

    Parameters
    ----------
    width : int
        Bits.
    stages : int
        Cycles, at least 0.
    short : int, optional
        Cycles while `shorten` is 1, above :attr:`registers` and at most `stages`.

    Members
    -------
    i : ``In(width)``
        Any value, every cycle.
    o : ``Out(width)``
        The same, later.
    shorten : ``In(1)``
        Takes the short way. After a change `o` is undefined for `stages` cycles.
    """
    #: Up to this many stages are registers.
    registers = 3

    def __init__(self, width, stages, short=None):
        if stages < 0:
            raise ValueError(f"stages must be at least 0, not {stages}")
        if short is not None and not self.registers < short <= stages:
            raise ValueError(f"short must be above {self.registers} and at most stages, {stages}, "
                             f"not {short}")
        self.width = width
        self.stages = stages
        self.short = short
        super().__init__({"i": In(width), "o": Out(width), "shorten": In(1)})

    def elaborate(self, platform):
        m = Module()
        if self.stages <= self.registers:
            value = self.i
            for stage in range(self.stages):
                register = Signal(self.width, name=f"stage{stage}", reset_less=True)
                m.d.sync += register.eq(value)
                value = register
            m.d.comb += self.o.eq(value)
            return m

        # The word that is read is the oldest, one after the word that is written: never the same.
        m.submodules.ring = ring = memory.Memory(
            shape=unsigned(self.width), depth=self.stages, init=[])
        write, read = ring.write_port(), ring.read_port()
        index = Signal(range(self.stages))
        following = Signal(range(self.stages))
        last = self.stages - 1
        if self.short is not None:
            last = Mux(self.shorten, self.short - 1, last)
        m.d.comb += [
            following.eq(Mux(index >= last, 0, index + 1)),
            write.addr.eq(index),
            write.data.eq(self.i),
            write.en.eq(1),
            read.addr.eq(following),
            read.en.eq(1),
            self.o.eq(read.data),
        ]
        m.d.sync += index.eq(following)
        return m

"""Sum of the products of a vector, in the order of `reduce16`."""

import functools
import operator

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import REDUCTION_WAYS
from ..fp import Adder
from ..interfaces import words
from .delay import Delay


__all__ = ["Reducer"]


class Reducer(wiring.Component):
    """Operands for the adders of the lanes, so that they form a 16-way sum.

    Element `i` belongs to partial sum ``i % 16``, so lane `l` owns the partials ``l, l + lanes,
    ...``: :attr:`turn_words` of them, which travel around a ring of adder and delay. The words of
    one turn come in consecutive cycles, and the turns of a vector :attr:`turn_cycles` apart; a
    word then meets its partial without any control. Afterwards the partials are caught in a shift
    register, which moves `lanes` entries at a time, and as many lanes as there are sums add them:
    ``p[j] + p[j + w]`` for `w` of 8, 4, 2 and 1. :func:`headrace.sw.numerics.reduce16` agrees bit
    for bit.

    Latency: :attr:`latency` cycles from the last word to `total`.

    Parameters
    ----------
    lanes : int
        Values per word.

    Members
    -------
    valid, first, last : ``In(1)``
        A word is in `x`, it is in the first turn, in the last turn of its vector.
    x : ``In(words(lanes))``
        fp32 values.
    a, b : ``Out(words(lanes))``
        Operands of the adders.
    sums : ``In(words(lanes))``
        Results of the adders.
    total : ``Out(32)``
        The sum, while `total_stb` is 1.
    total_stb : ``Out(1)``
        Pulse.
    """
    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__({
            "valid": In(1), "first": In(1), "last": In(1), "x": In(words(lanes)),
            "a": Out(words(lanes)), "b": Out(words(lanes)), "sums": In(words(lanes)),
            "total": Out(32), "total_stb": Out(1),
        })

    @property
    def turn_words(self):
        """Words of one turn: partial sums of each lane."""
        return REDUCTION_WAYS // self.lanes

    @property
    def turn_cycles(self):
        """Cycles of one turn."""
        return max(self.turn_words, Adder.latency)

    @property
    def latency(self):
        """Cycles from the last word to the total."""
        levels = [REDUCTION_WAYS >> level for level in range(1, REDUCTION_WAYS.bit_length())]
        return (Adder.latency + sum(-(-width // self.lanes) for width in levels)
                + len(levels) * Adder.latency)

    def elaborate(self, platform):
        m = Module()
        ways = REDUCTION_WAYS
        width = 32 * self.lanes

        m.submodules.ring = ring = Delay(width, self.turn_cycles - Adder.latency)
        m.d.comb += ring.i.eq(self.sums.as_value())
        partials = Signal(words(self.lanes))
        m.d.comb += partials.eq(ring.o)

        # The sums of the last turn leave the adders in order.
        final = Signal(Adder.latency)
        m.d.sync += final.eq(Cat(self.valid & self.last, final))
        buffer = [Signal(32, name=f"p{i}", reset_less=True) for i in range(ways)]

        def shift():
            moved = [*buffer, *self.sums][self.lanes:]
            m.d.sync += [old.eq(new) for old, new in zip(buffer, moved)]

        # Whether words are caught, or sums of so many are added: one hot, as the operands are on
        # the way to the adders.
        widths = [ways >> level for level in range(1, ways.bit_length())]
        catching = Signal(init=1)
        adding = {width: Signal(name=f"adding{width}") for width in widths}
        operands = [([Mux(catching, self.x[lane], 0)],
                     [Mux(catching & ~self.first, partials[lane], 0)])
                    for lane in range(self.lanes)]

        caught = Signal(range(self.turn_words))
        cycle = Signal(range(ways // 2 + Adder.latency))
        with m.FSM(name="tree"):
            with m.State("CATCH"):
                m.d.sync += cycle.eq(0)
                with m.If(final[-1]):
                    shift()
                    m.d.sync += caught.eq(caught + 1)
                    with m.If(caught == self.turn_words - 1):
                        m.d.sync += [caught.eq(0), catching.eq(0), adding[ways // 2].eq(1)]
                        m.next = f"ADD{ways // 2}"
            for width in widths:
                # The results push the operands out: both are shifted in every cycle. Sums of
                # fewer than all lanes lie at the beginning of the last word.
                begin = ways - max(2 * width, self.lanes)
                with m.State(f"ADD{width}"):
                    for lane in range(min(width, self.lanes)):
                        operands[lane][0].append(Mux(adding[width], buffer[begin + lane], 0))
                        operands[lane][1].append(
                            Mux(adding[width], buffer[begin + width + lane], 0))
                    shift()
                    m.d.sync += cycle.eq(cycle + 1)
                    with m.If(cycle == -(-width // self.lanes) + Adder.latency - 1):
                        m.d.sync += [cycle.eq(0), adding[width].eq(0)]
                        if width == 1:
                            m.d.comb += self.total_stb.eq(1)
                            m.d.sync += catching.eq(1)
                            m.next = "CATCH"
                        else:
                            m.d.sync += adding[width // 2].eq(1)
                            m.next = f"ADD{width // 2}"
        for lane, (a, b) in enumerate(operands):
            m.d.comb += [self.a[lane].eq(functools.reduce(operator.or_, a)),
                         self.b[lane].eq(functools.reduce(operator.or_, b))]
        m.d.comb += self.total.eq(self.sums[0])
        return m

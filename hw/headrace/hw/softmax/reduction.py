"""The sum of the probabilities of a block, in the order of every configuration."""

import functools
import operator

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..formats import REDUCTION_WAYS
from ..fp import Adder
from ..interfaces import words
from .frame import Delay, Frame
from .schedule import Schedule


__all__ = ["Reduction"]


class Reduction(wiring.Component):
    """``add(carry, reduce16(p))`` over the 32 tokens of a block.

    Partial sum ``j`` is ``add(p[j], p[j + 16])``: the addition of +0 before it changes nothing, as
    no exponential is -0. The tree of 8, 4, 2 and 1 additions and the final one share one adder
    per lane, at the times that the schedule has found.

    Members
    -------
    following : ``In(range(frame))``
        Cycle of the frame that comes next.
    p : ``In(words(lanes))``
        Probabilities: step 0 at offset `p`, lane ``i`` of step ``k`` is token ``k * lanes + i``.
    carry : ``In(32)``
        Decayed sum of the blocks before, at offset `final`.
    o : ``Out(32)``
        New sum, at offset `sum`.
    """
    def __init__(self, config: Config):
        self._schedule = schedule = Schedule(config)
        super().__init__({
            "following": In(range(schedule.frame)),
            "p": In(words(schedule.lanes)),
            "carry": In(32),
            "o": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        schedule, lanes = self._schedule, self._schedule.lanes
        frame = Frame(m, self.following, schedule.frame)

        m.submodules.half = half = Delay(32 * lanes, REDUCTION_WAYS // lanes)
        m.d.comb += half.i.eq(self.p)
        partials, adders = [], []
        for lane in range(lanes):
            m.submodules[f"partial{lane}"] = partial = Adder()
            m.submodules[f"tree{lane}"] = adder = Adder()
            m.d.comb += [
                partial.a.eq(half.o[32 * lane:32 * lane + 32]), partial.b.eq(self.p[lane]),
                partial.en.eq(1), adder.en.eq(1),
            ]
            partials.append(partial.o)
            adders.append(adder)
        m.d.comb += self.o.eq(adders[0].o)

        # The first level takes the partial sums, every other one the tree's own output.
        head, *rest, final = schedule.levels
        early = [self._taps(m, o, head.distance + head.wait, f"partial{lane}")
                 for lane, o in enumerate(partials)]
        depth = max(level.distance + level.wait for level in (*rest, final))
        late = [self._taps(m, adder.o, depth, f"tree{lane}") for lane, adder in enumerate(adders)]
        # At most one of them at a time: a sum of products, as the adder begins with a comparison.
        for lane, adder in enumerate(adders):
            operands = [(frame.within(head.first, head.issues),
                         early[lane][head.wait + head.distance], early[lane][head.wait])]
            operands += [(frame.within(level.first, level.issues),
                          late[lane][level.wait + level.distance],
                          late[lane + level.cross][level.wait])
                         for level in rest if lane + level.cross < lanes]
            if lane == 0:
                operands.append((frame.at(final.first), self.carry, late[0][final.wait]))
            m.d.comb += [
                adder.a.eq(functools.reduce(operator.or_, (Mux(now, a, 0)
                                                           for now, a, _ in operands))),
                adder.b.eq(functools.reduce(operator.or_, (Mux(now, b, 0)
                                                           for now, _, b in operands))),
            ]

        return m

    def _taps(self, m, value, depth, name):
        taps = [value]
        for cycle in range(depth):
            tap = Signal(32, name=f"{name}_ago{cycle + 1}", reset_less=True)
            m.d.sync += tap.eq(taps[-1])
            taps.append(tap)
        return taps

"""When each operation of the softmax pipeline happens, computed from latencies."""

from dataclasses import dataclass

from ..config import KV_BLOCK, Config
from ..formats import REDUCTION_WAYS
from ..fp import Adder, Exponential, Multiplier, Reciprocal, ToInt8


__all__ = ["Level", "Schedule"]


@dataclass(frozen=True)
class Level:
    """One level of the tree below the 16 partial sums.

    `issues` additions per lane start at `first`, one per cycle. Operand b is the output of the
    level above `wait` cycles ago, of the same lane, or of the lane `cross` further; operand a is
    the output of this lane `wait + distance` cycles ago.
    """

    first: int
    issues: int
    distance: int
    wait: int
    cross: int


class Schedule:
    """Offsets of all operations, in cycles from the beginning of a stream's frame.

    A stream takes one *frame* of ``32 / lanes + 1`` cycles in each stage: slot 0 carries the old
    maximum, whose exponential is the rescale factor, and slots 1... carry the tokens. Nothing ever
    stalls inside, frames follow each other at a multiple of `frame` cycles, and so operations that
    happen once per stream share a unit if their offsets differ modulo `frame`.

    An offset `x` names the cycle in which slot 0 (or, for tokens, step 0) is at that place.
    """

    def __init__(self, config: Config):
        mul, add = Multiplier.latency, Adder.latency
        # More lanes than the accumulator sends scores per cycle would only wait.
        self.lanes = min(config.softmax_lanes, config.lanes)
        self.steps = KV_BLOCK // self.lanes
        self.frame = self.steps + 1
        tree = (self.lanes - 1).bit_length()

        self.score = 2                                   # score and K scale at the multiplier
        self.scaled = self.score + mul                   # ... at the second multiplier
        self.value = self.scaled + mul                   # slot 0 of scaled, masked scores
        self.compare = self.value + tree                 # slot 0 at the running maximum
        self.shift = self.compare + self.frame + 1       # slot 0 at the subtraction of the maximum
        self.exp = self.shift + add                      # slot 0 at the exponential
        self.rescale = self.exp + Exponential.latency    # slot 0, the rescale factor
        self.p = self.rescale + 1                        # step 0 of the probabilities

        self.levels, self.final = self._tree(add)
        self.sum = self.final + add                      # the new sum

        self.weighted = self.p + mul + 1                 # step 0 of p * v_scale, masked
        self.amax = self.weighted + tree + self.steps + 1
        # Units used once per stream, shared: one reciprocal, one multiplier.
        taken_rcp, taken_mul = set(), set()
        self.rcp_amax = self._take(taken_rcp, self.amax)
        self.rcp_sum = self._take(taken_rcp, self.sum + 1)
        self.inverse = self._take(taken_mul, self.rcp_amax + Reciprocal.latency + 1)
        self.act_scale = self._take(taken_mul, self.amax)
        # As late as possible: the sum of the same stream in the block before is read for it.
        self.decay = self.final - mul - 1
        while self.decay % self.frame in taken_mul:
            self.decay -= 1
        if not self.rescale + 2 <= self.decay:
            raise ValueError(f"no free cycle for the product of sum and rescale factor in frames "
                             f"of {self.frame} cycles")

        ready = max(self.act_scale + mul + 1, self.rcp_sum + Reciprocal.latency + 1)
        quantised = mul + ToInt8.latency
        # Both kinds of writes of a stream share the buffer's parity: the factors are written
        # while the probabilities are.
        self.ratio = max(self.inverse + mul + 1, ready - quantised - (self.steps - 2))
        self.q = self.ratio + quantised                  # step 0 of the quantised probabilities
        self.factors = max(ready, self.q)
        self.done = self.q + self.steps
        self.frames = self.done // self.frame + 1

        # A stream must not come again before its maximum and its sum are in their memories.
        loops = (self.shift + 1 - (self.value - 2), self.sum + 1 - (self.decay - 1))
        self.gap = max(-(-loop // self.frame) for loop in loops)

    def _take(self, taken: set[int], offset: int) -> int:
        for wait in range(self.frame):
            if (offset + wait) % self.frame not in taken:
                taken.add((offset + wait) % self.frame)
                return offset + wait
        raise ValueError(f"no free cycle in frames of {self.frame} cycles")

    def _tree(self, add: int) -> tuple[list[Level], int]:
        issues, lanes = REDUCTION_WAYS // self.lanes, self.lanes
        base = self.p + issues + add                     # step 0 of the partial sums
        taken, levels = set(), []
        while issues > 1 or lanes > 1:
            if issues > 1:
                issues //= 2
                cross, distance = 0, issues
            else:
                lanes //= 2
                cross, distance = lanes, 0
            first, wait = self._fit(taken, base + distance, issues)
            levels.append(Level(first, issues, distance, wait, cross))
            base = first + add
        final, wait = self._fit(taken, base, 1)
        levels.append(Level(final, 1, 0, wait, 0))       # plus the decayed sum of the state
        return levels, final

    def _fit(self, taken: set[int], first: int, issues: int) -> tuple[int, int]:
        for wait in range(self.frame):
            slots = {(first + wait + i) % self.frame for i in range(issues)}
            if not slots & taken:
                taken |= slots
                return first + wait, wait
        raise ValueError(f"no room for the reduction in frames of {self.frame} cycles")

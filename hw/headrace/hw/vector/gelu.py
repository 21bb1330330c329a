"""When the steps of GELU use the units of a lane."""

from itertools import product

from ..fp import Adder, Exponential, Multiplier, Reciprocal


__all__ = ["GeluSchedule"]


class GeluSchedule:
    """Offsets of the steps of one word, in cycles from the one in which it comes.

    A word needs the first multiplier three times and the adder twice. Words come `cycles` apart, so
    two uses of a unit do not meet if their offsets differ modulo `cycles`; registers between the
    steps see to it, as few as possible.

    Parameters
    ----------
    cycles : int
        Cycles from a word to the next.

    Attributes
    ----------
    square, argument : int
        Operands of ``mul(f, f)`` and of ``mul(f, poly)`` are registered in front of the multiplier.
    poly : int
        The cube times its factor and the linear factor are at the adder.
    cube_wait, poly_wait, argument_wait, gate_wait : int
        Registers behind the second multiplier, the adder, the first multiplier, the reciprocal.
    delay : int
        Cycles until the word itself is at stage 0, two before it is registered in front of the
        multiplier with its gate.
    """

    def __init__(self, cycles: int):
        choices = product(range(cycles), repeat=4)
        for waits in sorted(choices, key=lambda waits: (sum(waits), waits)):
            self._place(*waits)
            multiplier = {offset % cycles for offset in (self.square, self.argument,
                                                         self.delay + 2)}
            adder = {offset % cycles for offset in (self.poly, self._one)}
            if len(multiplier) == 3 and len(adder) == 2:
                return
        raise ValueError(f"no schedule of GELU with words {cycles} cycles apart")

    def _place(self, cube_wait: int, poly_wait: int, argument_wait: int, gate_wait: int) -> None:
        self.cube_wait, self.poly_wait = cube_wait, poly_wait
        self.argument_wait, self.gate_wait = argument_wait, gate_wait
        self.square = 1
        # A register stands in front of each multiplier.
        self.poly = self.square + 1 + Multiplier.latency + 1 + Multiplier.latency + cube_wait
        self.argument = self.poly + Adder.latency + poly_wait
        exponential = self.argument + 1 + Multiplier.latency + argument_wait
        self._one = exponential + Exponential.latency
        gate = self._one + Adder.latency + Reciprocal.latency + gate_wait
        self.delay = gate - 2

"""Registers of a pipeline without valid bits."""

from amaranth import *


__all__ = ["Pipeline"]


class Pipeline:
    """Makes registers that load when the whole pipeline advances.

    They are not reset: what they hold before the first input arrives is undefined, and without
    a reset they fit into the registers of multipliers and memories.

    Parameters
    ----------
    m : Module
        Module that gets the registers.
    en : Value
        Advances the pipeline.
    """
    def __init__(self, m, en):
        self._m = m
        self._en = en

    def reg(self, value, name, *, stages=1):
        """``value``, ``stages`` enabled cycles later."""
        for stage in range(stages):
            suffix = f"_{stage + 1}" if stages > 1 else ""
            register = Signal(value.shape(), name=name + suffix, reset_less=True)
            with self._m.If(self._en):
                self._m.d.sync += register.eq(value)
            value = register
        return value

    def load(self, target, value):
        """Load the output register ``target``."""
        with self._m.If(self._en):
            self._m.d.sync += target.eq(value)

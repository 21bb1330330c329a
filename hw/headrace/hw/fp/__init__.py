"""Floating-point units: fully pipelined, without valid bits, one result per enabled cycle.

Each has operands ``a`` (and ``b``), a result ``o``, an enable ``en`` that advances the whole
pipeline, and ``latency``, the enabled cycles from operands to result.
:mod:`headrace.sw.numerics` computes the same bits. ``docs/number-formats.md`` has the rules.
"""

from .add import Adder
from .convert import FromFP16, FromInt, ToFP16, ToInt8, ToInt16
from .exp import Exponential
from .interpolation import Interpolator
from .max import Maximum
from .mul import Multiplier
from .reciprocal import Reciprocal
from .rsqrt import ReciprocalSqrt


__all__ = [
    "Adder", "Exponential", "FromFP16", "FromInt", "Interpolator", "Maximum", "Multiplier",
    "Reciprocal", "ReciprocalSqrt", "ToFP16", "ToInt16", "ToInt8",
]

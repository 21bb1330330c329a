"""Number formats: the facts shared by the hardware, the golden machine and the host.

Plain Python: the host imports this module without Amaranth. The tables of the elementary
functions are in :mod:`headrace.hw.tables`; ``docs/number-formats.md`` gives the rules in words.
"""

import dataclasses
import math
import struct


__all__ = [
    "ACT16_MAX", "ACT_MAX", "EXP_INPUT_LOG2_LIMIT", "FP16", "FP32", "FloatFormat",
    "GELU_CUBIC_BITS", "GELU_LINEAR_BITS", "HALF_BITS", "INV_ACT_MAX", "INV_ACT_MAX_BITS",
    "LOG2_E", "LOG2_E_FRACTION_BITS", "LOWEST_BITS", "ONE_BITS",
    "REDUCTION_WAYS", "fp32_bits",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """An IEEE 754 binary interchange format.

    Parameters
    ----------
    exp_bits : int
        Width of the exponent field.
    mant_bits : int
        Width of the fraction field, without the leading one.
    """
    exp_bits: int
    mant_bits: int

    @property
    def width(self) -> int:
        """Width of a number in bits."""
        return 1 + self.exp_bits + self.mant_bits

    @property
    def bias(self) -> int:
        """Exponent field of 1.0."""
        return (1 << (self.exp_bits - 1)) - 1

    @property
    def exp_max(self) -> int:
        """Exponent field of infinities and NaNs."""
        return (1 << self.exp_bits) - 1

    @property
    def sign_mask(self) -> int:
        """The sign bit."""
        return 1 << (self.width - 1)

    @property
    def abs_mask(self) -> int:
        """All bits but the sign."""
        return self.sign_mask - 1

    @property
    def mant_mask(self) -> int:
        """The fraction field."""
        return (1 << self.mant_bits) - 1

    @property
    def infinity(self) -> int:
        """Bits of +infinity."""
        return self.exp_max << self.mant_bits

    @property
    def canonical_nan(self) -> int:
        """Bits of the only NaN that any unit produces: quiet, positive, no payload."""
        return self.infinity | (1 << (self.mant_bits - 1))

    @property
    def max_finite(self) -> int:
        """Bits of the largest finite number."""
        return self.infinity - 1

    @property
    def min_normal(self) -> int:
        """Bits of the smallest positive normal number."""
        return 1 << self.mant_bits


FP32 = FloatFormat(exp_bits=8, mant_bits=23)
FP16 = FloatFormat(exp_bits=5, mant_bits=10)


def fp32_bits(value: float) -> int:
    """Bits of ``value`` rounded to the nearest fp32 number, ties to even."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


#: Largest magnitude of a quantised activation or cache entry: -128 is never produced.
ACT_MAX = 127

#: Greatest magnitude of a 16-bit activation ``256 * high + low``, whose halves are int8: its scale
#: is 1/256 of that of the high halves, which is the scale of 8-bit activations.
ACT16_MAX = ACT_MAX << 8

#: log2 of the scale of high halves over that of low halves.
HALF_BITS = 8

#: Bits of fp32(1 / 127), the constant that turns an absolute maximum into a scale.
INV_ACT_MAX_BITS = fp32_bits(1 / ACT_MAX)

#: The same constant as a float, exactly representable in fp32.
INV_ACT_MAX = struct.unpack("<f", struct.pack("<I", INV_ACT_MAX_BITS))[0]

#: GELU in its tanh form is ``g * sigmoid(g * (GELU_LINEAR + GELU_CUBIC * g * g))``.
GELU_LINEAR_BITS = fp32_bits(2 * (2 / math.pi) ** 0.5)
GELU_CUBIC_BITS = fp32_bits(2 * (2 / math.pi) ** 0.5 * 0.044715)

#: Bits of 1.0.
ONE_BITS = FP32.bias << FP32.mant_bits

#: Bits of the lowest finite fp32 number, where a running maximum starts.
LOWEST_BITS = FP32.sign_mask | FP32.max_finite

#: Partial sums of a reduction, in every configuration.
REDUCTION_WAYS = 16

#: Fraction bits of :data:`LOG2_E`. An input below 128 and an error of half a unit here move
#: the exponent by less than 2**-28.
LOG2_E_FRACTION_BITS = 34

#: log2(e) in fixed point, rounded to nearest.
LOG2_E = 0x5C551D94B

#: ``exp`` decides on the exponent alone from ``|x| >= 2**7``: overflow, or underflow to zero.
EXP_INPUT_LOG2_LIMIT = 7

"""Floating-point numbers as the units see them."""

from amaranth import *
from amaranth.lib import data

from ..formats import FP16, FP32


__all__ = ["Float16", "Float32", "normalised", "packed"]


class _Float(data.Struct):
    @property
    def inf(self):
        """Whether it is infinite."""
        return self.exp.all() & ~self.mant.any()

    @property
    def nan(self):
        """Whether it is a NaN, of whatever payload."""
        return self.exp.all() & self.mant.any()

    @property
    def significand(self):
        """The mantissa with its leading one; meaningless for a zero."""
        return Cat(self.mant, C(1, 1))


class Float16(_Float):
    """An fp16 number."""
    mant: FP16.mant_bits
    exp: FP16.exp_bits
    sign: unsigned(1)


class Float32(_Float):
    """An fp32 number."""
    mant: FP32.mant_bits
    exp: FP32.exp_bits
    sign: unsigned(1)

    @property
    def zero(self):
        """Whether it is a zero or a subnormal, which every unit reads as a zero."""
        return ~self.exp.any()


def packed(m, number, *, sign, nan, inf, zero):
    """Assemble an fp32 result.

    Parameters
    ----------
    number : Value
        The exponent field as a signed 10-bit number above the 23 mantissa bits. An exponent of
        255 or more becomes infinity, one of 0 or less a zero.
    sign : Value
        Sign of everything but a NaN.
    nan, inf, zero : Value
        Override the number. ``nan`` wins over ``inf``, ``inf`` over ``zero``, and that over an
        infinity from the exponent.
    """
    mant, exp = number[:FP32.mant_bits], number[FP32.mant_bits:]
    # Ten bits of logic: synthesis would spend a carry chain on each comparison.
    large = ~exp[-1] & (exp[FP32.exp_bits] | exp[:FP32.exp_bits].all())
    small = exp[-1] | ~exp.any()
    ones = nan | inf | (large & ~zero)
    # Registers clear or set the fields themselves if each depends on one condition.
    special = Signal(name="special")
    m.d.comb += special.eq(ones | zero | small)
    return Cat(Mux(special, Mux(nan, FP32.canonical_nan & FP32.mant_mask, 0), mant),
               Mux(special, ones.replicate(FP32.exp_bits), exp[:FP32.exp_bits]),
               sign & ~nan)


def normalised(m, value, name):
    """Shift ``value`` left until its top bit is set.

    Returns
    -------
    tuple of Value
        The shifted value, and the count of leading zeros, which is undefined where the value is
        zero.
    """
    _, count = _leading_zeros(m, value, f"{name}_zeros")
    for step in reversed(range(len(count))):
        shifted = Signal(len(value), name=f"{name}_shift{1 << step}")
        m.d.comb += shifted.eq(Mux(count[step], value << (1 << step), value))
        value = shifted
    return value, count


def _leading_zeros(m, value, name):
    """Whether ``value`` is zero, and the count of its leading zeros.

    A tree: each half counts at the same time, so that the shifts need not wait for each other.
    Its nodes are signals: an expression that is used twice would be written twice, at each level.
    """
    if len(value) == 1:
        return ~value[0], C(0, 0)
    half = 1 << ((len(value) - 1).bit_length() - 1)
    none_high, high = _leading_zeros(m, value[-half:], f"{name}_h")
    none_low, low = _leading_zeros(m, value[:-half], f"{name}_l")
    none, count = Signal(name=name), Signal(half.bit_length(), name=f"{name}_count")
    m.d.comb += [none.eq(none_high & none_low),
                 count.eq(Cat(Mux(none_high, low, high), none_high))]
    return none, count

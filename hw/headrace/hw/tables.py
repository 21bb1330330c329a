"""Tables of the elementary functions: piecewise quadratic interpolation in integers."""

import dataclasses
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext

from .formats import FP32


__all__ = ["EXP2", "Interpolation", "RECIPROCAL", "RSQRT"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interpolation:
    """A table of unsigned quadratics and the exact steps that evaluate one of them.

    All three functions are reduced to a fraction ``y`` in [0, 1) which is the mantissa field of
    the result, and to a segment ``index`` and an offset ``d`` in the direction in which ``y``
    rises, so that nothing is ever negative::

        square = (c2 * (d >> square_drop)) >> square_shift
        slope  = (c1 + square) >> slope_drop
        y      = (c0 + ((slope * d) >> product_shift)) >> guard_bits

    ``c0`` holds half a unit of the result, so that the last shift rounds; ``c1`` holds the mean
    of what the inner shifts cut off. ``y`` has one bit more than the mantissa: a result that
    rounds up to the next power of two carries into the exponent.

    The coefficients interpolate the function at the three Chebyshev nodes of each segment.
    They come from :mod:`decimal`, whose results are correctly rounded and hence the same
    everywhere.

    Parameters
    ----------
    index_bits, offset_bits : int
        Widths of ``index`` and ``d``.
    square_bits : int
        Leading bits of ``d`` used in the quadratic term.
    c2_fraction_bits, slope_fraction_bits : int
        Fraction bits of ``c2`` and ``slope`` where a segment of all offsets has length
        ``2**(offset_bits - unit_log2)``.
    unit_log2 : int
        ``d`` counts units of ``2**-unit_log2`` of the argument.
    rows : tuple of tuple of int
        ``(c0, c1, c2)`` of each segment.
    """
    index_bits: int
    offset_bits: int
    square_bits: int
    c2_fraction_bits: int
    slope_fraction_bits: int
    unit_log2: int
    rows: tuple[tuple[int, int, int], ...]

    #: Bits of ``c1`` below those of ``slope``.
    slope_drop = 2
    #: Bits of ``c0`` below those of the result.
    guard_bits = 4

    @property
    def square_drop(self) -> int:
        """Bits of the offset that the quadratic term ignores."""
        return self.offset_bits - self.square_bits

    @property
    def square_shift(self) -> int:
        """Bits of the quadratic term below those of ``c1``."""
        return (self.c2_fraction_bits + self.unit_log2 - self.square_drop
                - self.slope_fraction_bits - self.slope_drop)

    @property
    def product_shift(self) -> int:
        """Bits of the product below those of ``c0``."""
        return self.slope_fraction_bits + self.unit_log2 - FP32.mant_bits - self.guard_bits

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of ``c0``, ``c1`` and ``c2``, each the narrowest that holds its column."""
        c0, c1, c2 = (max(column).bit_length() for column in zip(*self.rows, strict=True))
        return c0, c1, c2

    @property
    def slope_width(self) -> int:
        """Width of ``slope``."""
        top = (1 << self.square_bits) - 1
        return max((c1 + (c2 * top >> self.square_shift)) >> self.slope_drop
                   for _, c1, c2 in self.rows).bit_length()


def _interpolation(function: Callable[[int, Decimal], Decimal], **widths: int) -> Interpolation:
    """Fit a table to ``function(index, d)``, the exact ``y`` at a real offset ``d``."""
    fit = Interpolation(**widths, rows=())
    top = (1 << fit.offset_bits) - 1
    unit = Decimal(2) ** -fit.unit_log2
    # cos(pi / 6) / 2: where the error of an interpolating quadratic is smallest.
    spread = Decimal("0.4330127018922193")
    nodes = [top * (Decimal("0.5") + shift) for shift in (-spread, Decimal(0), spread)]
    lost = (Decimal(2) ** fit.square_drop - 1) / 2
    rows = []
    for index in range(1 << fit.index_bits):
        y = [function(index, d) for d in nodes]
        x = [d * unit for d in nodes]
        c2 = ((y[2] - y[1]) / (x[2] - x[1]) - (y[1] - y[0]) / (x[1] - x[0])) / (x[2] - x[0])
        c2_int = int((c2 * 2 ** fit.c2_fraction_bits).to_integral_value())
        # Fit the lower coefficients to what the rounded higher ones leave.
        c2 = Decimal(c2_int) * Decimal(2) ** -fit.c2_fraction_bits
        y = [y_n - c2 * x_n * x_n for x_n, y_n in zip(x, y, strict=True)]
        c1 = (y[2] - y[0]) / (x[2] - x[0])
        scale = Decimal(2) ** (fit.slope_fraction_bits + fit.slope_drop)
        cut = (Decimal(2) ** fit.slope_drop) / 2
        c1_int = int(((c1 + c2 * lost * unit) * scale + cut).to_integral_value())
        c1 = (c1_int - cut) / scale - c2 * lost * unit
        rest = [y_n - c1 * x_n for x_n, y_n in zip(x, y, strict=True)]
        c0 = (max(rest) + min(rest)) / 2 + Decimal(2) ** -(FP32.mant_bits + 1)
        c0_int = int((c0 * 2 ** (FP32.mant_bits + fit.guard_bits)).to_integral_value())
        rows.append((c0_int, c1_int, c2_int))
    return dataclasses.replace(fit, rows=tuple(rows))


def _exp2(index: int, d: Decimal) -> Decimal:
    # The argument was cut, not rounded: on average it is half a unit higher.
    x = Decimal(index) / 256 + (d + Decimal("0.5")) / 2 ** 25
    return (x * Decimal(2).ln()).exp() - 1


def _reciprocal(index: int, d: Decimal) -> Decimal:
    # d is the complement of the mantissa's low bits: it rises as the argument falls.
    x = 1 + Decimal(index + 1) / 256 - (d + 1) / 2 ** 23
    return 2 / x - 1


def _rsqrt(index: int, d: Decimal) -> Decimal:
    # The upper half of the table is for [2, 4), scaled to [1, 2).
    x = 1 + Decimal(index % 128 + 1) / 128 - (d + 1) / 2 ** 23
    return 2 / (x * (2 if index >= 128 else 1)).sqrt() - 1


with localcontext(Context(prec=40, rounding=ROUND_HALF_EVEN)):
    #: ``2**x - 1`` over [0, 1): index is the upper 8 bits of x, d its lower 17.
    EXP2 = _interpolation(_exp2, index_bits=8, offset_bits=17, square_bits=11,
                          c2_fraction_bits=11, slope_fraction_bits=17, unit_log2=25)

    #: ``2 / x - 1`` over [1, 2): index is the upper 8 mantissa bits, d the complement of the
    #: others.
    RECIPROCAL = _interpolation(_reciprocal, index_bits=8, offset_bits=15, square_bits=11,
                                c2_fraction_bits=11, slope_fraction_bits=17, unit_log2=23)

    #: ``2 / sqrt(x) - 1`` over [1, 4): index is the parity of the exponent and the upper 7
    #: mantissa bits, d the complement of the others.
    RSQRT = _interpolation(_rsqrt, index_bits=8, offset_bits=16, square_bits=11,
                           c2_fraction_bits=10, slope_fraction_bits=18, unit_log2=23)

"""Exponential, reciprocal and reciprocal square root, in the integer steps of the hardware."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.hw.formats import EXP_INPUT_LOG2_LIMIT, FP32, LOG2_E, LOG2_E_FRACTION_BITS
from headrace.hw.tables import EXP2, RECIPROCAL, RSQRT, Interpolation

from .arithmetic import Float, as_bits


__all__ = ["exp", "interpolate", "rcp", "rsqrt"]


Int = NDArray[np.int64]

_MANT_BITS = FP32.mant_bits
_MANT = FP32.mant_mask
_HIDDEN = FP32.min_normal
_ABS = FP32.abs_mask
_INF = FP32.infinity
_NAN = FP32.canonical_nan
# Exponent field from which exp() overflows or underflows without looking further.
_EXP_LIMIT = FP32.bias + EXP_INPUT_LOG2_LIMIT
_FRACTION_BITS = EXP2.unit_log2
_EXP_SHIFT = _MANT_BITS + LOG2_E_FRACTION_BITS - _FRACTION_BITS + FP32.bias


class _Table:
    """The columns of a table, ready for :func:`numpy.take`."""

    def __init__(self, spec: Interpolation):
        self.spec = spec
        self.c0, self.c1, self.c2 = np.array(spec.rows, dtype=np.int64).T.copy()


_EXP2, _RECIPROCAL, _RSQRT = _Table(EXP2), _Table(RECIPROCAL), _Table(RSQRT)


def interpolate(table: _Table, index: Int, offset: Int) -> Int:
    """Evaluate :class:`~headrace.hw.tables.Interpolation`: the mantissa field with a carry."""
    spec = table.spec
    slope = table.c2.take(index)
    slope *= offset >> spec.square_drop
    slope >>= spec.square_shift
    slope += table.c1.take(index)
    slope >>= spec.slope_drop
    slope *= offset
    slope >>= spec.product_shift
    slope += table.c0.take(index)
    slope >>= spec.guard_bits
    return slope


def _split(x: ArrayLike) -> tuple[tuple[int, ...], Int, Int]:
    """Shape, bits and magnitude bits, flat: in-place steps need arrays, not scalars."""
    bits = as_bits(x)
    flat = bits.reshape(-1).astype(np.int64)
    return bits.shape, flat, flat & _ABS


def _join(bits: Int, shape: tuple[int, ...]) -> Float:
    return bits.astype(np.uint32).view(np.float32).reshape(shape)


def exp(x: ArrayLike) -> Float:
    """e to the power of ``x``.

    ``t = |x| * log2(e)`` is cut to 25 fraction bits and complemented if x is negative; its
    integer part is the exponent and :data:`~headrace.hw.tables.EXP2` gives the mantissa. Results
    below ``2**-126`` become +0. ``exp(0) == exp(-0) == 1``.
    """
    shape, bits, magnitude = _split(x)
    exponent = magnitude >> _MANT_BITS
    significand = (magnitude & _MANT) | _HIDDEN
    # The clip keeps the shift defined: above the limit the result is replaced below, and a
    # shift of 60 leaves nothing of the 59-bit product.
    t = (significand * LOG2_E) >> np.clip(_EXP_SHIFT - exponent, 0, 60)
    t ^= -(bits >> 31)
    fraction = t & ((1 << _FRACTION_BITS) - 1)
    result = interpolate(_EXP2, fraction >> EXP2.offset_bits,
                         fraction & ((1 << EXP2.offset_bits) - 1))
    result += ((t >> _FRACTION_BITS) + FP32.bias) << _MANT_BITS
    result[(result < _HIDDEN) | ((bits > _ABS) & (exponent >= _EXP_LIMIT))] = 0
    result[(result > _INF) | ((bits <= _ABS) & (exponent >= _EXP_LIMIT))] = _INF
    result[magnitude > _INF] = _NAN
    return _join(result, shape)


def rcp(x: ArrayLike) -> Float:
    """Reciprocal.

    ``rcp(±0) = ±inf`` and ``rcp(±inf) = ±0``; powers of two are exact; results below ``2**-126``
    become zeros of their sign. Subnormals are read as zeros.
    """
    shape, bits, magnitude = _split(x)
    offset_mask = (1 << RECIPROCAL.offset_bits) - 1
    result = interpolate(_RECIPROCAL, (magnitude & _MANT) >> RECIPROCAL.offset_bits,
                         ~magnitude & offset_mask)
    exponent = magnitude >> _MANT_BITS
    result += (2 * FP32.bias - 1 - exponent) << _MANT_BITS
    result[result < _HIDDEN] = 0
    result[exponent == 0] = _INF
    result |= bits & FP32.sign_mask
    result[magnitude > _INF] = _NAN
    return _join(result, shape)


def rsqrt(x: ArrayLike) -> Float:
    """Reciprocal square root.

    ``rsqrt(±0) = ±inf``, ``rsqrt(inf) = 0``, NaN for everything else with a sign; even powers of
    two are exact. Subnormals are read as zeros.
    """
    shape, bits, magnitude = _split(x)
    offset_mask = (1 << RSQRT.offset_bits) - 1
    # The lowest exponent bit is 0 where the exponent itself is odd: the upper half.
    index = ((magnitude >> RSQRT.offset_bits) & 0xff) ^ 0x80
    result = interpolate(_RSQRT, index, ~magnitude & offset_mask)
    exponent = magnitude >> _MANT_BITS
    result += ((3 * FP32.bias - 1 - exponent) >> 1) << _MANT_BITS
    result[magnitude == _INF] = 0
    result[bits > _ABS] = _NAN
    zero = exponent == 0
    result[zero] = _INF | (bits[zero] & FP32.sign_mask)
    result[magnitude > _INF] = _NAN
    return _join(result, shape)

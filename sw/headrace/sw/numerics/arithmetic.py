"""Multiplication, addition and maxima in fp32."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.hw.formats import FP32


__all__ = [
    "abs_max", "add", "as_bits", "as_float", "canonical", "flush", "from_bits", "has_below",
    "maximum", "mul", "order_key",
]


Float = NDArray[np.float32]

_NAN = np.uint32(FP32.canonical_nan).view(np.float32)
_SIGN = np.uint32(FP32.sign_mask)
_EXP = np.uint32(FP32.infinity)
_ABS = np.uint32(FP32.abs_mask)
_ABS_INT = np.int32(FP32.abs_mask)
_ONE = np.uint32(1)
# Doubling drops the sign and subtracting one moves zero to the top: what remains below this
# limit is exactly the subnormals.
_SUBNORMAL_LIMIT = 2 * FP32.min_normal - 1
# The same, counted from the least normal number: normal numbers and infinities come first, then
# NaN, then what wraps around, zeros and subnormals.
_LEAST = np.uint32(2 * FP32.min_normal)
_ORDINARY = 2 * FP32.infinity - 2 * FP32.min_normal

# Elements up to which the number of NumPy's calls decides, not their length.
_SHORT = 4096


def as_float(x: ArrayLike) -> Float:
    """``x`` as a float32 array, numbers rounded to nearest even."""
    return np.asarray(x, dtype=np.float32)


def as_bits(x: ArrayLike) -> NDArray[np.uint32]:
    """Bits of float32 numbers."""
    return np.asarray(x, dtype=np.float32).view(np.uint32)


def from_bits(bits: ArrayLike) -> Float:
    """Float32 numbers with these bits."""
    return np.asarray(bits, dtype=np.uint32).view(np.float32)


def has_below(x: Float, limit: int) -> bool:
    """Whether ``0 < 2 * (bits of |x|) <= limit`` for any element. Zeros do not count."""
    bits = x.view(np.uint32)
    # A ufunc also where x is a single number: the operator would warn of the wrap-around.
    return x.size > 0 and int(np.minimum.reduce(np.subtract(bits + bits, _ONE), axis=None)) < limit


def flush(x: ArrayLike) -> Float:
    """Turn subnormals into zeros of the same sign, as every unit reads its operands."""
    x = as_float(x)
    if has_below(x, _SUBNORMAL_LIMIT):
        bits = x.view(np.uint32)
        return np.where((bits & _EXP) == 0, bits & _SIGN, bits).view(np.float32)
    return x


def canonical(x: Any) -> Float:
    """Replace every NaN by the canonical one."""
    x = np.asarray(x)
    # max() is NaN if any element is: one pass instead of a comparison and a reduction.
    if x.size and np.isnan(np.maximum.reduce(x, axis=None)):
        x = np.where(x == x, x, _NAN)
    return x


def _settle(x: Any) -> Float:
    """Flush a result, and make its NaNs canonical."""
    x = np.asarray(x)
    if 0 < x.size <= _SHORT:
        bits = x.view(np.uint32)
        # Mostly all is ordinary, and one look is enough.
        if int(np.maximum.reduce(np.subtract(bits + bits, _LEAST), axis=None)) <= _ORDINARY:
            return x
    return canonical(flush(x))


def mul(a: ArrayLike, b: ArrayLike, *, clean: bool = False) -> Float:
    """Multiply, with NumPy's broadcasting.

    ``round(a * b)`` to nearest even; a subnormal result becomes a zero of its sign *after* the
    IEEE rounding, so a product that IEEE rounds up to ``2**-126`` stays. Subnormal operands are
    read as zeros of their sign. Every NaN is the canonical one.

    Parameters
    ----------
    a, b : array_like of float32
        Factors.
    clean : bool
        Promise that no operand is subnormal. True for every result of this package and saves
        the check.
    """
    a, b = as_float(a), as_float(b)
    if not clean:
        a, b = flush(a), flush(b)
    with np.errstate(all="ignore"):
        return _settle(a * b)


def add(a: ArrayLike, b: ArrayLike, *, clean: bool = False) -> Float:
    """Add, with NumPy's broadcasting.

    ``round(a + b)`` to nearest even; subnormals, NaN and ``clean`` as in :func:`mul`.
    """
    a, b = as_float(a), as_float(b)
    if not clean:
        a, b = flush(a), flush(b)
    with np.errstate(all="ignore"):
        return _settle(a + b)


def abs_max(x: ArrayLike, axis: int = -1) -> Float:
    """Largest magnitude along ``axis``: the largest integer ``bits & 0x7fffffff``.

    So a NaN is larger than infinity and comes out with its payload and without its sign; along
    an empty axis the result is zero.
    """
    return np.asarray((as_bits(x) & _ABS).max(axis=axis, initial=0)).view(np.float32)


def maximum(a: ArrayLike, b: ArrayLike) -> Float:
    """The greater of two numbers in the total order of their bits, unchanged.

    Numbers compare as usual, with -0 below +0, the canonical NaN above +infinity and a NaN with
    a sign below -infinity.
    """
    a, b = np.broadcast_arrays(as_float(a), as_float(b))
    return np.where(order_key(b) > order_key(a), b, a)


def order_key(x: ArrayLike) -> NDArray[np.int32]:
    """Signed integers in the order of :func:`maximum`, for example for ``argmax``."""
    bits = as_bits(x).view(np.int32)
    return bits ^ ((bits >> np.int32(31)) & _ABS_INT)

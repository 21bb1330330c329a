"""Conversions between fp32, fp16 and integers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.hw.formats import ACT16_MAX, ACT_MAX, FP16

from .arithmetic import Float, as_float, canonical


__all__ = ["from_fp16", "from_int", "to_fp16", "to_int16", "to_int8"]


_FP16_MAX = np.uint16(FP16.max_finite).view(np.float16).astype(np.float32)
_FP16_NAN = np.uint16(FP16.canonical_nan)
_ACT_MAX = np.float32(ACT_MAX)
_ACT16_MAX = np.float32(ACT16_MAX)
_ZERO = np.float32(0)


def from_int(i: ArrayLike) -> Float:
    """Convert integers of up to 32 bits, signed, to fp32, rounded to nearest even."""
    return np.asarray(np.asarray(i).astype(np.float32))


def from_fp16(bits: ArrayLike) -> Float:
    """Convert fp16, given as ``uint16`` bits, to fp32.

    Exact, subnormals included: their fp32 values are normal.
    """
    half = np.asarray(bits, dtype=np.uint16).view(np.float16)
    # A signalling NaN may warn where the processor converts.
    with np.errstate(all="ignore"):
        return canonical(half.astype(np.float32))


def to_fp16(x: ArrayLike) -> NDArray[np.uint16]:
    """Convert fp32 to fp16 bits.

    Rounded to nearest even, with subnormal results. Everything beyond the largest finite
    number, infinities included, becomes ``±65504``. NaN is canonical.
    """
    x = as_float(x)
    with np.errstate(all="ignore"):
        half = np.asarray(np.clip(x, -_FP16_MAX, _FP16_MAX).astype(np.float16))
        return np.where(x == x, half.view(np.uint16), _FP16_NAN)


def to_int8(x: ArrayLike) -> NDArray[np.int8]:
    """Round fp32 to the nearest integer, ties to even, saturated to ±127. NaN gives 0."""
    return _to_integer(x, _ACT_MAX).astype(np.int8)


def to_int16(x: ArrayLike) -> NDArray[np.int16]:
    """Round fp32 to the nearest integer, ties to even, saturated to ±32512. NaN gives 0."""
    return _to_integer(x, _ACT16_MAX).astype(np.int16)


def _to_integer(x: ArrayLike, most: np.float32) -> NDArray[np.float32]:
    x = as_float(x)
    with np.errstate(invalid="ignore"):
        x = np.where(x == x, x, _ZERO)
    return np.asarray(np.rint(np.clip(x, -most, most)))

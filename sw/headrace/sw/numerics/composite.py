"""Fixed sequences of operations: reductions, quantisation and activation functions."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.hw.formats import (
    ACT16_MAX,
    ACT_MAX,
    FP16,
    FP32,
    GELU_CUBIC_BITS,
    GELU_LINEAR_BITS,
    HALF_BITS,
    INV_ACT_MAX,
    REDUCTION_WAYS,
)

from .arithmetic import (
    Float,
    abs_max,
    add,
    as_bits,
    as_float,
    canonical,
    flush,
    from_bits,
    has_below,
    mul,
)
from .conversion import from_fp16, to_fp16, to_int8, to_int16
from .elementary import exp, rcp, rsqrt


__all__ = [
    "gelu", "low_scale", "quantise", "quantise16", "quantise_kv", "reduce16", "rms_scale", "silu",
    "sub", "to_fp16_scale",
]


_ACT_MAX = np.float32(ACT_MAX)
_ACT16_MAX = np.float32(ACT16_MAX)
_INV_ACT_MAX = np.float32(INV_ACT_MAX)
_ONE = np.float32(1)
_GELU_LINEAR, _GELU_CUBIC = (from_bits(bits) for bits in (GELU_LINEAR_BITS, GELU_CUBIC_BITS))
# Numbers of at least 2**-102 are multiples of 2**-125, and so are their sums, rounded or not:
# none of them can be subnormal. In terms of the doubled bits that has_below() compares.
_SAFE_LIMIT = 2 * ((FP32.bias - 102) << FP32.mant_bits) - 1


def sub(a: ArrayLike, b: ArrayLike, *, clean: bool = False) -> Float:
    """Subtract: :func:`~headrace.sw.numerics.add` with the sign of ``b`` inverted."""
    return add(a, np.negative(as_float(b)), clean=clean)


def reduce16(x: ArrayLike) -> Float:
    """Sum over the last axis, in the order that every configuration uses.

    Element ``i`` is added to partial sum ``i % 16``; each partial starts at +0 and takes its
    elements in ascending order; then ``p[j] = p[j] + p[j + w]`` for ``w`` of 8, 4, 2 and 1. The
    axis is padded with +0 to a multiple of 16.
    """
    x = flush(x)
    ways = REDUCTION_WAYS
    pad = -x.shape[-1] % ways
    if pad:
        x = np.concatenate([x, np.zeros((*x.shape[:-1], pad), np.float32)], axis=-1)
    steps = x.reshape((*x.shape[:-1], x.shape[-1] // ways, ways))
    plain = not has_below(x, _SAFE_LIMIT)
    partial = np.zeros((*x.shape[:-1], ways), np.float32)
    # NaN needs no care before the end: it stays NaN through every addition.
    with np.errstate(all="ignore"):
        for step in range(steps.shape[-2]):
            partial += steps[..., step, :]
            if not plain:
                partial = flush(partial)
        while ways > 1:
            ways //= 2
            partial = partial[..., :ways] + partial[..., ways:]
            if not plain:
                partial = flush(partial)
    return canonical(partial[..., 0])


def quantise(y: ArrayLike, group: int = 32) -> tuple[NDArray[np.int8], Float]:
    """Quantise activations to int8 with one scale per group along the last axis.

    ``amax = abs_max(y); scale = amax * fp32(1 / 127); q = to_int8(y * (rcp(amax) * 127))``. A
    group of zeros has scale 0 and values 0 without a special case: ``0 * inf`` is NaN and
    converts to 0.

    Parameters
    ----------
    y : array_like of float32, shape (..., n)
        Activations; ``n`` is a multiple of ``group``.
    group : int
        Values per scale.

    Returns
    -------
    q : int8 array, shape (..., n)
        Values.
    scale : float32 array, shape (..., n // group)
        Scales.
    """
    scaled, scale = _scaled(y, group, _ACT_MAX)
    return to_int8(scaled), scale


def quantise16(y: ArrayLike, group: int = 32) -> tuple[NDArray[np.int8], NDArray[np.int8], Float]:
    """Quantise activations to 16 bits with one scale per group along the last axis.

    ``q = to_int16(y * (rcp(amax) * 32512)); high = (q + 128) >> 8; low = q - 256 * high``, and the
    scale of `high` is that of :func:`quantise`.

    Returns
    -------
    high, low : int8 arrays, shape of ``y``
        Halves; `low` may be -128.
    scale : float32 array, shape (..., n // group)
        Scales of `high`; those of `low` are ``low_scale(scale)``.
    """
    scaled, scale = _scaled(y, group, _ACT16_MAX)
    q = to_int16(scaled)
    return (q + (1 << HALF_BITS - 1) >> HALF_BITS).astype(np.int8), q.astype(np.int8), scale


def low_scale(scale: ArrayLike) -> Float:
    """Scales of low halves: the exponents less 8, +0 where none is left; infinity and NaN stay."""
    bits = as_bits(scale)
    exponent = bits >> FP32.mant_bits & 0xff
    less = np.where(exponent > HALF_BITS, bits - np.uint32(HALF_BITS << FP32.mant_bits),
                    np.uint32(0))
    return np.where(exponent == 0xff, bits, less).astype(np.uint32).view(np.float32)


def _scaled(y: ArrayLike, group: int, most: np.float32) -> tuple[Float, Float]:
    """``y`` in units of `most` per greatest magnitude of its group, and the scales of int8."""
    y = as_float(y)
    if group < 1 or y.shape[-1] % group:
        raise ValueError(f"The last axis must be a multiple of the group of {group}, "
                         f"not {y.shape[-1]}")
    groups = flush(y).reshape((*y.shape[:-1], y.shape[-1] // group, group))
    amax = abs_max(groups)
    inverse = mul(rcp(amax), most, clean=True)
    scaled = mul(groups, inverse[..., None], clean=True)
    return scaled.reshape(y.shape), mul(amax, _INV_ACT_MAX, clean=True)


def to_fp16_scale(amax: ArrayLike) -> NDArray[np.uint16]:
    """Bits of the fp16 scale of values of at most ``amax``: ``to_fp16(amax * fp32(1 / 127))``."""
    return to_fp16(mul(amax, _INV_ACT_MAX))


def quantise_kv(v: ArrayLike) -> tuple[NDArray[np.int8], NDArray[np.uint16]]:
    """Quantise cache entries to int8 with one fp16 scale per vector along the last axis.

    ``scale = to_fp16(abs_max(v) * fp32(1 / 127)); q = to_int8(v * rcp(from_fp16(scale)))``, and
    ``q = 0`` where the scale is zero.

    Returns
    -------
    q : int8 array, shape of ``v``
        Values.
    scale : uint16 array, shape of ``v`` without the last axis
        Bits of the fp16 scales.
    """
    v = flush(v)
    scale = to_fp16_scale(abs_max(v))
    inverse = rcp(from_fp16(scale))
    q = to_int8(mul(v, inverse[..., None], clean=True))
    return np.where((scale & FP16.abs_mask)[..., None] != 0, q, np.int8(0)), scale


def silu(g: ArrayLike) -> Float:
    """``g * rcp(1 + exp(-g))``, which is NaN for minus infinity."""
    g = flush(g)
    gate = rcp(add(_ONE, exp(np.negative(g)), clean=True))
    return mul(g, gate, clean=True)


def gelu(g: ArrayLike) -> Float:
    """``g * rcp(1 + exp(-u))`` with ``u = g * (GELU_LINEAR + GELU_CUBIC * (g * g))``.

    The tanh form of GELU, as ``1 + tanh(u / 2)`` is twice the logistic function of ``u``; NaN for
    minus infinity.
    """
    g = flush(g)
    inner = add(_GELU_LINEAR, mul(_GELU_CUBIC, mul(g, g), clean=True), clean=True)
    u = mul(g, inner, clean=True)
    return mul(g, rcp(add(_ONE, exp(np.negative(u)), clean=True)), clean=True)


def rms_scale(x: ArrayLike, n_inv: ArrayLike, eps: ArrayLike) -> Float:
    """``rsqrt(reduce16(x * x) * n_inv + eps)`` over the last axis."""
    return rsqrt(add(mul(reduce16(mul(x, x)), n_inv), eps))

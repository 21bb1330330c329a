"""Products with weights: exact integer sums per group, accumulated in fp32."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace.hw.formats import FP32
from headrace.hw.isa import Format

from ..numerics import flush, from_fp16, mul
from ..numerics.arithmetic import canonical, has_below
from ..weight_layout import unpack_weights
from .state import Results, State


__all__ = ["Weights", "accumulate", "exact_sums", "matmul", "unpack"]


# Multiples of 2**-125 from here on: no sum of such numbers is subnormal.
_SAFE_LIMIT = 2 * ((FP32.bias - 102) << FP32.mant_bits) - 1

# Products that are held at once; larger matrices are computed in runs of columns.
_ELEMENTS = 1 << 22

# Weights that are kept as float32, four times their size, instead of int8.
_FLOAT_WEIGHTS = 1 << 26


def exact_sums(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Matrix product of integers held as float32.

    Exact whatever the order: products of int8 values summed over at most 128 stay below
    ``2**24``. Zeros are positive, as integers have no other.
    """
    sums = np.matmul(a, b)
    sums += np.float32(0)
    return sums


def accumulate(terms: NDArray[np.float32]) -> NDArray[np.float32]:
    """Add ``terms[0]``, ``terms[1]``, ... to +0 in this order, each sum rounded and flushed."""
    acc = np.zeros(terms.shape[1:], np.float32)
    plain = not has_below(terms, _SAFE_LIMIT)
    with np.errstate(all="ignore"):
        for term in terms:
            acc += term
            if not plain:
                acc = flush(acc)
    return canonical(acc)


class Weights:
    """An unpacked matrix.

    Attributes
    ----------
    q : array, shape (groups, group, columns)
        Values, float32 or int8.
    scales, minima : float32 arrays, shape (groups, columns)
        Scales; minima of W4A, else None.
    """

    def __init__(self, q: NDArray[np.int8], scales: NDArray[np.uint16],
                 minima: NDArray[np.uint16] | None):
        groups = scales.shape[0]
        values = q.reshape(groups, -1, q.shape[1])
        self.q = values if q.size > _FLOAT_WEIGHTS else values.astype(np.float32)
        self.scales = from_fp16(scales)
        self.minima = None if minima is None else from_fp16(minima)


def unpack(state: State, code: Mapping[str, int]) -> Weights:
    """Unpack the weights of a MATMUL from memory."""
    config = state.config
    raw = state.read(code["addr"], code["words"] * config.stride)
    return Weights(*unpack_weights(
        Format(code["fmt"]), raw, tiles=code["tiles"], groups=code["k_groups"],
        group=16 * code["group16"], cols=config.cols, stride=config.stride,
        narrow=code["narrow"]))


def _columns(x: NDArray[np.float32], scales: NDArray[np.float32], weights: Weights, run: slice
             ) -> NDArray[np.float32]:
    sums = exact_sums(x, weights.q[..., run].astype(np.float32, copy=False))
    factor = mul(scales[..., None], weights.scales[:, None, run], clean=True)
    terms = mul(sums, factor, clean=True)
    if weights.minima is not None:
        act_sums = mul(scales, x.sum(axis=-1), clean=True)
        minimum = mul(act_sums[..., None], weights.minima[:, None, run], clean=True)
        terms = np.stack([terms, minimum], axis=1).reshape(-1, *terms.shape[1:])
    return accumulate(terms)


def matmul(state: State, code: Mapping[str, int], weights: Weights, streams: int) -> Results:
    """Execute MATMUL: ``values[stream, column]`` of all tiles."""
    groups, group = code["k_groups"], 16 * code["group16"]
    q, scales = state.activations(code, streams, groups * group, groups)
    x = q.reshape(streams, groups, group).swapaxes(0, 1).astype(np.float32)
    by_group = np.ascontiguousarray(scales.T)
    columns = weights.scales.shape[1]
    step = max(1, _ELEMENTS // (groups * streams))
    parts = [_columns(x, by_group, weights, slice(at, at + step))
             for at in range(0, columns, step)]
    return Results(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))

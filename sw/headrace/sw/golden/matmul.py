"""Products with weights: exact integer sums per group, accumulated in fp32."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace.hw.formats import FP32
from headrace.hw.isa import Format

from ..numerics import as_bits, flush, from_fp16, mul
from ..numerics.arithmetic import canonical, has_below
from ..weight_layout import unpack_weights
from .parallel import each, own_threads, workers
from .state import Results, State


__all__ = ["Weights", "accumulate", "exact_sums", "matmul", "unpack"]


# Multiples of 2**-125 from here on: no sum of such numbers is subnormal.
_SAFE = 2.0 ** -102
_SAFE_LIMIT = 2 * ((FP32.bias - 102) << FP32.mant_bits) - 1

# Weights that are made float32 at once, and terms that are held at once: what stays in a core's
# second-level cache.
_WEIGHTS = 1 << 17
_TERMS = 1 << 16

# Products from which threads are worth their while.
_SPREAD = 1 << 19

# Products that are held at once where sums may be subnormal.
_ELEMENTS = 1 << 22


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


def _least(values: NDArray[np.float32]) -> float:
    """Least magnitude but zero; infinity if there is none."""
    magnitudes = np.abs(values)
    return float(np.fmin.reduce(magnitudes, axis=None, initial=np.inf, where=magnitudes > 0))


class Weights:
    """An unpacked matrix.

    Attributes
    ----------
    q : int8 array, shape (groups, group, columns)
        Values.
    scales, minima : float32 arrays, shape (groups, columns)
        Scales; minima of W4A, else None.
    limit : int
        For :func:`~headrace.sw.numerics.arithmetic.has_below`: scales of activations below may make
        terms of less than ``2**-102``.
    """

    def __init__(self, q: NDArray[np.int8], scales: NDArray[np.uint16],
                 minima: NDArray[np.uint16] | None):
        self.q = q.reshape(scales.shape[0], -1, q.shape[1])
        self.scales = from_fp16(scales)
        self.minima = None if minima is None else from_fp16(minima)
        least = min(_least(each) for each in (self.scales, self.minima) if each is not None)
        bound = np.float32(_SAFE / least)
        if float(bound) * least < _SAFE:
            bound = np.nextafter(bound, np.float32(1))
        self.limit = 2 * int(as_bits(bound)) - 1


def unpack(state: State, code: Mapping[str, int]) -> Weights:
    """Unpack the weights of a MATMUL from memory."""
    config = state.config
    raw = state.read(code["addr"], code["words"] * config.stride)
    return Weights(*unpack_weights(
        Format(code["fmt"]), raw, tiles=code["tiles"], groups=code["k_groups"],
        group=16 * code["group16"], cols=config.cols, stride=config.stride,
        narrow=code["narrow"]))


def _flushing(x: NDArray[np.float32], scales: NDArray[np.float32], weights: Weights, run: slice,
              streams: int) -> NDArray[np.float32]:
    """Columns `run` of a product, every operation on its own: for any scales."""
    sums = exact_sums(x, weights.q[..., run].astype(np.float32))
    factor = mul(scales[..., None], weights.scales[:, None, run], clean=True)
    terms = mul(sums, factor, clean=True)
    if weights.minima is not None:
        act_sums = mul(scales, x.sum(axis=-1), clean=True)
        minimum = mul(act_sums[..., None], weights.minima[:, None, run], clean=True)
        terms = np.stack([terms, minimum], axis=1)
    # [group, term, half, stream, column], in the order of the sum: a half, then its minima.
    terms = terms.reshape(len(x), -1, x.shape[1] // streams, streams, terms.shape[-1])
    return accumulate(terms.swapaxes(1, 2).reshape(-1, streams, terms.shape[-1]))


def _direct(x: NDArray[np.float32], scales: NDArray[np.float32], weights: Weights, run: slice,
            acc: NDArray[np.float32]) -> None:
    """Add columns `run` of a product to `acc`, which is +0: where nothing can be subnormal.

    The least product of two scales is at least ``2**-102``, and so is every term, being that
    times an integer: a multiple of ``2**-125``, as are all sums of terms, rounded or not. None of
    them is subnormal, so nothing is flushed. Zeros need no care: `acc` is never -0, because
    ``+0 + -0`` and ``x + -x`` are +0. A NaN stays one through all additions.
    """
    groups, rows, group = x.shape
    streams, width = acc.shape
    step = max(1, min(_WEIGHTS // (group * width), _TERMS // (rows * width)))
    buffer = np.empty((step, group, width), np.float32)
    sums, factor = np.empty((2, step, rows, width), np.float32)
    minima = None if weights.minima is None else weights.minima[:, run]
    minimum = np.empty((streams, 0 if minima is None else width), np.float32)
    with np.errstate(all="ignore"):
        act_sums = scales * x.sum(axis=-1)
        for at in range(0, groups, step):
            part = slice(at, min(at + step, groups))
            count = part.stop - at
            values, terms = buffer[:count], sums[:count]
            np.copyto(values, weights.q[part, :, run])
            np.matmul(x[part], values, out=terms)
            np.multiply(scales[part, :, None], weights.scales[part, None, run],
                        out=factor[:count])
            terms *= factor[:count]
            for index in range(count):
                for low in range(0, rows, streams):
                    half = slice(low, low + streams)
                    acc += terms[index, half]
                    if minima is not None:
                        np.multiply(act_sums[at + index, half, None], minima[at + index],
                                    out=minimum)
                        acc += minimum


def _product(x: NDArray[np.float32], scales: NDArray[np.float32], weights: Weights, streams: int
             ) -> NDArray[np.float32]:
    """``[stream, column]`` from ``x[group, stream, k]`` and ``scales[group, stream]``, of once or
    twice as many streams: all high halves, then all low ones."""
    groups, _, group = x.shape
    columns = weights.scales.shape[1]
    result = np.zeros((streams, columns), np.float32)
    direct = not has_below(scales, weights.limit)
    spread = groups * group * streams * columns >= _SPREAD
    if direct:
        step = min(-(-columns // workers()) if spread else columns,
                   max(64, min(_WEIGHTS // group, _TERMS // streams)))
    else:
        step = max(1, _ELEMENTS // (groups * streams))

    def columns_from(at: int) -> None:
        run = slice(at, min(at + step, columns))
        if direct:
            _direct(x, scales, weights, run, result[:, run])
        else:
            result[:, run] = _flushing(x, scales, weights, run, streams)

    with own_threads():
        each(columns_from, range(0, columns, step), spread=spread)
    return canonical(result)


def matmul(state: State, code: Mapping[str, int], weights: Weights, streams: int) -> Results:
    """Execute MATMUL: ``values[stream, column]`` of all tiles."""
    groups, group = code["k_groups"], 16 * code["group16"]
    q, scales = state.activations(code, streams, groups * group, groups)
    x = q.reshape(len(q), groups, group).swapaxes(0, 1).astype(np.float32)
    return Results(_product(x, np.ascontiguousarray(scales.T), weights, streams))

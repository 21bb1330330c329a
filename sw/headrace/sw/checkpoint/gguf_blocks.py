"""Tensors of GGUF files: as float32, or their blocks as the machine's weights."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import Q4_K, dequantize
from numpy.typing import NDArray

from headrace.hw.isa import Format

from ..quantiser import Quantised


__all__ = ["GROUP", "NATIVE", "SUPPORTED", "NativeKind", "native_blocks", "to_float"]


#: Types that can be read.
SUPPORTED = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1,
             Type.Q4_K, Type.Q5_K, Type.Q6_K)

#: Values that share a scale in all types of :data:`NATIVE`.
GROUP = 32

# Values that are converted at a time: what is not needed for long stays small.
_RUN = 1 << 20


def to_float(raw: NDArray[np.uint8], dtype: Type, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Convert the bytes of a tensor to float32, exactly as the `gguf` library does.

    Parameters
    ----------
    raw : uint8 array, shape (bytes,)
        The tensor as it lies in the file.
    dtype : GGMLQuantizationType
        Its type, one of :data:`SUPPORTED`.
    shape : tuple of int
        Its shape; a row is whole blocks.
    """
    result = np.empty(shape, np.float32)
    rows = result.reshape(-1, shape[-1])
    data = raw.reshape(len(rows), -1)
    step = max(1, _RUN // shape[-1])
    # Infinite and NaN scales are found by the caller, in the result.
    with np.errstate(all="ignore"):
        for at in range(0, len(rows), step):
            # A copy: tensors may begin at any byte.
            run = np.array(data[at:at + step])
            rows[at:at + step] = run.view("<f4") if dtype == Type.F32 else dequantize(run, dtype)
    return result


def _half(blocks: NDArray[np.uint8], at: int) -> NDArray[np.float16]:
    """The fp16 number at byte `at` of each block."""
    return np.ascontiguousarray(blocks[..., at:at + 2]).view("<f2")[..., 0]


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Values of blocks whose low nibbles are the first half, high nibbles the second."""
    return np.concatenate([packed & np.uint8(0xf), packed >> np.uint8(4)], axis=-1,
                          dtype=np.uint8)


_Parts = tuple[NDArray[np.int8], NDArray[np.float16], NDArray[np.float16] | None]


def _q8_0(blocks: NDArray[np.uint8]) -> _Parts:
    return blocks[..., 2:].view(np.int8), _half(blocks, 0), None


def _q4_0(blocks: NDArray[np.uint8]) -> _Parts:
    return _nibbles(blocks[..., 2:]).view(np.int8) - np.int8(8), _half(blocks, 0), None


def _q4_1(blocks: NDArray[np.uint8]) -> _Parts:
    return _nibbles(blocks[..., 4:]).view(np.int8), _half(blocks, 0), _half(blocks, 2)


def _q5_0(blocks: NDArray[np.uint8]) -> _Parts:
    high = np.unpackbits(blocks[..., 2:6], axis=-1, bitorder="little")
    q = _nibbles(blocks[..., 6:]) | high << 4
    return q.view(np.int8) - np.int8(16), _half(blocks, 0), None


def _q4_k(blocks: NDArray[np.uint8]) -> _Parts:
    """Super-blocks of 8 groups: ``d * sc`` and ``-dmin * m``, each rounded to fp16."""
    rows, count = blocks.shape[:2]
    flat = blocks.reshape(rows * count, -1)
    sc, m = Q4_K.get_scale_min(np.ascontiguousarray(flat[:, 4:16]))
    scales = _half(flat, 0)[:, None].astype(np.float64) * sc
    minima = -(_half(flat, 2)[:, None].astype(np.float64) * m)
    # 4 runs of 32 bytes, each with two groups.
    q = _nibbles(flat[:, 16:].reshape(-1, 4, 32)).reshape(rows, -1, 32)

    def rounded(values: NDArray[np.float64]) -> NDArray[np.float16]:
        return values.astype(np.float16).reshape(rows, -1)

    return q.view(np.int8), rounded(scales), rounded(minima)


@dataclass(frozen=True)
class NativeKind:
    """A type whose blocks are weights of the machine.

    Attributes
    ----------
    fmt : Format
        Format of the machine.
    exact : bool
        The machine's weights are the file's, to the last bit. Otherwise the integers are, and
        scales are rounded to fp16.
    parts : callable
        ``[row, block, byte]`` to values ``[row, group, value]``, scales and minima
        ``[row, group]``.
    """

    fmt: Format
    exact: bool
    parts: Callable[[NDArray[np.uint8]], _Parts]


#: Types whose blocks are taken over.
NATIVE = {
    Type.Q8_0: NativeKind(Format.W8, True, _q8_0),
    Type.Q4_0: NativeKind(Format.W4, True, _q4_0),
    Type.Q4_1: NativeKind(Format.W4A, True, _q4_1),
    Type.Q5_0: NativeKind(Format.W8, True, _q5_0),
    Type.Q4_K: NativeKind(Format.W4A, False, _q4_k),
}


def native_blocks(raw: NDArray[np.uint8], dtype: Type, shape: tuple[int, int]) -> Quantised:
    """Take the blocks of a matrix over, contraction first.

    Parameters
    ----------
    raw : uint8 array, shape (bytes,)
        The matrix as it lies in the file.
    dtype : GGMLQuantizationType
        Its type, one of :data:`NATIVE`.
    shape : tuple of int
        Its shape ``(n, k)``.

    Returns
    -------
    Quantised
        Values ``[k, n]``, scales and minima ``[k // 32, n]``. Scales may be NaN or infinite if
        the file's are.
    """
    kind = NATIVE[dtype]
    n, k = shape
    q = np.empty((n, k), np.int8)
    scales = np.empty((n, k // GROUP), np.float16)
    minima = np.empty_like(scales) if kind.fmt == Format.W4A else None
    data = raw.reshape(n, -1)
    step = max(1, _RUN // k)
    block_bytes = GGML_QUANT_SIZES[dtype][1]
    with np.errstate(all="ignore"):
        for at in range(0, n, step):
            run = np.array(data[at:at + step])
            values, scale, minimum = kind.parts(run.reshape(len(run), -1, block_bytes))
            q[at:at + step] = values.reshape(len(run), k)
            scales[at:at + step] = scale
            if minima is not None and minimum is not None:
                minima[at:at + step] = minimum
    return Quantised(q.T, scales.T, None if minima is None else minima.T)

"""Memory layout of `docs/architecture.md` in NumPy: weights.

Everything is little-endian, and stored in the order in which the machine reads it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import Config
from headrace.hw.isa import Format


__all__ = ["block_words", "column_bytes", "header_words", "interleave_tiles", "matrix_words",
           "pack_weights", "result_columns", "unpack_weights", "weight_bits"]


def weight_bits(fmt: Format) -> int:
    """Bits of one weight."""
    return 8 if fmt == Format.W8 else 4


def header_words(fmt: Format, narrow: int = 0) -> int:
    """Words of `stride` bytes in the header of a block: scales, then minima."""
    return (2 if fmt == Format.W4A else 1) * (1 if narrow else 2)


def block_words(fmt: Format, group: int, narrow: int = 0) -> int:
    """Words of `stride` bytes in one weight block, headers included.

    `narrow` is log2(stride / columns of the tile).
    """
    return header_words(fmt, narrow) + (group * weight_bits(fmt) // 8 >> narrow)


def column_bytes(fmt: Format, group: int) -> int:
    """Bytes of one column of a weight block: values, scale, and minimum of W4A; as many as a full
    block, in which a column is one byte wide, has words."""
    return block_words(fmt, group)


def matrix_words(fmt: Format, group: int, *, tiles: int, groups: int, narrow: int) -> int:
    """Words of `stride` bytes in a matrix whose last tile is `narrow`."""
    return groups * ((tiles - 1) * block_words(fmt, group) + block_words(fmt, group, narrow))


def result_columns(config: Config, code: Mapping[str, int]) -> int:
    """Columns of the results of a MATMUL, padded ones included."""
    narrow = code["narrow"]
    last = config.stride >> narrow if narrow else config.cols
    return (code["tiles"] - 1) * config.cols + last


def interleave_tiles(parts: list[NDArray[Any]], cols: int) -> NDArray[Any]:
    """Interleave matrices of equal shape tile by tile along their last axis.

    Tile ``len(parts) * t + i`` of the result is tile `t` of ``parts[i]``; each part is padded with
    zeros to whole tiles.
    """
    tiles = -(-parts[0].shape[-1] // cols)
    shape = (*parts[0].shape[:-1], tiles, len(parts), cols)
    result = np.zeros(shape, parts[0].dtype)
    for index, part in enumerate(parts):
        padded = np.zeros((*part.shape[:-1], tiles * cols), part.dtype)
        padded[..., :part.shape[-1]] = part
        result[..., index, :] = padded.reshape(*part.shape[:-1], tiles, cols)
    return result.reshape(*shape[:-3], -1)


def _tiles(values: NDArray[Any], cols: int) -> NDArray[Any]:
    """``[..., n]`` to ``[tiles, ..., cols]``, padded with zeros."""
    tiles = -(-values.shape[-1] // cols)
    padded = np.zeros((*values.shape[:-1], tiles * cols), values.dtype)
    padded[..., :values.shape[-1]] = values
    return np.moveaxis(padded.reshape(*values.shape[:-1], tiles, cols), -2, 0)


def pack_weights(fmt: Format, q: NDArray[np.int8], scales: NDArray[np.float16],
                 minima: NDArray[np.float16] | None, *, cols: int, stride: int, narrow: int = 0
                 ) -> NDArray[np.uint8]:
    """Pack one matrix.

    Parameters
    ----------
    fmt : Format
        W8: values of -128 ... 127; W4: -8 ... 7; W4A: 0 ... 15.
    q : int8 array, shape (k, n)
        Values; `k` is a multiple of the group.
    scales, minima : float16 arrays, shape (k // group, n)
        Scales, and for W4A minima, per group and column.
    cols, stride : int
        Columns of a tile, and bytes of a word.
    narrow : int
        log2(stride / columns of the last tile), 0 for a full one.

    Returns
    -------
    uint8 array
        The matrix as it lies in memory, whole words.
    """
    headers = [scales]
    if fmt == Format.W4A:
        if minima is None:
            raise ValueError("W4A needs minima")
        headers.append(minima)
    whole = (-(-q.shape[1] // cols) - 1) * cols if narrow else q.shape[1]
    parts = [_pack_tiles(fmt, q[:, :whole], [part[:, :whole] for part in headers], cols, stride,
                         stride)]
    if narrow:
        last = stride >> narrow
        parts.append(_pack_tiles(fmt, q[:, whole:], [part[:, whole:] for part in headers], last,
                                 last, stride // 2))
    return np.concatenate(parts)


def _pack_tiles(fmt: Format, q: NDArray[np.int8], headers: list[NDArray[np.float16]], cols: int,
                width: int, slots: int) -> NDArray[np.uint8]:
    """Tiles of `cols` columns: rows of `width` weights, headers of `slots` numbers."""
    groups = headers[0].shape[0]
    group = q.shape[0] // groups
    tiles = -(-q.shape[1] // cols)
    header = np.zeros((tiles, groups, len(headers), slots), np.dtype("<f2"))
    for index, values in enumerate(headers):
        header[:, :, index, :cols] = _tiles(values, cols)
    rows = np.zeros((tiles, groups, group, width), np.uint8)
    rows[..., :cols] = _tiles(q, cols).reshape(tiles, groups, group, cols).view(np.uint8)
    rows = rows.reshape(tiles, groups, group * width)
    if weight_bits(fmt) == 4:
        rows &= 0xf
        rows = rows[..., ::2] | np.left_shift(rows[..., 1::2], 4, dtype=np.uint8)
    raw = header.reshape(tiles, groups, len(headers) * slots).view(np.uint8)
    return np.concatenate([raw, rows], axis=2, dtype=np.uint8).reshape(-1)


def unpack_weights(fmt: Format, raw: NDArray[np.uint8], *, tiles: int, groups: int, group: int,
                   cols: int, stride: int, narrow: int = 0
                   ) -> tuple[NDArray[np.int8], NDArray[np.uint16], NDArray[np.uint16] | None]:
    """Invert :func:`pack_weights`.

    Returns
    -------
    q : int8 array, shape (groups * group, columns)
        Values: columns of all tiles, padded ones included.
    scales, minima : uint16 arrays, shape (groups, columns)
        Bits of the fp16 scales; of the minima for W4A, else None.
    """
    whole = tiles - 1 if narrow else tiles
    size = whole * groups * block_words(fmt, group) * stride
    parts = [_unpack_tiles(fmt, raw[:size], (whole, groups, group), cols, stride, stride)]
    if narrow:
        last = stride >> narrow
        parts.append(_unpack_tiles(fmt, raw[size:], (1, groups, group), last, last, stride // 2))
    q, scales, *minima = [np.concatenate(part, axis=-1) if narrow else part[0]
                          for part in zip(*parts)]
    return q, scales, minima[0] if minima else None


def _unpack_tiles(fmt: Format, raw: NDArray[np.uint8], shape: tuple[int, int, int], cols: int,
                  width: int, slots: int) -> list[NDArray[Any]]:
    """Invert :func:`_pack_tiles` for a `shape` of (tiles, groups, group): q, then headers."""
    tiles, groups, group = shape
    kinds = header_words(fmt) // 2
    begin = 2 * kinds * slots
    packed = raw.reshape(tiles, groups, begin + group * width * weight_bits(fmt) // 8)
    header = np.ascontiguousarray(packed[..., :begin]).view("<u2")
    header = header.reshape(tiles, groups, kinds, slots)[..., :cols]

    def columns(values: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(np.moveaxis(values, 0, -2)).reshape(
            *values.shape[1:-1], tiles * cols)

    body = packed[..., begin:]
    if fmt == Format.W8:
        rows = body.reshape(tiles, groups, group, width)[..., :cols].view(np.int8)
    else:
        nibbles = np.stack([body & 0xf, body >> 4], axis=-1).reshape(tiles, groups, group, width)
        rows = nibbles[..., :cols].view(np.int8)
        if fmt == Format.W4:
            rows = (rows ^ 8) - np.int8(8)
    return [columns(rows.reshape(tiles, groups * group, cols)),
            *(columns(header[:, :, kind]) for kind in range(kinds))]

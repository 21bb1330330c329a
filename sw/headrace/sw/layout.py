"""Memory layouts of `docs/architecture.md` in NumPy: weights and the cache.

Everything is little-endian, and stored in the order in which the machine reads it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN, KV_BLOCK, Config
from headrace.hw.isa import Format


__all__ = ["CacheLayout", "align", "block_words", "column_bytes", "interleave_tiles",
           "pack_weights", "unpack_weights"]


def align(size: int, unit: int = ALIGN) -> int:
    """Round `size` up to a multiple of `unit`."""
    return -(-size // unit) * unit


def block_words(fmt: Format, group: int) -> int:
    """Words of `stride` bytes in one weight block, headers included: as many as a column, which is
    one byte wide, has bytes."""
    return column_bytes(fmt, group)


def column_bytes(fmt: Format, group: int) -> int:
    """Bytes of one column of a weight block: values, scale, and minimum of W4A."""
    return {Format.W8: 2 + group, Format.W4: 2 + group // 2, Format.W4A: 4 + group // 2}[fmt]


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
                 minima: NDArray[np.float16] | None, *, cols: int, stride: int
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

    Returns
    -------
    uint8 array, shape (tiles, k // group, block_words, stride)
        The matrix as it lies in memory.
    """
    groups = scales.shape[0]
    group = q.shape[0] // groups
    tiles = -(-q.shape[1] // cols)
    packed = np.zeros((tiles, groups, block_words(fmt, group), stride), np.uint8)
    count = 4 if fmt == Format.W4A else 2
    header = np.zeros((tiles, groups, count // 2, stride), np.dtype("<f2"))
    header[:, :, 0, :cols] = _tiles(scales, cols)
    if fmt == Format.W4A:
        if minima is None:
            raise ValueError("W4A needs minima")
        header[:, :, 1, :cols] = _tiles(minima, cols)

    packed[:, :, :count] = header.view(np.uint8).reshape(tiles, groups, count, stride)
    rows = _tiles(q, cols).reshape(tiles, groups, group, cols)
    if fmt == Format.W8:
        packed[:, :, count:, :cols] = rows.view(np.uint8)
    else:
        nibbles = np.zeros((tiles, groups, group, stride), np.uint8)
        nibbles[..., :cols] = rows.view(np.uint8) & 0xf
        pairs = nibbles.reshape(tiles, groups, -1, 2)
        packed[:, :, count:] = (pairs[..., 0] | pairs[..., 1] << 4).reshape(
            tiles, groups, -1, stride)
    return packed


def unpack_weights(fmt: Format, raw: NDArray[np.uint8], *, tiles: int, groups: int, group: int,
                   cols: int, stride: int
                   ) -> tuple[NDArray[np.int8], NDArray[np.uint16], NDArray[np.uint16] | None]:
    """Invert :func:`pack_weights`.

    Returns
    -------
    q : int8 array, shape (groups * group, tiles * cols)
        Values.
    scales, minima : uint16 arrays, shape (groups, tiles * cols)
        Bits of the fp16 scales; of the minima for W4A, else None.
    """
    count = 4 if fmt == Format.W4A else 2
    packed = raw.reshape(tiles, groups, block_words(fmt, group), stride)
    # Flat rows first: with one column a word is shorter than a scale.
    header = np.ascontiguousarray(packed[:, :, :count]).reshape(tiles, groups, -1).view("<u2")
    header = header.reshape(tiles, groups, count // 2, stride)[..., :cols]

    def columns(values: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(np.moveaxis(values, 0, -2)).reshape(
            *values.shape[1:-1], tiles * cols)

    body = packed[:, :, count:]
    if fmt == Format.W8:
        rows = body[..., :cols].view(np.int8)
    else:
        flat = np.ascontiguousarray(body).reshape(tiles, groups, -1)
        nibbles = np.stack([flat & 0xf, flat >> 4], axis=-1).reshape(tiles, groups, group, stride)
        rows = nibbles[..., :cols].view(np.int8)
        if fmt == Format.W4:
            rows = (rows ^ 8) - np.int8(8)
    q = columns(rows.reshape(tiles, groups * group, cols))
    minima = columns(header[:, :, 1]) if fmt == Format.W4A else None
    return q, columns(header[:, :, 0]), minima


@dataclass(frozen=True, kw_only=True)
class CacheLayout:
    """Where the cache keeps each key and value.

    Parameters
    ----------
    layers, kv_heads : int
        Layers and K/V heads of the model.
    head_dim : int
        Head dimension, padded to 16.
    k_cols, v_cols : int
        Tokens in a tile of K; dimensions in a tile of V.
    """

    layers: int
    kv_heads: int
    head_dim: int
    k_cols: int
    v_cols: int

    @classmethod
    def of(cls, config: Config, *, layers: int, kv_heads: int, head_dim: int) -> "CacheLayout":
        """Layout on a configuration, for a `head_dim` padded to 16."""
        return cls(layers=layers, kv_heads=kv_heads, head_dim=head_dim, k_cols=config.k_cols,
                   v_cols=config.v_cols(head_dim))

    @property
    def block_units(self) -> int:
        """64-byte units of one block of one K/V head."""
        return self.head_dim + 2

    @property
    def pitch_units(self) -> int:
        """64-byte units from one block of 32 tokens to the next."""
        return self.layers * self.kv_heads * self.block_units

    def size(self, tokens: int) -> int:
        """Bytes of the cache of `tokens` tokens, in whole blocks."""
        return -(-tokens // KV_BLOCK) * self.pitch_units * ALIGN

    def unit(self, block: int, layer: int, head: int) -> int:
        """64-byte unit of the cache where a block begins."""
        return block * self.pitch_units + (layer * self.kv_heads + head) * self.block_units

    def blocks(self, memory: NDArray[np.uint8], begin: int, count: int) -> NDArray[np.uint8]:
        """View of the blocks ``[block, head, byte]`` of the layer whose cache begins at `begin`.

        `memory` is a one-dimensional contiguous array, `begin` a byte of it.
        """
        unit = self.block_units * ALIGN
        return np.ndarray((count, self.kv_heads, unit), np.uint8, memory, begin,
                          (self.pitch_units * ALIGN, unit, 1))

    def k_offset(self, k: int, token: int) -> int:
        """Byte of a block that holds element `k` of the key of `token` (0 ... 31)."""
        tile, column = divmod(token, self.k_cols)
        return 4 * KV_BLOCK + (tile * self.head_dim + k) * self.k_cols + column

    def v_offset(self, d: int, token: int) -> int:
        """Byte of a block that holds element `d` of the value of `token` (0 ... 31)."""
        tile, column = divmod(d, self.v_cols)
        values = 4 * KV_BLOCK + KV_BLOCK * self.head_dim
        return values + (tile * KV_BLOCK + token) * self.v_cols + column

    def locate(self, offset: int) -> tuple[int, int, int, str, int, int]:
        """What the byte at `offset` of the cache belongs to.

        Returns
        -------
        block, layer, head : int
            Block of 32 tokens.
        part : str
            ``"k_scale"``, ``"v_scale"``, ``"k"`` or ``"v"``.
        token, element : int
            Token of the block, and element (byte of a scale).
        """
        unit, byte = divmod(offset, self.block_units * ALIGN)
        block, rest = divmod(unit, self.layers * self.kv_heads)
        layer, head = divmod(rest, self.kv_heads)
        scales, keys = 2 * KV_BLOCK, KV_BLOCK * self.head_dim
        if byte < 2 * scales:
            part = "k_scale" if byte < scales else "v_scale"
            token, element = divmod(byte % scales, 2)
        elif byte < 2 * scales + keys:
            part = "k"
            row, column = divmod(byte - 2 * scales, self.k_cols)
            tile, element = divmod(row, self.head_dim)
            token = tile * self.k_cols + column
        else:
            part = "v"
            row, column = divmod(byte - 2 * scales - keys, self.v_cols)
            tile, token = divmod(row, KV_BLOCK)
            element = tile * self.v_cols + column
        return block, layer, head, part, token, element

    def keys(self, blocks: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Keys ``[block, head, k, token]`` of a view from :meth:`blocks`."""
        part = blocks[..., 4 * KV_BLOCK:4 * KV_BLOCK + KV_BLOCK * self.head_dim]
        tiles = part.reshape(*part.shape[:2], -1, self.head_dim, self.k_cols).view(np.int8)
        return np.moveaxis(tiles, -3, -2).reshape(*part.shape[:2], self.head_dim, KV_BLOCK)

    def values(self, blocks: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Values ``[block, head, token, d]`` of a view from :meth:`blocks`."""
        part = blocks[..., 4 * KV_BLOCK + KV_BLOCK * self.head_dim:]
        tiles = part.reshape(*part.shape[:2], -1, KV_BLOCK, self.v_cols).view(np.int8)
        return np.moveaxis(tiles, -3, -2).reshape(*part.shape[:2], KV_BLOCK, self.head_dim)

    def scales(self, blocks: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """Bits of the scales ``[block, head, 2, token]``, K then V, of a view of blocks."""
        part = np.ascontiguousarray(blocks[..., :4 * KV_BLOCK]).view("<u2")
        return part.reshape(*part.shape[:2], 2, KV_BLOCK)

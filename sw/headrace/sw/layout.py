"""Memory layout of `docs/architecture.md` in NumPy: the cache.

Everything is little-endian, and stored in the order in which the machine reads it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN, KV_BLOCK, Config


__all__ = ["CacheLayout", "align"]


def align(size: int, unit: int = ALIGN) -> int:
    """Round `size` up to a multiple of `unit`."""
    return -(-size // unit) * unit


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

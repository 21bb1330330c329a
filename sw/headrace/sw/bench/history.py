"""A cache full of made-up keys and values."""

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN

from ..compiler import Image


__all__ = ["random_cache"]


def random_cache(image: Image, tokens: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """Bytes of a cache of `tokens` tokens, in whole blocks: any int8, fp16 scales around 0.01.

    With such scales, keys and values have about the size of normalised activations.
    """
    rng = np.random.default_rng(seed)
    layout = image.cache
    blocks = rng.integers(-127, 128, layout.size(tokens), np.int8).view(np.uint8)
    blocks = blocks.reshape(-1, layout.block_units * ALIGN)
    # 32 scales of keys, then 32 of values, begin each block.
    scales = rng.uniform(0.005, 0.02, (len(blocks), 64)).astype("<f2")
    blocks[:, :128] = scales.view(np.uint8)
    return blocks.reshape(-1)

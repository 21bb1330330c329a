"""Comparison of a device with the golden machine, after each run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.hw.isa import Op

from .compiler import Image
from .errors import HeadraceError


__all__ = ["Difference", "cache_difference", "logits_difference", "token_difference"]


class Difference(HeadraceError):
    """The device and the golden machine differ. The message names the first difference."""

    exit_code = 1


def _instruction(image: Image, op: Op, layer: int = 0) -> str:
    """Name the `layer`-th instruction of a kind."""
    indices = [index for index, code in enumerate(image.program) if code["op"] == op]
    return f"instruction {indices[layer]} ({op.name})"


def cache_difference(image: Image, device: NDArray[np.uint8], golden: NDArray[np.uint8],
                     begins: Sequence[int]) -> str | None:
    """Find the first difference of two caches.

    Parameters
    ----------
    image : Image
        The image.
    device, golden : uint8 arrays
        The caches, from their beginning, in equal length.
    begins : sequence of int
        First position of each pass since the last comparison: what an earlier pass wrote comes
        first, then the lower layer, then the lower token.

    Returns
    -------
    str or None
        What differs, with both values.
    """
    if np.array_equal(device, golden):
        return None
    layout = image.cache
    found = []
    for at in np.flatnonzero(device != golden)[:100_000].tolist():
        block, layer, head, part, token, element = layout.locate(at)
        position = 32 * block + token
        turn = sum(begin <= position for begin in begins)
        found.append((turn or len(begins) + 1, layer, position, head, part, element, at))
    _, layer, position, head, part, element, at = min(found)
    if part.endswith("scale"):
        at -= element
        pair = [f"{int(cache[at:at + 2].view('<u2')[0]):#06x}" for cache in (device, golden)]
        where = f"[position {position}]"
    else:
        pair = [str(int(cache[at:at + 1].view(np.int8)[0])) for cache in (device, golden)]
        where = f"[position {position}, element {element}]"
    return (f"{_instruction(image, Op.APPEND, layer)}, cache of layer {layer}, K/V head {head}: "
            f"{part}{where} is {pair[0]} on the device and {pair[1]} on golden")


def logits_difference(image: Image, device: NDArray[np.uint8], golden: NDArray[np.uint8]
                      ) -> str | None:
    """Find the first difference of logits, given as bytes."""
    bits = [np.ascontiguousarray(raw).view("<u4") for raw in (device, golden)]
    where = np.flatnonzero(bits[0] != bits[1])
    if not where.size:
        return None
    index = int(where[0])
    values = [f"{raw.view('<f4')[index]!s} ({int(raw[index]):#010x})" for raw in bits]
    return (f"{_instruction(image, Op.LOGITS)}: logits[{index}] is {values[0]} on the device and "
            f"{values[1]} on golden")


def token_difference(image: Image, device: Sequence[int], golden: Sequence[int]) -> str | None:
    """Find the first difference of chosen tokens."""
    for index, (one, other) in enumerate(zip(device, golden)):
        if one != other:
            return (f"{_instruction(image, Op.LOGITS)}: token[pass {index} of the run] is {one} "
                    f"on the device and {other} on golden")
    return None

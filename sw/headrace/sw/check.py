"""Comparison of a device with the golden machine, after each run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.hw.isa import Op

from .compiler import Image
from .errors import HeadraceError


__all__ = ["Difference", "Finding", "cache_difference", "logits_difference", "token_difference"]


class Difference(HeadraceError):
    """The device and the golden machine differ. The message names the first difference."""

    exit_code = 1


@dataclass(frozen=True, order=True)
class Finding:
    """A difference. Findings are ordered by the time at which the machine computes them.

    Attributes
    ----------
    turn : int
        Pass of the run.
    instruction : int
        Index of the instruction in the program.
    text : str
        What differs, with both values.
    """

    turn: int
    instruction: int
    text: str

    def __str__(self) -> str:
        return self.text


def _find(image: Image, turn: int, op: Op, text: str, layer: int = 0) -> Finding:
    """Blame the `layer`-th instruction of a kind."""
    index = [index for index, code in enumerate(image.program) if code["op"] == op][layer]
    return Finding(turn, index, f"instruction {index} ({op.name}){text}")


def cache_difference(image: Image, device: NDArray[np.uint8], golden: NDArray[np.uint8],
                     begins: Sequence[int]) -> Finding | None:
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
    Finding or None
        The first difference.
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
    turn, layer, position, head, part, element, at = min(found)
    if part.endswith("scale"):
        at -= element
        pair = [f"{int(cache[at:at + 2].view('<u2')[0]):#06x}" for cache in (device, golden)]
        where = f"[position {position}]"
    else:
        pair = [str(int(cache[at:at + 1].view(np.int8)[0])) for cache in (device, golden)]
        where = f"[position {position}, element {element}]"
    return _find(image, min(turn, len(begins)) - 1, Op.APPEND,
                 f", cache of layer {layer}, K/V head {head}: {part}{where} is {pair[0]} on the "
                 f"device and {pair[1]} on golden", layer)


def logits_difference(image: Image, device: NDArray[np.uint8], golden: NDArray[np.uint8],
                      turn: int) -> Finding | None:
    """Find the first difference of logits, given as bytes, of pass `turn` of the run."""
    bits = [np.ascontiguousarray(raw).view("<u4") for raw in (device, golden)]
    where = np.flatnonzero(bits[0] != bits[1])
    if not where.size:
        return None
    index = int(where[0])
    values = [f"{raw.view('<f4')[index]!s} ({int(raw[index]):#010x})" for raw in bits]
    return _find(image, turn, Op.LOGITS, f": logits[{index}] is {values[0]} on the device and "
                                         f"{values[1]} on golden")


def token_difference(image: Image, device: Sequence[int], golden: Sequence[int]
                     ) -> Finding | None:
    """Find the first difference of chosen tokens."""
    for index, (one, other) in enumerate(zip(device, golden)):
        if one != other:
            return _find(image, index, Op.LOGITS, f": token[pass {index} of the run] is {one} on "
                                                  f"the device and {other} on golden")
    return None

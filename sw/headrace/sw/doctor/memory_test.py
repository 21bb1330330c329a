"""Memory test by the host: a pattern is written, read back and compared."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.hw.link.map import CRC_POLYNOMIAL

from ..device import Device
from ..errors import HeadraceError


__all__ = ["MemoryTest", "SEED", "lfsr_words", "test_memory"]


#: First word of the pattern.
SEED = 0x1234_5678

#: Bytes that are written or read at once.
_PIECE = 1 << 16


@dataclass(frozen=True)
class MemoryTest:
    """What a memory test found.

    Attributes
    ----------
    words : int
        Words of 4 bytes in the range.
    errors : int
        Words that were different, in any round.
    bad_addr : int or None
        The lowest address of them.
    seconds : float
        Time of the test.
    """

    words: int
    errors: int
    bad_addr: int | None
    seconds: float


def lfsr_words(seed: int, count: int) -> NDArray[np.uint32]:
    """The pattern of a board's memory test: `seed`, and `count - 1` words that follow.

    A word is shifted to the right by one bit; where that bit was 1, it is combined with the
    polynomial of CRC-32 by exclusive or.
    """
    words = np.empty(count, "<u4")
    state = seed
    for index in range(count):
        words[index] = state
        state = state >> 1 ^ (CRC_POLYNOMIAL if state & 1 else 0)
    return words


def test_memory(device: Device, addr: int, size: int, *, seed: int = SEED,
                progress: Callable[[int, int], None] | None = None) -> MemoryTest:
    """Test a range of memory, whose content is lost.

    Two rounds, the second with every bit inverted, so that each bit has been 0 and 1. Each round
    writes the whole range before it reads any of it: an address that reaches two places shows,
    because no word of the pattern comes twice.

    Parameters
    ----------
    device : Device
        An opened device.
    addr, size : int
        The range, multiples of 4.
    seed : int
        First word of the pattern, not 0.
    progress : callable, optional
        Called with the bytes done and the bytes in all.

    Raises
    ------
    HeadraceError
        If the range is no whole words, or the device fails.
    """
    if addr % 4 or size % 4 or size <= 0:
        raise HeadraceError(f"memory test of {size} bytes at {addr:#x}: expected multiples of 4")
    start = time.monotonic()
    pattern = lfsr_words(seed, size // 4)
    wrong = np.zeros(pattern.size, bool)
    done = 0
    for inverted in (0, 0xffff_ffff):
        data = (pattern ^ np.uint32(inverted)).view(np.uint8)
        for reading in (False, True):
            for at in range(0, size, _PIECE):
                part = data[at:at + _PIECE]
                if reading:
                    found = device.read_memory(addr + at, part.size).view("<u4")
                    wrong[at // 4:at // 4 + found.size] |= found != part.view("<u4")
                else:
                    device.write_memory(addr + at, part)
                done += part.size
                if progress is not None:
                    progress(done, 4 * size)
    bad = np.flatnonzero(wrong)
    return MemoryTest(pattern.size, bad.size, addr + 4 * int(bad[0]) if bad.size else None,
                      time.monotonic() - start)


# The name is no test of pytest's.
test_memory.__test__ = False    # type: ignore[attr-defined]

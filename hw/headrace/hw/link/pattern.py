"""Pattern and CRC-32 of the memory test, as plain Python and as gateware share them."""

from .map import CRC_POLYNOMIAL


__all__ = ["SHIFTS", "crc_terms", "pattern"]


#: Steps of the generator: xorshift, a linear feedback over all 32 bits with period 2**32 - 1. A
#: positive number shifts to the left. Neighbouring words differ in about half of their bits.
SHIFTS = (13, -17, 5)


def pattern(seed: int, words: int) -> list[int]:
    """The first words of the pattern.

    Raises
    ------
    ValueError
        For seed 0, from which all words would be 0.
    """
    if not 0 < seed < 1 << 32:
        raise ValueError(f"the seed of a pattern must be from 1 to 2**32 - 1, not {seed}")
    found = []
    for _ in range(words):
        found.append(seed)
        for shift in SHIFTS:
            seed ^= (seed << shift if shift > 0 else seed >> -shift) & 0xffff_ffff
    return found


def crc_terms() -> list[list[int]]:
    """Bits of ``register ^ word`` whose parity is each bit of the register after the word."""
    rows: list[list[int]] = [[] for _ in range(32)]
    for index in range(32):
        register = 1 << index
        for _ in range(32):
            register = register >> 1 ^ (CRC_POLYNOMIAL if register & 1 else 0)
        for row in range(32):
            if register >> row & 1:
                rows[row].append(index)
    return rows

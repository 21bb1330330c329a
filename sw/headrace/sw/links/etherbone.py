"""Etherbone packets, as litex_server speaks them over TCP: one record, 32-bit addresses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


__all__ = ["MOST_WORDS", "Record", "encode", "receive"]


#: Most words in one packet: the counts of a record have 8 bits.
MOST_WORDS = 255

#: Magic, version 1, 32-bit addresses and data, padding.
_HEADER = bytes([0x4e, 0x6f, 0x10, 0x44, 0, 0, 0, 0])


@dataclass(frozen=True)
class Record:
    """A record: words to write from `base` on, and addresses to read.

    Answers to reads have the same form: their words are written to the return address.
    """

    base: int = 0
    words: Sequence[int] = ()
    reads: Sequence[int] = ()
    return_addr: int = 0


def encode(record: Record) -> bytes:
    """Bytes of a packet with one record.

    Raises
    ------
    ValueError
        If it holds more than 255 words of a kind.
    """
    if max(len(record.words), len(record.reads)) > MOST_WORDS:
        raise ValueError(f"a record has up to {MOST_WORDS} writes and as many reads")
    body = bytes([0, 0x0f, len(record.words), len(record.reads)])
    if record.words:
        body += np.array([record.base, *record.words], ">u4").tobytes()
    if record.reads:
        body += np.array([record.return_addr, *record.reads], ">u4").tobytes()
    return _HEADER + body


def receive(take: Callable[[int], bytes]) -> Record:
    """Read a packet with one record.

    Parameters
    ----------
    take : callable
        Returns exactly so many bytes of the stream.

    Raises
    ------
    ValueError
        If the bytes are no such packet.
    """
    head = take(len(_HEADER) + 4)
    if head[:2] != _HEADER[:2] or head[2] & 0xf0 != _HEADER[2] or head[3] != _HEADER[3]:
        raise ValueError(f"expected the header of an Etherbone packet with 32-bit addresses, not "
                         f"{head[:4].hex()}")
    writes, reads = head[-2:]
    base, words = 0, []
    if writes:
        base, *words = np.frombuffer(take(4 * (writes + 1)), ">u4").tolist()
    target, addresses = 0, []
    if reads:
        target, *addresses = np.frombuffer(take(4 * (reads + 1)), ">u4").tolist()
    return Record(base, words, addresses, target)

"""The memory of a board behind a link: through the window, with CRC and memory test."""

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.hw.link.map import BOARD_REGISTERS, OPERATIONS, WINDOW, board_address

from ..errors import HeadraceError
from .board_registers import BoardRegisters
from .bus import Bus, LinkError


__all__ = ["BoardDevice", "MemoryTestResult"]


#: Bytes that are sent, verified and, where they are there already, skipped together.
PIECE = 16384

#: Up to so many words are verified by a second read, more of them by CRC.
_FEW = 32

#: Seconds until an operation of the memory test must move on.
_OPERATION = 10.0


@dataclass(frozen=True)
class MemoryTestResult:
    """What :meth:`BoardDevice.memory_test` found.

    Attributes
    ----------
    words : int
        Words of 4 bytes that were written and compared.
    errors : int
        Words that were different.
    bad_addr : int or None
        Address of the first of them.
    seconds : float
        Time of the test.
    """

    words: int
    errors: int
    bad_addr: int | None
    seconds: float


class BoardDevice(BoardRegisters):
    """A board with :class:`headrace.hw.link.core.BoardCore`, over a bus.

    Reads are verified by a second one or by CRC, and made again after a fault; writes are
    verified, and a fault of theirs is an error, since it may have hit anything. An upload sends
    only what memory does not hold yet.

    Parameters
    ----------
    bus, fingerprint, start_memory
        As of :class:`BoardRegisters`.
    upload : callable, optional
        Called during a large write with the bytes done and the bytes in all.
    """

    def __init__(self, bus: Bus, *, fingerprint: int | None = None,
                 upload: Callable[[int, int], None] | None = None,
                 start_memory: Callable[[BoardRegisters], None] | None = None):
        super().__init__(bus, fingerprint=fingerprint, start_memory=start_memory)
        self._upload = upload

    def _check_range(self, addr: int, size: int) -> None:
        if not 0 <= addr <= addr + size <= self.memory_bytes:
            raise HeadraceError(f"{self.name}: {size} bytes at {addr:#x} are outside the memory: "
                                f"expected 0 to {self.memory_bytes:#x}")

    def _operate(self, operation: str, addr: int, size: int, seed: int = 0, lfsr: int = 0) -> None:
        """Let the board go through memory, and wait until it has."""
        values = [addr, size // 4, seed]
        self.bus.write(board_address("test_addr"), values)
        found = self._words(board_address("test_addr"), 3)
        if found != values:
            raise LinkError(f"{self.name}: the parameters of the memory test read {found} after "
                            f"{values} were written: the link changes or loses bytes; open the "
                            f"device again")
        bits = BOARD_REGISTERS["test_control"].bits
        self.bus.write(board_address("test_control"), [
            OPERATIONS[operation] << bits["operation"][0] | lfsr << bits["lfsr"][0]])
        left, moved = -1, time.monotonic()
        while self.board_bits("status", "busy"):
            now = self._again(lambda: self.bus.read(board_address("test_words")), operation)[0]
            if now != left:
                left, moved = now, time.monotonic()
            elif time.monotonic() - moved > _OPERATION:
                raise LinkError(f"{self.name}: {operation} of {size} bytes at {addr:#x} has "
                                f"{left} words left and does not move on: {self.board_text()}. "
                                f"Memory does not answer: reset the board")
        if self.read_board("test_words"):
            raise LinkError(f"{self.name}: {operation} of {size} bytes at {addr:#x} did not "
                            f"start: the link changes or loses bytes; open the device again")
        if self.board_bits("status", "failed"):
            raise LinkError(f"{self.name}: memory answered {operation} of {size} bytes at "
                            f"{addr:#x} with an error: {self.board_text()}")

    def crc(self, addr: int, size: int) -> int:
        """CRC-32 of `size` bytes of memory at `addr`, both multiples of 4, by the board itself."""
        self._check_range(addr, size)
        self._operate("crc", addr, size)
        return self._words(board_address("test_result"))[0]

    def holds(self, addr: int, data: NDArray[np.uint8]) -> bool:
        if addr % 4 or data.size % 4:
            return super().holds(addr, data)
        return self.crc(addr, data.size) == zlib.crc32(data.tobytes())

    def known_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        if addr % 4 or size % 4:
            return super().known_memory(addr, size)
        # No number means anything as fp32, nor as a scale or a token.
        self._check_range(addr, size)
        self._operate("fill", addr, size, 0xffa5_ffa5)
        return np.full(size // 4, 0xffa5_ffa5, "<u4").view(np.uint8)

    def memory_test(self, addr: int = 0, size: int | None = None, seed: int = 0x1234_5678
                    ) -> MemoryTestResult:
        """Fill memory with a pattern and compare it, then with its second half of the sequence.

        The content is lost.

        Parameters
        ----------
        addr, size : int
            Range, multiples of 4; all memory by default.
        seed : int
            First word of the pattern, not 0.
        """
        size = self.memory_bytes - addr if size is None else size
        self._check_range(addr, size)
        if addr % 4 or size % 4 or not 0 < seed < 1 << 32:
            raise HeadraceError(f"memory test of {size} bytes at {addr:#x} with seed {seed}: "
                                f"expected multiples of 4, and a seed from 1 to 2**32 - 1")
        start = time.monotonic()
        self._operate("fill", addr, size, seed, 1)
        self._operate("check", addr, size, seed, 1)
        errors, bad = self._words(board_address("test_result"), 2)
        return MemoryTestResult(size // 4, errors, bad if errors else None,
                                time.monotonic() - start)

    def read_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        self._check_range(addr, size)
        first = addr // 4 * 4
        count = -(-(addr + size - first) // 4)
        what = f"a read of {size} bytes of memory at {addr:#x}"

        def attempt():
            found = self.bus.read(WINDOW.base + first, count)
            if count <= _FEW:
                return found if found == self.bus.read(WINDOW.base + first, count) else None
            raw = np.array(found, "<u4").tobytes()
            return found if zlib.crc32(raw) == self.crc(first, len(raw)) else None

        words = np.array(self._again(attempt, what) if count else [], "<u4")
        return words.view(np.uint8)[addr - first:addr - first + size].copy()

    def write_memory(self, addr: int, data: NDArray[np.uint8]) -> None:
        self._check_range(addr, data.size)
        first, end = addr // 4 * 4, -(-(addr + data.size) // 4) * 4
        if (first, end) != (addr, addr + data.size):
            # Words are written whole: with the bytes that stand beside the new ones.
            whole = self.read_memory(first, end - first)
            whole[addr - first:addr - first + data.size] = data
            addr, data = first, whole
        few = data.size <= 4 * _FEW
        if not few and self.holds(addr, data):
            self._report(data.size, data.size)
            return
        for at in range(0, data.size, PIECE):
            part = np.ascontiguousarray(data[at:at + PIECE])
            if data.size <= PIECE or not self.holds(addr + at, part):
                self._send(addr + at, part)
            self._report(min(at + PIECE, data.size), data.size)
        # What a changed address has hit would be elsewhere in the range.
        if data.size > PIECE and not self.holds(addr, data):
            raise self._damaged(addr, data.size)

    def _report(self, done: int, total: int) -> None:
        if self._upload is not None and total > PIECE:
            self._upload(done, total)

    def _send(self, addr: int, part: NDArray[np.uint8]) -> None:
        words = part.view("<u4").tolist()
        self.sent_bytes += part.size
        self.bus.write(WINDOW.base + addr, words)
        if len(words) <= _FEW:
            arrived = self._words(WINDOW.base + addr, len(words)) == words
        else:
            arrived = self.holds(addr, part)
        if not arrived:
            raise self._damaged(addr, part.size)

    def _damaged(self, addr: int, size: int) -> LinkError:
        return LinkError(f"{self.name}: memory does not hold what was written: {size} bytes at "
                         f"{addr:#x}; {self.board_text()}. The link changes or loses bytes: take "
                         f"a lower rate or a shorter cable, and open the device again; what has "
                         f"arrived is not sent twice")

"""The wires of a simulated board's UART, and its clock between calls."""

import ctypes
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from .simulation import SLICE


__all__ = ["BIT_CYCLES", "UartLoop"]


#: Cycles of a bit on the simulated wires: as few as the receiver takes.
BIT_CYCLES = 4

#: Why the compiled loop came back; ``cpp/board_loop.cpp`` holds the same numbers.
_CYCLES, _RECEIVED, _VIOLATION = range(3)


class UartLoop(ABC):
    """A board that runs while it is listened to: bytes go in and out over the wires of its UART.

    Between calls the clock stands still.

    Parameters
    ----------
    library : ctypes.CDLL
        The compiled loop of the board.
    handle : int or None
        Handle of what stands at its memory port or at the pins of its DRAM, 0 or None for nothing.
    trace : str, optional
        VCD file of all signals.
    """

    def __init__(self, library: ctypes.CDLL, handle: int | None, trace: str | None = None):
        self._library = library
        self._loop: int | None = library.headrace_board_new(
            handle, BIT_CYCLES, None if trace is None else trace.encode())
        self._seconds, self._ran = 0.0, 0

    @abstractmethod
    def _clear(self) -> None:
        """Forget the violation of a rule."""

    @abstractmethod
    def _check(self) -> None:
        """Raise what rule was broken."""

    @abstractmethod
    def _free(self) -> None:
        """Free what stands at the board's memory port."""

    def reset(self, cycles: int = 4) -> None:
        """Press the board's reset: what is on its way over the UART is lost, memory stays."""
        self._clear()
        self._library.headrace_board_reset(self._loop, cycles)

    @property
    def cycles(self) -> int:
        """Clock cycles so far, resets included."""
        return self._library.headrace_board_cycles(self._loop)

    @property
    def simulated_hz(self) -> float:
        """Cycles per second of wall-clock time."""
        return self._ran / self._seconds if self._seconds else 0.0

    def write(self, data: bytes) -> None:
        """Let bytes go to the board, while it runs."""
        self._library.headrace_board_send(self._loop, bytes(data), len(data))

    @property
    def unsent(self) -> int:
        """Bytes that have not arrived at the board."""
        return self._library.headrace_board_unsent(self._loop)

    @property
    def received(self) -> int:
        """Bytes from the board that wait to be read."""
        return self._library.headrace_board_received(self._loop)

    def run(self, max_cycles: int, received: int = 0,
            progress: Callable[[int], None] | None = None) -> bool:
        """Run for so many cycles, or until so many bytes wait to be read; whether they do.

        Raises
        ------
        ProtocolViolation
            The board broke a rule of its memory.
        """
        start, first, stop = time.perf_counter(), self.cycles, _CYCLES
        try:
            while stop == _CYCLES and (left := first + max_cycles - self.cycles) > 0:
                stop = self._library.headrace_board_run(self._loop, min(left, SLICE), received)
                if progress is not None:
                    progress(self.cycles - first)
        finally:
            self._seconds += time.perf_counter() - start
            self._ran += self.cycles - first
        self._check()
        return stop == _RECEIVED

    def settle(self, cycles: int, received: int = 0) -> None:
        """Run until what was written has arrived, and for so many cycles more; but not on once so
        many bytes wait to be read."""
        while self.unsent and not (received and self.received >= received):
            self.run(10 * BIT_CYCLES * self.unsent, received=received)
        if cycles:
            self.run(cycles)

    def read(self, size: int, max_cycles: int) -> bytes:
        """Bytes from the board: `size` of them, or those that came within `max_cycles`."""
        if self.received < size and max_cycles:
            self.run(max_cycles, received=size)
        buffer = (ctypes.c_uint8 * size)()
        count = self._library.headrace_board_take(self._loop, buffer, size)
        return bytes(buffer[:count])

    def close(self) -> None:
        """Free the compiled design and its memory."""
        if self._loop is not None:
            self._library.headrace_board_delete(self._loop)
            self._loop = None
            self._free()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

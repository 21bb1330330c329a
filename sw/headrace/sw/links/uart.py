"""A serial port and the uartbone protocol of LiteX."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.hw.link.map import TIMEOUT_SECONDS

from .bus import Bus, LinkError, LinkTimeout


__all__ = ["BAUD", "UartBus", "read_command", "write_command"]


try:
    from termios import error as _TermiosError
except ImportError:                      # no such thing on Windows
    _TermiosError = OSError

#: What pyserial raises when the port is gone.
_GONE = (OSError, TypeError, _TermiosError)

#: Bits per second where the URL says nothing.
BAUD = 1_000_000

#: Codes of bursts with rising addresses.
_WRITE, _READ = 1, 2

#: Most words of a command.
_MOST = 255


def write_command(addr: int, words: Sequence[int]) -> bytes:
    """Bytes that write up to 255 words."""
    return (bytes([_WRITE, len(words)]) + (addr // 4).to_bytes(4, "big")
            + np.asarray(words, ">u4").tobytes())


def read_command(addr: int, count: int) -> bytes:
    """Bytes that ask for up to 255 words."""
    return bytes([_READ, count]) + (addr // 4).to_bytes(4, "big")


class UartBus(Bus):
    """A board's UART.

    Parameters
    ----------
    port : str
        Device file of the serial port.
    baud : int
        Bits per second.
    timeout : float
        Seconds without a byte after which an answer is missed, beyond the time of its bits.
    """

    def __init__(self, port: str, baud: int = BAUD, timeout: float = 1.0):
        self.port, self.baud, self.timeout = port, baud, timeout
        self.label = f"uart://{port}"
        self._serial: Any = None
        self._sent = 0                   # bytes since the last answer: they may still be on the way

    def open(self) -> None:
        if self._serial is not None:
            return
        try:
            import serial
        except ImportError as error:
            raise LinkError(f"{self.label}: serial ports need the package pyserial: install "
                            f"headrace[boards]") from error
        try:
            self._serial = serial.Serial(self.port, self.baud, timeout=self.timeout,
                                         write_timeout=max(10.0, 20 * self.timeout),
                                         exclusive=True)
        except (*_GONE, ValueError) as error:
            raise LinkError(f"{self.label}: the serial port cannot be opened: {error}. Is the "
                            f"board plugged in, may you use the port (group dialout), and does "
                            f"no other program have it open?") from error
        self._flush()

    def close(self) -> None:
        if self._serial is not None:
            port, self._serial = self._serial, None
            try:
                port.close()
            except _GONE:
                pass                     # it is gone already

    @property
    def _open(self) -> Any:
        if self._serial is None:
            raise LinkError(f"{self.label}: the link is not open")
        return self._serial

    def _broken(self, what: str, error: Exception) -> LinkError:
        self.close()
        return LinkError(f"{self.label}: the serial port failed {what}: {error}. Is the cable "
                         f"still in? Plug it in and open the device again")

    def _flush(self) -> None:
        try:
            self._open.reset_input_buffer()
        except _GONE as error:
            raise self._broken("while it was cleared", error) from error

    def _send(self, data: bytes, what: str) -> None:
        port = self._open
        try:
            port.write(data)
            self._sent += len(data)
        except _GONE as error:
            raise self._broken(f"during {what}", error) from error

    def read(self, addr: int, count: int = 1) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            step = min(_MOST, count - len(found))
            found += self._read(addr + 4 * len(found), step)
        return found

    def _read(self, addr: int, count: int) -> list[int]:
        what = f"a read of {count} word{'s' * (count > 1)} at {addr:#010x}"
        # Whatever is left of an earlier answer must not be taken for this one.
        self._flush()
        self._send(read_command(addr, count), what)
        raw = bytearray()
        port = self._open
        try:
            port.timeout = self.timeout + 10 * (self._sent + 4 * count) / self.baud
            while len(raw) < 4 * count:
                chunk = port.read(4 * count - len(raw))
                if not chunk:
                    raise LinkTimeout(
                        f"{self.label}: no answer to {what} within {self.timeout:g} s: {len(raw)} "
                        f"of {4 * count} bytes came. Is the board on and configured, is "
                        f"baud={self.baud} its rate?")
                raw += chunk
        except _GONE as error:
            raise self._broken(f"during {what}", error) from error
        self._sent = 0
        return np.frombuffer(raw, ">u4").tolist()

    def write(self, addr: int, words: Sequence[int]) -> None:
        for at in range(0, len(words), self.burst_words):
            part = words[at:at + self.burst_words]
            self._send(write_command(addr + 4 * at, part),
                       f"a write of {len(part)} words at {addr + 4 * at:#010x}")

    def resync(self, patience: float = 1) -> None:
        # The board forgets an unfinished command when nothing comes, and then answers no more.
        quiet = 1.5 * patience * TIMEOUT_SECONDS + 10 * self._sent / self.baud
        self._sent = 0
        end = time.monotonic() + 20 * quiet
        while True:
            time.sleep(quiet)
            try:
                waiting = self._open.in_waiting
            except _GONE as error:
                raise self._broken("while it was cleared", error) from error
            self._flush()
            if not waiting or time.monotonic() > end:
                return

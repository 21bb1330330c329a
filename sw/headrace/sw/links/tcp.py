"""A server that reaches the board: litex_server, or one that speaks as it does."""

import select
import socket
from collections.abc import Sequence

from .bus import Bus, LinkError, LinkTimeout
from .etherbone import MOST_WORDS, Record, encode, receive


__all__ = ["PORT", "TcpBus"]


#: Port of litex_server.
PORT = 1234


class _Closed(OSError):
    """The server has ended the connection."""


class TcpBus(Bus):
    """Etherbone packets over a TCP connection.

    Parameters
    ----------
    host : str
    port : int
    timeout : float
        Seconds that an answer may take.
    """

    burst_words = MOST_WORDS

    def __init__(self, host: str, port: int = PORT, timeout: float = 10.0):
        self.host, self.port, self.timeout = host, port, timeout
        self.label = f"tcp://{host}:{port}"
        self._socket: socket.socket | None = None

    def open(self) -> None:
        if self._socket is not None:
            return
        try:
            self._socket = socket.create_connection((self.host, self.port), self.timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The server says what it is as soon as it serves this connection.
            if not self._socket.recv(128):
                raise _Closed("it ended the connection at once")
        except TimeoutError as error:
            self.close()
            raise LinkError(f"{self.label}: the server did not greet within {self.timeout:g} s: "
                            f"is it litex_server, and does it serve another client?") from error
        except OSError as error:
            self.close()
            raise LinkError(f"{self.label}: no connection: {error}. Does litex_server run "
                            f"there?") from error

    def close(self) -> None:
        if self._socket is not None:
            connection, self._socket = self._socket, None
            connection.close()

    @property
    def _open(self) -> socket.socket:
        if self._socket is None:
            raise LinkError(f"{self.label}: the link is not open")
        return self._socket

    def _take(self, size: int) -> bytes:
        raw = bytearray()
        while len(raw) < size:
            chunk = self._open.recv(size - len(raw))
            if not chunk:
                raise _Closed("the server ended the connection")
            raw += chunk
        return bytes(raw)

    def _exchange(self, record: Record, what: str) -> Record | None:
        try:
            self._open.sendall(encode(record))
            return receive(self._take) if record.reads else None
        except TimeoutError as error:
            raise LinkTimeout(f"{self.label}: no answer to {what} within {self.timeout:g} s: does "
                              f"the board answer the server?") from error
        except (OSError, ValueError) as error:
            self.close()
            raise LinkError(f"{self.label}: the connection failed during {what}: {error}. Start "
                            f"the server again if it ended, and open the device again") from error

    def read(self, addr: int, count: int = 1) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            step = min(MOST_WORDS, count - len(found))
            begin = addr + 4 * len(found)
            what = f"a read of {step} word{'s' * (step > 1)} at {begin:#010x}"
            answer = self._exchange(Record(reads=[begin + 4 * index for index in range(step)]),
                                    what)
            assert answer is not None
            if len(answer.words) != step:
                self.close()
                raise LinkError(f"{self.label}: the server answered {what} with "
                                f"{len(answer.words)} words: open the device again")
            found += answer.words
        return found

    def write(self, addr: int, words: Sequence[int]) -> None:
        for at in range(0, len(words), MOST_WORDS):
            part = words[at:at + MOST_WORDS]
            self._exchange(Record(base=addr + 4 * at, words=part),
                           f"a write of {len(part)} words at {addr + 4 * at:#010x}")

    def resync(self, patience: float = 1) -> None:
        """Drop what comes late; a broken connection is made anew."""
        if self._socket is None:
            self.open()
        while select.select([self._open], [], [], 0.2 * patience)[0]:
            try:
                if not self._open.recv(1 << 16):
                    self.close()
                    self.open()
            except OSError as error:
                self.close()
                raise LinkError(f"{self.label}: the connection failed: {error}") from error

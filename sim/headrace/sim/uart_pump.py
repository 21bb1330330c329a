"""A simulated board as a process of its own would be: behind a pseudo-terminal or a TCP port."""

import errno
import os
import select
import socket
import threading
import time
import tty
from collections.abc import Callable
from typing import Protocol

from headrace.sw.errors import HeadraceError
from headrace.sw.links.etherbone import Record, encode, receive
from headrace.sw.links.uart import read_command, write_command


__all__ = ["ByteBoard", "PtyPump", "TcpPump"]


#: Cycles between two looks at the host's side, and bytes that end such a slice early.
SLICE_CYCLES, SLICE_BYTES = 400, 4

#: Seconds without a byte after which the board only runs a little, to save the processor's time.
RESTS_AFTER = 3.0

#: Cycles that the board may take to answer a word that a TCP client asks for.
ANSWER_CYCLES = 400_000


class ByteBoard(Protocol):
    """A board whose UART takes and gives bytes while it runs."""

    @property
    def unsent(self) -> int:
        """Bytes that have not arrived at the board; the one on the wire counts."""
        return 0

    def write(self, data: bytes) -> None:
        """Let bytes go to the board."""

    def run(self, max_cycles: int, received: int = 0) -> bool:
        """Run for so many cycles, or until so many bytes wait to be read."""
        ...

    def read(self, size: int, max_cycles: int) -> bytes:
        """Take bytes that came, or come within `max_cycles`."""
        ...

    def reset(self) -> None:
        """Reset the board."""


def _unchanged(data: bytes) -> bytes:
    return data


class Pump:
    """A thread in which the board runs, and through which all its bytes pass.

    To be used as a context manager. What goes wrong in the thread is raised at the end.

    Parameters
    ----------
    board : ByteBoard
        The board; only the thread uses it.

    Attributes
    ----------
    to_board, from_board : callable
        Change bytes on their way: for tests of damaged links.
    """

    def __init__(self, board: ByteBoard):
        self.board = board
        self.to_board: Callable[[bytes], bytes] = _unchanged
        self.from_board: Callable[[bytes], bytes] = _unchanged
        self._stop = threading.Event()
        self._orders: list[Callable[[], None]] = []
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="board", daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        self._end()
        if self._problem is not None:
            raise self._problem

    def call(self, order: Callable[[], None]) -> None:
        """Let the thread do something with the board between two slices, and wait for it."""
        done = threading.Event()

        def run() -> None:
            try:
                order()
            finally:
                done.set()

        self._orders.append(run)
        if not done.wait(60):
            raise HeadraceError("the simulated board does not come back")

    def _main(self) -> None:
        try:
            while not self._stop.is_set():
                while self._orders:
                    self._orders.pop(0)()
                self._turn()
        except BaseException as error:    # raised again by the main thread
            self._problem = error

    def _turn(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError


class PtyPump(Pump):
    """The board at the end of a pseudo-terminal.

    Attributes
    ----------
    port : str
        Device file for :class:`headrace.sw.links.uart.UartBus`.
    """

    def __init__(self, board: ByteBoard):
        super().__init__(board)
        self._end_fd: int | None = None
        self._plug()
        self._last = time.monotonic()
        self._backlog = b""

    def _plug(self) -> None:
        # The far end stays open here as well, so that a host may come and go.
        self._end_fd, self._far = os.openpty()
        tty.setraw(self._far)
        os.set_blocking(self._end_fd, False)
        self.port = os.ttyname(self._far)

    def unplug(self) -> None:
        """Pull the cable: the port is gone."""
        self.call(self._end)

    def plug(self) -> None:
        """Put it in again; `port` is a new one."""
        self.call(self._plug)

    def _turn(self) -> None:
        rests = time.monotonic() - self._last > RESTS_AFTER
        ready = []
        if self._end_fd is not None:
            ready = select.select([self._end_fd], [], [], 0.02 if rests else 0)[0]
        elif rests:
            time.sleep(0.02)
        if ready:
            data = os.read(self._end_fd, 65536)        # type: ignore[arg-type]
            self._last = time.monotonic()
            self.board.write(self.to_board(data))
        self.board.run(SLICE_CYCLES, SLICE_BYTES)
        data = self.board.read(65536, 0)
        if data:
            self._last = time.monotonic()
            self._backlog += self.from_board(data)
        self._deliver()

    def _deliver(self) -> None:
        if self._end_fd is None:
            self._backlog = b""
        elif self._backlog:
            try:
                sent = os.write(self._end_fd, self._backlog)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
                sent = 0
            self._backlog = self._backlog[sent:]

    def _end(self) -> None:
        if self._end_fd is not None:
            os.close(self._end_fd)
            os.close(self._far)
            self._end_fd = None


class TcpPump(Pump):
    """The board behind a server that speaks as litex_server does, for one client at a time.

    Attributes
    ----------
    port : int
        Its TCP port on this machine.
    """

    def __init__(self, board: ByteBoard):
        super().__init__(board)
        self._server: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._client: socket.socket | None = None
        self._last = time.monotonic()

    def hang_up(self) -> None:
        """End the connection of the client."""
        self.call(self._drop)

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _turn(self) -> None:
        rests = time.monotonic() - self._last > RESTS_AFTER
        wanted = self._client or self._server
        assert wanted is not None
        if select.select([wanted], [], [], 0.02 if rests else 0)[0]:
            self._last = time.monotonic()
            if self._client is None:
                assert self._server is not None
                self._client, _ = self._server.accept()
                self._client.settimeout(10)
                self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._client.sendall(b"headrace:127.0.0.1")
            else:
                self._serve(self._client)
        else:
            self.board.run(SLICE_CYCLES)

    def _serve(self, client: socket.socket) -> None:
        def take(size: int) -> bytes:
            raw = bytearray()
            while len(raw) < size:
                chunk = client.recv(size - len(raw))
                if not chunk:
                    raise EOFError
                raw += chunk
            return bytes(raw)

        try:
            record = receive(take)
            if record.words:
                self._to_board(write_command(record.base, record.words))
            if record.reads:
                words = self._read(record.reads)
                # A board that does not answer leaves the client waiting, as litex_server does.
                if words is not None:
                    client.sendall(encode(Record(record.return_addr, words)))
        except (EOFError, OSError):
            self._drop()

    def _to_board(self, data: bytes) -> None:
        self.board.write(self.to_board(data))

    def _read(self, addresses) -> list[int] | None:
        # Neighbours together.
        words: list[int] = []
        begin = 0
        for index in range(1, len(addresses) + 1):
            if index < len(addresses) and addresses[index] == addresses[index - 1] + 4:
                continue
            count = index - begin
            self.board.read(65536, 0)    # what nobody has waited for
            self._to_board(read_command(addresses[begin], count))
            while self.board.unsent > 1:
                self.board.run(SLICE_CYCLES, SLICE_BYTES)
            raw = self.from_board(self.board.read(4 * count, ANSWER_CYCLES))
            if len(raw) < 4 * count:
                return None
            words += [int.from_bytes(raw[at:at + 4], "big") for at in range(0, 4 * count, 4)]
            begin = index
        return words

    def _end(self) -> None:
        self._drop()
        if self._server is not None:
            self._server.close()
            self._server = None

"""A board behind a link: its identification and its registers, each access verified."""

import time
from collections.abc import Callable

from headrace.hw.link.map import (
    ACCELERATOR,
    BOARD_ID,
    BOARD_REGISTERS,
    BOARD_VERSION,
    DRAM,
    board_address,
)
from headrace.hw.regmap import COUNTER_BASE

from ..errors import HeadraceError
from .bus import Bus, LinkError, LinkTimeout
from .polled import PolledDevice


__all__ = ["BoardRegisters"]


#: Attempts of a read.
_ATTEMPTS = 3

#: Seconds until memory must be ready.
_MEMORY_READY = 10.0


class BoardRegisters(PolledDevice):
    """A board with :class:`headrace.hw.link.core.BoardCore`, over a bus, but for its memory.

    Reads are verified by a second one, and made again after a fault. After an error the device can
    be opened again.

    Parameters
    ----------
    bus : Bus
        The link.
    fingerprint : int, optional
        Configuration that the board must have.
    start_memory : callable, optional
        Called with this device where memory is not ready: boards with DDR3 wait for the host.

    Attributes
    ----------
    clk_hz, uart_baud : int
        What the board says of itself.
    sent_bytes : int
        Bytes sent to memory since the device was opened.
    faults : int
        Reads that were made again since then.
    """

    def __init__(self, bus: Bus, *, fingerprint: int | None = None,
                 start_memory: "Callable[[BoardRegisters], None] | None" = None):
        super().__init__(fingerprint)
        self._start_memory = start_memory
        self.bus, self.name = bus, bus.label
        self.clk_hz = self.uart_baud = self.sent_bytes = self.faults = 0

    # Opening.

    def open(self) -> None:
        self.sent_bytes = self.faults = 0
        self.bus.open()
        try:
            self._identify_board()
            self._await_memory()
            self.greet()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.bus.close()

    def _identify_board(self) -> None:
        # A board may be in the midst of what an earlier session asked of it.
        found = version = 0
        for turn in range(_ATTEMPTS):
            self.bus.resync(4 ** turn)
            found, version = self._words(board_address("id"), 2)
            if found == BOARD_ID:
                break
        if found != BOARD_ID:
            raise HeadraceError(f"{self.name}: the board's register id reads {found:#010x}: "
                                f"expected {BOARD_ID:#010x}. Another bitstream is loaded, or "
                                f"something else is connected there")
        if version >> 16 != BOARD_VERSION >> 16:
            raise HeadraceError(f"{self.name}: address map {version >> 16}.{version & 0xffff}: "
                                f"expected {BOARD_VERSION >> 16}.x; build the bitstream again "
                                f"with this version of headrace")
        self.clk_hz, self.uart_baud, kib = self._words(board_address("clk_hz"), 3)
        self.memory_bytes = kib << 10

    def _await_memory(self) -> None:
        if self._start_memory is not None and not self.board_bits("status", "memory_ready"):
            self._start_memory(self)
        end = time.monotonic() + _MEMORY_READY
        while not self.board_bits("status", "memory_ready"):
            if time.monotonic() > end:
                raise HeadraceError(f"{self.name}: memory was not ready within {_MEMORY_READY:g} "
                                    f"s: {self.board_text()}. The DRAM controller does not start: "
                                    f"reset the board, or load its bitstream again; a board with "
                                    f"DDR3 is started by the host, with board=NAME in the URL")
            time.sleep(0.02)

    # Words.

    def _again(self, attempt: Callable[[], list[int] | None], what: str) -> list[int]:
        """Make a read until it gives something, a few times."""
        problem: LinkError | None = None
        for turn in range(_ATTEMPTS):
            if turn:
                self.faults += 1
                self.bus.resync(4 ** (turn - 1))
            try:
                found = attempt()
                if found is not None:
                    return found
            except LinkTimeout as error:
                problem = error
        if problem is not None:
            raise problem
        raise LinkError(f"{self.name}: {what} gave something else each time, in {_ATTEMPTS} "
                        f"attempts: the link changes or loses bytes. Take a lower rate or a "
                        f"shorter cable, and open the device again")

    def _words(self, addr: int, count: int = 1) -> list[int]:
        """Words, read twice."""
        def attempt():
            first = self.bus.read(addr, count)
            return first if first == self.bus.read(addr, count) else None
        return self._again(attempt, f"a read of {count} words at {addr:#010x}")

    def _register(self, addr: int, what: str) -> int:
        """A register, when it reads alike two times in a row; it may change meanwhile."""
        def attempt():
            found = self.bus.read(addr)
            for _ in range(_ATTEMPTS):
                before, found = found, self.bus.read(addr)
                if before == found:
                    return found
            return None
        return self._again(attempt, what)[0]

    def read_word(self, addr: int) -> int:
        what = f"a read of the accelerator at {addr:#05x}"
        if addr >= COUNTER_BASE:         # counters never stand still
            return self._again(lambda: self.bus.read(ACCELERATOR.base + addr), what)[0]
        return self._register(ACCELERATOR.base + addr, what)

    def write_word(self, addr: int, value: int) -> None:
        self.bus.write(ACCELERATOR.base + addr, [value])

    def read_board(self, name: str) -> int:
        """Read a register of the board."""
        return self._register(board_address(name), f"a read of register {name} of the board")

    def read_dram(self, addr: int) -> int:
        """Read a register of the DRAM controller."""
        return self._again(lambda: self.bus.read(DRAM.base + addr),
                           f"a read of the DRAM controller at {addr:#06x}")[0]

    def write_dram(self, addr: int, value: int) -> None:
        """Write a register of the DRAM controller."""
        self.bus.write(DRAM.base + addr, [value])

    def board_bits(self, register: str, name: str) -> int:
        """Read one field of a register of the board."""
        lsb, width = BOARD_REGISTERS[register].bits[name]
        return self.read_board(register) >> lsb & (1 << width) - 1

    def board_text(self) -> str:
        """State of the board, for messages."""
        values = {name: self.read_board(name) for name in ("status", "link_errors")}
        shown = []
        for name, value in values.items():
            bits = ", ".join(f"{bit} {value >> lsb & (1 << width) - 1}"
                             for bit, (lsb, width) in BOARD_REGISTERS[name].bits.items())
            shown.append(f"{name} {value:#x} ({bits})")
        return "; ".join(shown)

    def state_text(self) -> str:
        return f"{super().state_text()}; board: {self.board_text()}"

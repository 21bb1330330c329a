"""Devices whose runs are waited for by polling."""

import time
from collections.abc import Callable

from headrace.hw.regmap import COUNTER_BASE, COUNTERS, REGISTERS, offset

from ..device import Device
from ..errors import HeadraceError


__all__ = ["DeviceLost", "PolledDevice"]


#: Seconds between polls: from the first to the most.
_FIRST_POLL, _LAST_POLL = 0.0002, 0.02

#: Seconds for which the cycle counter of a busy device may stand still.
_STANDSTILL = 10.0


class DeviceLost(HeadraceError):
    """The device was reset or configured anew, so that what was set up is gone."""


class PolledDevice(Device):
    """A real accelerator behind 32-bit reads and writes of its registers.

    Parameters
    ----------
    fingerprint : int, optional
        Configuration that the device must have.
    """

    def __init__(self, fingerprint: int | None = None):
        self._fingerprint = fingerprint
        self._instructions = 0           # what the register of that name must hold

    def read_word(self, addr: int) -> int:
        """Word of the control port."""
        raise NotImplementedError

    def write_word(self, addr: int, value: int) -> None:
        """Write a word of the control port."""
        raise NotImplementedError

    def read_register(self, name: str) -> int:
        return self.read_word(offset(name))

    def write_register(self, name: str, value: int) -> None:
        self.write_word(offset(name), value)
        if REGISTERS[name].access == "rw":
            found = self.read_word(offset(name))
            if found != value:
                raise HeadraceError(f"{self.name}: register {name} reads {found:#010x} after "
                                    f"{value:#010x} was written: the link changed or lost bytes; "
                                    f"open the device again")
        if name == "instructions":
            self._instructions = value

    def read_counter(self, name: str) -> int:
        addr = COUNTER_BASE + 8 * COUNTERS.index(name)
        # The low half first: reading it holds the high half.
        low = self.read_word(addr)
        return low | self.read_word(addr + 4) << 32

    def greet(self) -> None:
        """Check what answers, and reset the engines.

        Raises
        ------
        HeadraceError
            If it is no headrace device, another version, or another configuration.
        """
        fingerprint = self.identify()
        if self._fingerprint not in (None, fingerprint):
            raise HeadraceError(f"{self.name}: its configuration has fingerprint "
                                f"{fingerprint:08x}: expected {self._fingerprint:08x}, which the "
                                f"model was compiled for; load the bitstream of that "
                                f"configuration, or compile the model for the device's with "
                                f"--config")
        self.reset()
        self._instructions = self.read_register("instructions")

    def state_text(self) -> str:
        values = {name: self.read_register(name)
                  for name in ("status", "irq", "error_code", "passes_done", "position")}
        flags = [bit for bit, (lsb, _) in REGISTERS["status"].bits.items()
                 if values["status"] >> lsb & 1]
        shown = ", ".join(f"{name} {value:#x}" for name, value in values.items())
        return f"{shown} ({' '.join(flags) or 'idle'})"

    def _still_there(self, when: str) -> None:
        found = self.read_register("instructions")
        if found != self._instructions:
            raise DeviceLost(f"{self.name}: the device was reset or configured anew {when}: "
                             f"register instructions reads {found}, and {self._instructions} was "
                             f"written; {self.state_text()}. Open the device again")

    def run(self, max_cycles: int = 1 << 40, progress: Callable[[int], None] | None = None
            ) -> None:
        self._still_there("since its last run")
        super().run(max_cycles, progress)

    def wait_interrupt(self, max_cycles: int, progress: Callable[[int], None] | None = None
                       ) -> bool:
        delay, last, moved, beyond = _FIRST_POLL, -1, time.monotonic(), 0
        while not self.read_bits("irq", "pending"):
            if not self.read_bits("status", "busy") and not self.read_bits("irq", "pending"):
                self._still_there("during a run")
                raise DeviceLost(f"{self.name}: the run did not start, or was stopped: "
                                 f"{self.state_text()}. Open the device again")
            cycles = self.read_counter("cycles")
            if cycles != last:
                last, moved = cycles, time.monotonic()
            if progress is not None:
                progress(cycles)
            # Twice in a row: a link may have changed one of them.
            beyond = beyond + 1 if cycles > max_cycles else 0
            if beyond > 1 or time.monotonic() - moved > _STANDSTILL:
                return False
            time.sleep(delay)
            delay = min(2 * delay, _LAST_POLL)
        return True

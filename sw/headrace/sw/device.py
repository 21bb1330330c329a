"""What the driver knows of a machine."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.hw.regmap import ID, REGISTERS, VERSION, is_compatible

from .errors import HeadraceError
from .recording import Recording


if TYPE_CHECKING:
    from .trace import Activity


__all__ = ["Device", "DeviceTimeout"]


#: Polls of `status` until a reset must have drained what was owed.
_RESET_POLLS = 10000


class DeviceTimeout(HeadraceError):
    """A run or a reset did not end in time."""


class Device(ABC):
    """A machine: registers, memory and an interrupt.

    A device is used as a context manager, or closed by :meth:`close`.

    Attributes
    ----------
    name : str
        Kind of device, for reports.
    memory_base, memory_bytes : int
        Its memory is the bytes ``memory_base ... memory_base + memory_bytes`` of the bus.
    has_cycles : bool
        Its cycle counters mean something.
    clk_hz : int
        Its clock, where it says so; 0 otherwise, and reports assume that of the configuration.
    """

    name = "device"
    memory_base = 0
    memory_bytes = 0
    has_cycles = True
    clk_hz = 0

    @abstractmethod
    def read_register(self, name: str) -> int:
        """Read a register of the map by name."""

    @abstractmethod
    def write_register(self, name: str, value: int) -> None:
        """Write a register of the map by name."""

    @abstractmethod
    def read_counter(self, name: str) -> int:
        """Read a counter by name."""

    @abstractmethod
    def read_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        """Copy `size` bytes of memory from `addr`."""

    @abstractmethod
    def write_memory(self, addr: int, data: NDArray[np.uint8]) -> None:
        """Write bytes to memory at `addr`."""

    @abstractmethod
    def wait_interrupt(self, max_cycles: int, progress: Callable[[int], None] | None = None
                       ) -> bool:
        """Wait until the interrupt is pending; return whether it is.

        `progress` is called now and then with the cycles since the beginning.
        """

    @property
    def simulated_hz(self) -> float | None:
        """Cycles per second of a simulation."""
        return None

    @property
    def dram_statistics(self) -> dict[str, int] | None:
        """Commands and row hits of a simulated DRAM since the beginning."""
        return None

    def open(self) -> None:     # noqa: B027 (nothing to do for some devices)
        """Make the device ready."""

    def close(self) -> None:    # noqa: B027
        """Free what the device holds."""

    def replica(self) -> "Device | None":
        """A new device like this one in the state after :meth:`open`, which can also record.

        None where there is no such thing; then a check compares memories only.
        """
        return None

    def holds(self, addr: int, data: NDArray[np.uint8]) -> bool:
        """Whether memory at `addr` holds `data`; a device may know without reading it all."""
        return np.array_equal(self.read_memory(addr, data.size), data)

    def known_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        """Content of memory that nothing has been written to yet.

        A device may fill it first, where that takes less time than to read it.
        """
        return self.read_memory(addr, size)

    def state_text(self) -> str:
        """The registers that tell what the device is doing, for messages."""
        return f"status {self.read_register('status'):#x}"

    def begin_recording(self) -> None:
        """Record what instructions write from now on, from nothing."""
        raise HeadraceError(f"{self.name}: the device cannot record: use its replica")

    def end_recording(self) -> Recording:
        """Stop; return what was recorded."""
        raise HeadraceError(f"{self.name}: the device cannot record: use its replica")

    def begin_activity(self) -> None:
        """Record what the engines do from now on, from nothing."""
        raise HeadraceError(f"{self.name}: the device does not record what its engines do: use a "
                            f"simulated one that was built with an activity port")

    def plan_activity(self, beats: Mapping[str, Sequence[int]]) -> None:
        """Say how many beats each instruction of the next run reads, by track."""
        raise NotImplementedError

    def settle_activity(self) -> int:
        """End the recording of a run; return the cycles recorded so far."""
        raise NotImplementedError

    def read_activity(self) -> "Activity":
        """What was recorded so far."""
        raise NotImplementedError

    def __enter__(self):
        self.open()
        return self

    def __exit__(self, *_):
        self.close()

    def read_bits(self, register: str, name: str) -> int:
        """Read one field of a register."""
        lsb, width = REGISTERS[register].bits[name]
        return self.read_register(register) >> lsb & (1 << width) - 1

    def identify(self) -> int:
        """Check that a headrace device of this version answers; return its fingerprint.

        Raises
        ------
        HeadraceError
            If something else does.
        """
        found = self.read_register("id")
        if found != ID:
            raise HeadraceError(f"{self.name}: register id reads {found:#010x}: expected "
                                f"{ID:#010x}; there is no headrace device at this address")
        version = self.read_register("version")
        if not is_compatible(version):
            raise HeadraceError(f"{self.name}: version {version >> 16}.{version & 0xffff}: "
                                f"expected {VERSION >> 16}.{VERSION & 0xffff} or a later "
                                f"{VERSION >> 16}.x; generate the device, or build its "
                                f"bitstream, again with this version of headrace")
        return self.read_register("fingerprint")

    def write_bits(self, register: str, **values: int) -> None:
        """Write a register from its fields; the others are 0."""
        bits = REGISTERS[register].bits
        self.write_register(register, sum(value << bits[name][0]
                                          for name, value in values.items()))

    def run(self, max_cycles: int = 1 << 40, progress: Callable[[int], None] | None = None
            ) -> None:
        """Start a run, and wait for the interrupt. How it ended is in `status`.

        Raises
        ------
        DeviceTimeout
            If it does not end in time; the device is reset.
        """
        self.write_bits("irq", pending=1)
        self.write_bits("irq_enable", enable=1)
        self.write_bits("control", start=1)
        if not self.wait_interrupt(max_cycles, progress):
            done = self.read_register("passes_done")
            state = self.state_text()
            self.reset()
            raise DeviceTimeout(f"{self.name}: the run did not end within {max_cycles:,} cycles "
                                f"({done} passes were done; {state}): the device hangs, or its "
                                f"memory is far slower than expected; it has been reset")
        self.write_bits("irq", pending=1)

    def reset(self) -> None:
        """Reset the engines, and wait until owed reads and writes are drained.

        Raises
        ------
        DeviceTimeout
            If they never are.
        """
        self.write_bits("control", reset=1)
        for _ in range(_RESET_POLLS):
            if not self.read_bits("status", "resetting"):
                self.write_bits("irq", pending=1)
                return
        raise DeviceTimeout(f"{self.name}: the reset did not end: the memory owes answers; "
                            f"reset the whole system")

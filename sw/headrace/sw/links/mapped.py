"""An accelerator whose registers and memory are mapped: on a Zynq's processor system."""

import mmap
import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.hw.link.map import ACCELERATOR

from ..errors import HeadraceError
from .bus import LinkError
from .polled import PolledDevice


__all__ = ["DevmemWindow", "MappedDevice", "PynqWindow", "Window"]


class Window(Protocol):
    """What :class:`MappedDevice` needs: two mappings.

    Attributes
    ----------
    label : str
        For messages.
    registers : uint32 array
        Control port; each access is one on the bus.
    memory : uint8 array
        The buffer that belongs to the accelerator.
    memory_base : int
        Its address as the accelerator sees it.
    """

    label: str
    registers: NDArray[np.uint32]
    memory: NDArray[np.uint8]
    memory_base: int

    def open(self) -> None:
        """Map."""

    def close(self) -> None:
        """Unmap."""

    def to_device(self) -> None:
        """Let the accelerator see what was written to `memory`."""

    def from_device(self) -> None:
        """Let `memory` show what the accelerator wrote."""


class MappedDevice(PolledDevice):
    """An accelerator beside a processor that maps it.

    Parameters
    ----------
    window : Window
        The mappings.
    fingerprint : int, optional
        Configuration that the device must have.
    """

    def __init__(self, window: Window, *, fingerprint: int | None = None):
        super().__init__(fingerprint)
        self._window, self.name = window, window.label

    def open(self) -> None:
        self._window.open()
        try:
            self.memory_base = self._window.memory_base
            self.memory_bytes = self._window.memory.size
            self.greet()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._window.close()

    def read_word(self, addr: int) -> int:
        return int(self._window.registers[addr // 4])

    def write_word(self, addr: int, value: int) -> None:
        self._window.registers[addr // 4] = value

    def _range(self, addr: int, size: int) -> slice:
        begin = addr - self.memory_base
        if not 0 <= begin <= begin + size <= self.memory_bytes:
            raise HeadraceError(f"{self.name}: {size} bytes at {addr:#x} are outside the memory: "
                                f"expected {self.memory_base:#x} to "
                                f"{self.memory_base + self.memory_bytes:#x}")
        return slice(begin, begin + size)

    def read_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        span = self._range(addr, size)
        self._window.from_device()
        return np.array(self._window.memory[span])

    def write_memory(self, addr: int, data: NDArray[np.uint8]) -> None:
        span = self._range(addr, data.size)
        self._window.memory[span] = data
        self._window.to_device()
        if not np.array_equal(self._window.memory[span], data):
            raise LinkError(f"{self.name}: memory at {addr:#x} does not hold what was written: is "
                            f"the range reserved from Linux, and is there memory?")


class DevmemWindow:
    """Mappings of physical addresses, uncached.

    Parameters
    ----------
    control : int
        Address of the control port.
    memory, size : int
        Address and bytes of the buffer, which Linux must not use itself.
    file : str
        The device of physical memory.
    control_file : str, optional
        Another file for the control port, as ``/dev/uio0``: mapped from its beginning.
    """

    def __init__(self, control: int, memory: int, size: int, file: str = "/dev/mem",
                 control_file: str | None = None):
        for what, value in (("control", control), ("memory", memory), ("size", size)):
            if value % mmap.PAGESIZE or value < 0:
                raise HeadraceError(f"devmem://: {what}={value:#x}: expected a multiple of "
                                    f"{mmap.PAGESIZE}, a page")
        if size == 0:
            raise HeadraceError("devmem://: size=0: expected the bytes of the reserved memory")
        self.label, self.memory_base = f"devmem://{file}", memory
        self._control, self._size, self._file = control, size, file
        self._control_file = control_file
        self._maps: list[mmap.mmap] = []
        self.registers: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.memory: NDArray[np.uint8] = np.zeros(0, np.uint8)

    def _map(self, file: str, begin: int, size: int) -> mmap.mmap:
        try:
            handle = os.open(file, os.O_RDWR | os.O_SYNC)
            try:
                found = mmap.mmap(handle, size, offset=begin)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            self.close()
            raise LinkError(f"{self.label}: {size:#x} bytes at {begin:#x} of {file} cannot be "
                            f"mapped: {error}. Run as root, and reserve the memory in the device "
                            f"tree") from error
        self._maps.append(found)
        return found

    def open(self) -> None:
        if self._maps:
            return
        control = (self._map(self._control_file, 0, ACCELERATOR.size) if self._control_file
                   else self._map(self._file, self._control, ACCELERATOR.size))
        self.registers = np.frombuffer(control, np.uint32)
        self.memory = np.frombuffer(self._map(self._file, self.memory_base, self._size), np.uint8)

    def close(self) -> None:
        # The arrays hold the mappings; without them these can be closed.
        self.registers, self.memory = np.zeros(0, np.uint32), np.zeros(0, np.uint8)
        maps, self._maps = self._maps, []
        for each in maps:
            each.close()

    def to_device(self) -> None:
        """Nothing: the mapping is uncached."""

    def from_device(self) -> None:
        """Nothing: the mapping is uncached."""


class PynqWindow:
    """A bitstream that the package `pynq` loads, and a buffer that it allocates.

    Parameters
    ----------
    bitstream : str
        Path of the ``.bit`` or ``.xsa`` file.
    size : int
        Bytes of the buffer.
    ip : str
        Name of the accelerator in the block design.
    """

    def __init__(self, bitstream: str, size: int, ip: str = "headrace_0"):
        self.label, self._bitstream, self._size, self._ip = (f"pynq://{bitstream}", bitstream,
                                                             size, ip)
        self._buffer: Any = None
        self.memory_base = 0
        self.registers: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.memory: NDArray[np.uint8] = np.zeros(0, np.uint8)

    def open(self) -> None:
        if self._buffer is not None:
            return
        try:
            import pynq  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise LinkError(f"{self.label}: the package pynq is not installed: use the Python of "
                            f"a PYNQ image, or devmem://") from error
        try:
            overlay = pynq.Overlay(self._bitstream)
            port = getattr(overlay, self._ip)
            self._buffer = pynq.allocate(self._size, np.uint8)
        except (OSError, RuntimeError, AttributeError, ValueError) as error:
            raise LinkError(f"{self.label}: the bitstream with accelerator {self._ip!r} and a "
                            f"buffer of {self._size:,} bytes cannot be had: {error}") from error
        self.registers = port.mmio.array
        self.memory = np.asarray(self._buffer)
        self.memory_base = int(self._buffer.device_address)

    def close(self) -> None:
        if self._buffer is not None:
            self.registers, self.memory = np.zeros(0, np.uint32), np.zeros(0, np.uint8)
            self._buffer.freebuffer()
            self._buffer = None

    def to_device(self) -> None:
        """Write the caches back."""
        self._buffer.sync_to_device()

    def from_device(self) -> None:
        """Let the caches go."""
        self._buffer.sync_from_device()

"""The compiled loop: the Verilated device and its memory, without Python in any cycle."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from headrace.sw.errors import HeadraceError

from .gating import gate
from .memory import MEMORY_SOURCES, Memory, MemoryOptions
from .native import declare
from .ports import read_ports
from .sdr import SdrChip
from .tops import DEVICE, TOP, wrap
from .verilator import Design, build


__all__ = ["ControlError", "Simulation", "build_simulation"]


#: Cycles between two returns to Python, so that a long run can be interrupted and shows progress.
SLICE = 1 << 18

#: Why the compiled loop came back; ``cpp/loop.cpp`` holds the same numbers.
_CYCLES, _INTERRUPT, _VIOLATION, _NO_ANSWER = range(4)


#: Cycles that the control port may take to answer; ``cpp/loop.cpp`` holds the same number.
PATIENCE = 10000


class ControlError(HeadraceError):
    """An access to the control port was refused, or got no answer."""

    @classmethod
    def check(cls, what: str, response: int | None) -> None:
        """Raise unless the response is OKAY; None stands for no answer at all."""
        if response is None:
            raise cls(f"{what}: no answer within {PATIENCE} cycles; the device hangs")
        if response != 0:
            name = {2: "SLVERR", 3: "DECERR"}.get(response, str(response))
            raise cls(f"{what}: the device answered {name}")


def build_simulation(verilog: str, *, trace: bool = False) -> Path:
    """The shared library of a device, built unless the cache has it."""
    wrapper, ports = wrap(verilog)
    missing = {"irq", "ctrl__awvalid", "ctrl__arvalid"} - {port.name for port in ports}
    if missing:
        raise HeadraceError(f"device {DEVICE!r} has no port {min(missing)!r}: the compiled loop "
                            f"needs irq and a whole AXI4-Lite port 'ctrl'")
    return build(Design(top=TOP, sources={"device.v": gate(verilog), "top.sv": wrapper},
                        cpp=MEMORY_SOURCES, driver="loop.cpp", output="simulation.so",
                        trace=trace, label="compiled loop"))


class Simulation:
    """A device in simulation: control port, interrupt, memory, time.

    The control port does AXI4-Lite transfers, each as long as the device takes. Between calls the
    clock stands still.

    Parameters
    ----------
    verilog : str
        The device, as module ``headrace``.
    memory : numpy.ndarray
        Storage behind its AXI port, see :class:`Memory`.
    options : MemoryOptions
        How that memory answers.
    base : int
        Address of the storage's first byte.
    trace : pathlib.Path, optional
        VCD file of all signals; a simulation with it is much slower.

    Attributes
    ----------
    library : ctypes.CDLL
        The compiled design.
    memory : Memory
        The memory, with its statistics and error injection.
    """

    def __init__(self, verilog: str, memory: np.ndarray, options: MemoryOptions | None = None, *,
                 base: int = 0, trace: Path | None = None):
        library = declare(ctypes.CDLL(str(build_simulation(verilog, trace=trace is not None))))
        bus_bytes = read_ports(verilog, DEVICE)["axi__rdata"].width // 8
        self._begin(library, Memory(library, memory, bus_bytes, options, base), trace)

    def _begin(self, library: ctypes.CDLL, memory: Memory | SdrChip, trace: Path | None) -> None:
        """Make the loop of a compiled design whose memory is `memory`, and reset it."""
        self._library = self.library = library
        self.memory = memory
        self._loop: int | None = library.headrace_loop_new(
            self.memory.handle, None if trace is None else str(trace).encode())
        self._seconds = 0.0
        self._processor = 0.0
        self._ran = 0
        self.reset()

    def reset(self, cycles: int = 4) -> None:
        """Reset device and memory port; random stalls start over, contents and counts stay."""
        self.memory.clear_violation()
        self._library.headrace_loop_reset(self._loop, cycles)

    def read_csr(self, addr: int) -> int:
        """Read a register of the control port."""
        value, response = ctypes.c_uint32(), ctypes.c_uint()
        stop = self._library.headrace_loop_read(self._loop, addr, value, response)
        self._check("read", addr, stop, response.value)
        return value.value

    def write_csr(self, addr: int, value: int) -> None:
        """Write a register of the control port."""
        response = ctypes.c_uint()
        stop = self._library.headrace_loop_write(self._loop, addr, value, response)
        self._check("write", addr, stop, response.value)

    def run(self, max_cycles: int, until_irq: bool = True,
            progress: Callable[[int], None] | None = None) -> bool:
        """Run until the interrupt is high, or for so many cycles; returns whether it is high.

        `progress` is called now and then with the cycles since the start of this call.

        Raises
        ------
        ProtocolViolation
            The device broke a rule of its AXI port.
        """
        start, first = time.perf_counter(), self.cycles
        processor = time.process_time()
        stop = _CYCLES
        try:
            while stop == _CYCLES and (left := first + max_cycles - self.cycles) > 0:
                stop = self._library.headrace_loop_run(self._loop, min(left, SLICE), until_irq)
                if progress is not None:
                    progress(self.cycles - first)
        finally:
            self._seconds += time.perf_counter() - start
            self._processor += time.process_time() - processor
            self._ran += self.cycles - first
        self.memory.check()
        return stop == _INTERRUPT

    @property
    def cycles(self) -> int:
        """Clock cycles since the simulation was made, resets included."""
        return self.memory.cycles

    @property
    def simulated_hz(self) -> float:
        """Cycles per second of wall-clock time over all calls of :meth:`run`."""
        return self._ran / self._seconds if self._seconds else 0.0

    @property
    def processor_hz(self) -> float:
        """As :attr:`simulated_hz`, per second of this process' processor time."""
        return self._ran / self._processor if self._processor else 0.0

    @property
    def statistics(self) -> dict[str, Any]:
        """Traffic of the memory, see :attr:`Memory.statistics`."""
        return self.memory.statistics

    def close(self) -> None:
        """Free the compiled design and its memory."""
        if self._loop is not None:
            self._library.headrace_loop_delete(self._loop)
            self._loop = None
            self.memory.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _check(self, what: str, addr: int, stop: int, response: int) -> None:
        self.memory.check()
        ControlError.check(f"{what} of control register 0x{addr:03x}",
                           None if stop == _NO_ANSWER else response)

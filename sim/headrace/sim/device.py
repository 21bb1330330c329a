"""The simulated device behind the driver's interface."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import Config
from headrace.hw.regmap import COUNTER_BASE, COUNTERS, offset
from headrace.sw.device import Device
from headrace.sw.errors import HeadraceError
from headrace.sw.recording import Recording
from headrace.sw.trace import Activity

from .activity import ActivityRecorder
from .memory import MemoryOptions, fill_storage
from .ports import read_ports
from .probe import Probe
from .simulation import Simulation
from .tops import ACTIVITY, DEVICE, PROBE


__all__ = ["SimDevice"]


class SimDevice(Device):
    """A Verilated device with its compiled memory.

    Parameters
    ----------
    config : Config
        The configuration that `verilog` was generated from.
    verilog : str
        The device, as module ``headrace``. With a probe port it can record what instructions
        write, with an activity port what engines do.
    options : MemoryOptions, optional
        How the memory answers.
    memory_bytes : int, optional
        Capacity of the memory; that of the configuration by default.
    memory_base : int
        Address of its first byte.
    fill : int or numpy.random.Generator
        What memory holds at first; it must not matter.
    file : Path, optional
        File that the memory is mapped from; anonymous memory without it.
    trace : Path, optional
        VCD file of all signals.

    Attributes
    ----------
    simulation : Simulation
        The simulation, open between :meth:`open` and :meth:`close`.
    """

    name = "sim"

    def __init__(self, config: Config, verilog: str, options: MemoryOptions | None = None, *,
                 memory_bytes: int | None = None, memory_base: int = 0,
                 fill: int | np.random.Generator = 0, file: Path | None = None,
                 trace: Path | None = None):
        self.config = config
        self.memory_base = memory_base
        self.memory_bytes = memory_bytes or config.memory_bytes
        self._verilog, self._options, self._trace = verilog, options, trace
        self._fill = copy.deepcopy(fill)
        self._simulation: Simulation | None = None
        self._activity: ActivityRecorder | None = None
        self._simulated_hz = 0.0
        # Zeros are not touched until used; a full memory of gigabytes would be.
        self.memory: NDArray[np.uint8] = (
            np.memmap(file, np.uint8, "w+", shape=(self.memory_bytes,)) if file
            else np.zeros(self.memory_bytes, np.uint8))
        fill_storage(self.memory, fill)

    @property
    def simulation(self) -> Simulation:
        """The simulation of the opened device."""
        if self._simulation is None:
            raise HeadraceError("sim: the device is not open: use it as a context manager")
        return self._simulation

    def open(self) -> None:
        if self._simulation is None:
            self._simulation = Simulation(self._verilog, self.memory, self._options,
                                          base=self.memory_base, trace=self._trace)

    def close(self) -> None:
        if self._simulation is not None:
            self._simulated_hz = self._simulation.simulated_hz
            if self._activity is not None:
                self._activity.close()
                self._activity = None
            self._simulation.close()
            self._simulation = None

    @property
    def simulated_hz(self) -> float | None:
        # Reports are also made after the end.
        return self._simulation.simulated_hz if self._simulation else self._simulated_hz

    @property
    def dram_statistics(self) -> dict[str, int] | None:
        return self.simulation.statistics.get("dram")

    def read_register(self, name: str) -> int:
        return self.simulation.read_csr(offset(name))

    def write_register(self, name: str, value: int) -> None:
        self.simulation.write_csr(offset(name), value)

    def read_counter(self, name: str) -> int:
        addr = COUNTER_BASE + 8 * COUNTERS.index(name)
        # The low half first: reading it holds the high half.
        low = self.simulation.read_csr(addr)
        return low | self.simulation.read_csr(addr + 4) << 32

    def _range(self, addr: int, size: int) -> slice:
        begin = addr - self.memory_base
        if not 0 <= begin <= begin + size <= self.memory_bytes:
            raise HeadraceError(f"sim: {size} bytes at {addr:#x} are outside the memory: expected "
                                f"{self.memory_base:#x} to "
                                f"{self.memory_base + self.memory_bytes:#x}")
        return slice(begin, begin + size)

    def read_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        return np.array(self.memory[self._range(addr, size)])

    def write_memory(self, addr: int, data: NDArray[np.uint8]) -> None:
        self.memory[self._range(addr, data.size)] = data

    def wait_interrupt(self, max_cycles: int, progress: Callable[[int], None] | None = None
                       ) -> bool:
        return self.simulation.run(max_cycles, until_irq=True, progress=progress)

    def replica(self) -> "SimDevice | None":
        """A new device that takes the same cycles, with a probe."""
        verilog = self._verilog
        if PROBE not in read_ports(verilog, DEVICE):
            # Amaranth is only needed here.
            from headrace.hw.verilog import generate
            verilog = generate(self.config, probe=True)
        return SimDevice(self.config, verilog, self._options, memory_bytes=self.memory_bytes,
                         memory_base=self.memory_base, fill=copy.deepcopy(self._fill))

    def _probe(self) -> Probe:
        if PROBE not in read_ports(self._verilog, DEVICE):
            raise HeadraceError("sim: the device has no probe port: use its replica, or generate "
                                "its Verilog with a probe")
        simulation = self.simulation
        assert simulation.memory.handle is not None
        return Probe(simulation.library, simulation.memory.handle, self.config)

    def begin_recording(self) -> None:
        self._probe().begin()

    def end_recording(self) -> Recording:
        return self._probe().end()

    def begin_activity(self) -> None:
        if ACTIVITY not in read_ports(self._verilog, DEVICE):
            raise HeadraceError("sim: the device has no activity port: generate its Verilog with "
                                "one")
        simulation = self.simulation
        assert simulation.memory.handle is not None
        self._activity = ActivityRecorder(simulation.library, simulation.memory.handle)

    def _recorder(self) -> ActivityRecorder:
        if self._activity is None:
            raise HeadraceError("sim: no activity is recorded: begin_activity comes first")
        return self._activity

    def plan_activity(self, beats: Mapping[str, Sequence[int]]) -> None:
        self._recorder().plan(beats)

    def settle_activity(self) -> int:
        return self._recorder().settle()

    def read_activity(self) -> Activity:
        return self._recorder().read()

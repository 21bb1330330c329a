"""The device of a cocotb bench behind the driver's interface."""

from typing import cast

import numpy as np
from cocotb.task import resume

from headrace.hw.config import Config

from .device import SimDevice
from .memory import MemoryOptions
from .simulation import Simulation
from .testbench import BenchSimulation


__all__ = ["CocotbDevice"]


class CocotbDevice(SimDevice):
    """A device in a bench: same design, same memory, same host code as :class:`SimDevice`.

    All calls block, so the code that makes them belongs in a function that runs under
    :func:`cocotb.task.bridge`. A wait for the interrupt is a wait for its edge: the simulator runs
    without Python until then. Equal calls take equal cycles on both kinds of device.

    Parameters
    ----------
    dut : cocotb handle
        The top of :func:`headrace.sim.bench.run_device_bench`.
    config : Config
        The configuration of the device in it.
    options : MemoryOptions, optional
        How the memory answers.
    memory_bytes : int, optional
        Capacity of the memory; that of the configuration by default.
    memory_base : int
        Address of its first byte.
    fill : int or numpy.random.Generator
        What memory holds at first; it must not matter.
    max_cycles : int
        Cycles after which the bench fails.
    """

    name = "cocotb"

    def __init__(self, dut, config: Config, options: MemoryOptions | None = None, *,
                 memory_bytes: int | None = None, memory_base: int = 0,
                 fill: int | np.random.Generator = 0, max_cycles: int = 100_000_000):
        # The design is there already: no Verilog.
        super().__init__(config, "", options, memory_bytes=memory_bytes,
                         memory_base=memory_base, fill=fill)
        self._dut, self._max_cycles = dut, max_cycles

    def open(self) -> None:
        if self._simulation is None:
            simulation = BenchSimulation(
                self._dut, self.memory, self._options, bus_bytes=self.config.port_bytes,
                base=self.memory_base, max_cycles=self._max_cycles)
            resume(simulation.start)()
            # It has the same calls.
            self._simulation = cast(Simulation, simulation)

    def replica(self) -> None:
        """There is none: make the same run on a :class:`SimDevice`, which takes the same cycles."""

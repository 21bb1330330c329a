"""What benches use inside the simulator: clock, reset, and a whole device as a simulation."""

import ctypes
import json
import os
import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import resume
from cocotb.triggers import First, ReadWrite, RisingEdge, Timer

from .memory import Memory, MemoryOptions
from .native import declare
from .simulation import PATIENCE, ControlError


__all__ = ["PERIOD_NS", "BenchSimulation", "parameters", "start"]


#: Clock period in simulated time; an even number of nanoseconds.
PERIOD_NS = 10

_CONTROL_INPUTS = ("awvalid", "wvalid", "bready", "arvalid", "rready")


def parameters() -> dict[str, Any]:
    """The parameters that the caller of :func:`headrace.sim.bench.run_bench` gave."""
    return json.loads(os.environ.get("HEADRACE_BENCH", "{}"))


async def start(dut, *, reset_cycles: int = 4, max_cycles: int = 1_000_000) -> Clock:
    """Start the clock and reset the design; the test fails if it is not over in time.

    The clock, which is returned, runs in compiled code: Python is woken only by what it waits for.
    """
    clock = Clock(dut.clk, PERIOD_NS, "ns", impl="gpi")
    clock.start(start_high=False)
    cocotb.start_soon(_watchdog(max_cycles))
    await reset(dut, reset_cycles)
    return clock


async def reset(dut, cycles: int = 4) -> None:
    """Hold ``rst`` for some cycles; returns right after the last of their edges."""
    dut.rst.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await ReadWrite()


async def _watchdog(max_cycles: int) -> None:
    await Timer(max_cycles * PERIOD_NS, "ns")
    raise AssertionError(f"the bench is not over after {max_cycles} cycles")


class BenchSimulation:
    """The device of a bench, with the calls of :class:`headrace.sim.simulation.Simulation`.

    The calls block, so they belong in a function that runs under :func:`cocotb.task.bridge`; then
    the same host code drives the compiled loop and the bench, and takes the same cycles.

    Parameters
    ----------
    dut : cocotb handle
        The top.
    memory : numpy.ndarray
        Storage behind the AXI port, see :class:`headrace.sim.memory.Memory`.
    options : MemoryOptions
        How that memory answers.
    base : int
        Address of the storage's first byte.
    bus_bytes : int
        Width of the AXI port.
    max_cycles : int
        Cycles after which the bench fails.

    Attributes
    ----------
    library : ctypes.CDLL
        The running program, which holds the compiled memory.
    memory : Memory
        The memory, with its statistics and error injection.
    """

    def __init__(self, dut, memory: np.ndarray, options: MemoryOptions | None = None, *,
                 bus_bytes: int, base: int = 0, max_cycles: int = 100_000_000):
        self._dut = dut
        self._max_cycles = max_cycles
        self.library = declare(ctypes.CDLL(None))
        self.memory = Memory(self.library, memory, bus_bytes, options, base)
        self._running = False
        self._seconds = 0.0
        self._processor = 0.0
        self._ran = 0

    async def start(self) -> "BenchSimulation":
        """Connect the memory, start the clock, and reset the device; call it once, awaited."""
        self._dut.memory.value = self.memory.handle
        self._idle()
        self._dut.ctrl__wstrb.value = 0xF
        self._run_clock(True)
        cocotb.start_soon(_watchdog(self._max_cycles))
        await reset(self._dut)
        return self

    def _run_clock(self, running: bool) -> None:
        # The clock is a part of the main program, see cpp/bench_main.cpp.
        self.library.headrace_bench_clock(PERIOD_NS * 1000 // 2 if running else 0)
        self._running = running

    def _idle(self) -> None:
        for name in _CONTROL_INPUTS:
            self._control(name).value = 0

    def _control(self, name: str):
        return getattr(self._dut, f"ctrl__{name}")

    @resume
    async def reset(self, cycles: int = 4) -> None:
        """Reset device and memory port; random stalls start over, contents and counts stay."""
        self.memory.clear_violation()
        self._idle()
        await reset(self._dut, cycles)

    @resume
    async def read_csr(self, addr: int) -> int:
        """Read a register of the control port."""
        self._control("araddr").value = addr
        response, value = await self._transfer({"arvalid": "arready"}, "rready", "rvalid", "rresp",
                                               "rdata")
        self.memory.check()
        ControlError.check(f"read of control register 0x{addr:03x}", response)
        return value

    @resume
    async def write_csr(self, addr: int, value: int) -> None:
        """Write a register of the control port."""
        self._control("awaddr").value = addr
        self._control("wdata").value = value
        response, _ = await self._transfer({"awvalid": "awready", "wvalid": "wready"}, "bready",
                                           "bvalid", "bresp")
        self.memory.check()
        ControlError.check(f"write of control register 0x{addr:03x}", response)

    async def _transfer(self, offers: dict[str, str], accept: str, answered: str, response: str,
                        data: str | None = None) -> tuple[int | None, int]:
        # The response, None without an answer, and the data.
        for valid in [*offers, accept]:
            self._control(valid).value = 1
        for _ in range(PATIENCE):
            # Here everything still stands as before the edge; what is written follows it.
            await RisingEdge(self._dut.clk)
            for valid, ready in offers.items():
                if self._control(ready).value:
                    self._control(valid).value = 0
            if self._control(answered).value:
                code = int(self._control(response).value)
                value = int(self._control(data).value) if data else 0
                self._control(accept).value = 0
                await ReadWrite()
                return code, value
        return None, 0

    @resume
    async def run(self, max_cycles: int, until_irq: bool = True, progress: object = None) -> bool:
        """Run until the interrupt is high, or for so many cycles; returns whether it is high."""
        begin, first = time.perf_counter(), self.cycles
        processor = time.process_time()
        irq, violation = self._dut.irq, self._dut.violation
        if max_cycles > 0 and not (until_irq and irq.value) and not violation.value:
            stops = [Timer(max_cycles * PERIOD_NS, "ns"), RisingEdge(violation)]
            if until_irq:
                stops.append(RisingEdge(irq))
            await First(*stops)
            await ReadWrite()
        self._seconds += time.perf_counter() - begin
        self._processor += time.process_time() - processor
        self._ran += self.cycles - first
        self.memory.check()
        return bool(until_irq and irq.value)

    @property
    def cycles(self) -> int:
        """Clock cycles so far, resets included."""
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
        """Traffic of the memory, see :attr:`headrace.sim.memory.Memory.statistics`."""
        return self.memory.statistics

    @resume
    async def close(self) -> None:
        """Stop the clock and free the memory; another simulation of the design may start then."""
        if self._running:
            # Stopped high, the clock falls before it rises again: the next reset is in time.
            await RisingEdge(self._dut.clk)
            self._run_clock(False)
            # Edges are seen before the design takes them: the memory is needed until it has.
            await ReadWrite()
        self.memory.close()

"""Bench of the copying master: the same host code as in test_bench.py, under cocotb."""

import cocotb
import numpy as np
from cocotb.task import bridge

from headrace.sim.memory import MemoryOptions
from headrace.sim.testbench import BenchSimulation, parameters
from tests.sim.hosts import copy_twice


@cocotb.test()
async def copies(dut):
    given = parameters()
    memory = np.memmap(given["memory"], np.uint8, "r+")
    simulation = BenchSimulation(dut, memory, MemoryOptions(**given["options"]),
                                 bus_bytes=given["bus_bytes"])
    await simulation.start()
    found = await bridge(copy_twice)(simulation)
    assert found == given["expected"], f"{found} != {given['expected']}"

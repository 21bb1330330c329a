"""Cocotb benches: equal to the compiled loop, and unable to fail silently."""

import numpy as np
import pytest

from headrace.sim.bench import BenchFailed, component_verilog, run_component_bench, run_device_bench
from headrace.sim.memory import MemoryOptions
from headrace.sim.simulation import Simulation
from headrace.sw.errors import HeadraceError
from tests.sim.hosts import copy_twice
from tests.sim.masters import Copier, to_verilog


OPTIONS = {
    "plain": {},
    "slow": {"latency": 7, "write_latency": 90, "bandwidth": 0.3},
    "stalled": {"stall_seed": 5, "stall_probability": 0.4, "reorder": "beats"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("data_bits", [32, 128])
def test_both_drivers_take_the_same_cycles(data_bits, options, tmp_path):
    verilog = to_verilog(Copier(data_bits))
    start = np.random.default_rng(1).integers(0, 256, 1 << 18, dtype=np.uint8)
    mapped = np.memmap(tmp_path / "loop.bin", np.uint8, "w+", shape=start.shape)
    mapped[:] = start
    with Simulation(verilog, mapped, MemoryOptions(**options)) as simulation:
        expected = copy_twice(simulation)
    start.tofile(tmp_path / "bench.bin")
    run_device_bench(verilog, "tests.sim.bench_copier", parameters={
        "memory": str(tmp_path / "bench.bin"), "options": options, "expected": expected,
        "bus_bytes": data_bits // 8})
    assert np.array_equal(np.fromfile(tmp_path / "bench.bin", np.uint8), mapped)
    assert not np.array_equal(start, mapped)

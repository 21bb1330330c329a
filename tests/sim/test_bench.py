"""Cocotb benches: equal to the compiled loop, and unable to fail silently."""

from unittest.mock import ANY

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

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
    verilog = to_verilog(Copier, data_bits)
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


class Accumulator(wiring.Component):
    """Sum of everything that was valid, modulo 256."""

    valid: In(1)
    value: In(8)
    total: Out(8)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.valid):
            m.d.sync += self.total.eq(self.total + self.value)
        return m


def run_accumulator(**options):
    return run_component_bench(Accumulator(), "tests.sim.bench_accumulator", **options)


def test_component_bench():
    assert set(run_accumulator(tests=["adds", "sees_ports_only"], parameters={"count": 30})) == {
        "adds", "sees_ports_only"}


@pytest.mark.parametrize("test, message", [
    ("fails", "bench tests.sim.bench_accumulator failed: fails"),
    ("fails_in_the_background", "bench tests.sim.bench_accumulator failed: fails_in_the_backgrou"),
    ("never_ends", "the bench is not over after 500 cycles"),
    ("does_not_exist", "bench tests.sim.bench_accumulator"),
    ("crashes", "bench tests.sim.bench_accumulator ended without results"),
])
def test_failed_benches_fail(test, message):
    with pytest.raises(BenchFailed, match=message):
        run_accumulator(tests=[test])


def test_bench_without_tests():
    with pytest.raises(BenchFailed, match="bench tests.sim.bench_skipped ran no test"):
        run_component_bench(Accumulator(), "tests.sim.bench_skipped")


def test_missing_module():
    with pytest.raises(BenchFailed):
        run_component_bench(Accumulator(), "tests.sim.no_such_bench")


def test_waveforms(tmp_path):
    run_accumulator(tests=["adds"], parameters={"count": 3}, trace=True, folder=tmp_path)
    assert "total" in (tmp_path / "dump.vcd").read_text()


def test_top_named_like_a_port():
    with pytest.raises(HeadraceError, match="top 'total' has a port of the same name"):
        component_verilog(Accumulator(), "total")


def test_independent_far_side():
    """The copying master against the AXI memory of cocotbext-axi instead of ours."""
    assert run_component_bench(Copier(32), "tests.sim.bench_far_side") == {"copies": ANY}

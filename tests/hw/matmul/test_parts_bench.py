"""The array and the accumulator against NumPy, on Verilator."""

from dataclasses import asdict

import pytest

from headrace.hw.config import Config
from headrace.hw.emission import fill_memories
from headrace.hw.matmul.accumulator import Accumulator
from headrace.hw.matmul.array import SystolicArray
from headrace.sim.bench import BenchFailed, component_verilog, run_bench
from headrace.sim.ports import read_ports

from . import test_accumulator


ARRAYS = {
    "1x1": Config(rows=1, cols=1, ring_bytes=65536),
    "3x5": Config(rows=3, cols=5, ring_bytes=65536),
    "8x4, groups of 128": Config(rows=8, cols=4, group=128, ring_bytes=65536),
    "2x64, two folds": Config(rows=2, cols=64, lanes=4, ring_bytes=65536),
}

_verilog = {}


def run(component, config, bench, **parameters):
    key = component, config
    if key not in _verilog:
        # Nothing may depend on the contents of memories.
        _verilog[key] = fill_memories(component_verilog(component(config), "part"), 5)
    text = _verilog[key]
    run_bench({"part.v": text}, list(read_ports(text, "part").values()),
              f"tests.hw.matmul.{bench}", top="part",
              parameters={"config": asdict(config), "seed": 1, "stall": 0.0, "spoil": 0,
                          **parameters})


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_array_with_gaps_between_passes(name, stall):
    run(SystolicArray, ARRAYS[name], "bench_array", stall=stall, extreme=False)


@pytest.mark.parametrize("name", ["3x5", "8x4, groups of 128"])
def test_array_sums_are_wide_enough_for_extremes(name):
    run(SystolicArray, ARRAYS[name], "bench_array", extreme=True)


@pytest.mark.parametrize("name", test_accumulator.CONFIGS)
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_accumulator_with_stalls_of_rows_and_results(name, stall):
    run(Accumulator, test_accumulator.CONFIGS[name], "bench_accumulator", stall=stall)


@pytest.mark.parametrize("component, config, bench, message", [
    (SystolicArray, ARRAYS["3x5"], "bench_array", r"AssertionError: cycle \d+: \["),
    (Accumulator, test_accumulator.CONFIGS["2 lanes"], "bench_accumulator",
     r"AssertionError: result \d+: "),
])
def test_benches_notice_a_wrong_bit(component, config, bench, message):
    with pytest.raises(BenchFailed, match=message):
        run(component, config, bench, spoil=1, extreme=False)

"""Memory system on Verilator, with cocotbext-axi as the far side."""

import pytest

from headrace.hw.memory import MemorySystem
from headrace.sim.bench import run_component_bench

from .scenario import CONFIGS


@pytest.mark.parametrize("name", ["tiny", "wide"])
def test_against_an_independent_far_side(name):
    passed = run_component_bench(
        MemorySystem(CONFIGS[name]), "tests.hw.memory.bench_memory", name="memory_system_top",
        parameters={"config": name, "seed": 11, "stall": 0.3})
    assert len(passed) == 3

"""The K/V buffer on Verilator."""

from dataclasses import asdict

import pytest

from headrace.hw.config import Config
from headrace.hw.memory.kv_buffer import KVBuffer
from headrace.sim.bench import run_component_bench


CONFIGS = {
    "32 bits": Config(port_bits=32, kv_bytes=512),
    # A number of words that is no power of two.
    "128 bits": Config(port_bits=128, cols=32, ring_bytes=32768, kv_bytes=576),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("stall", [0.3, 0.7])
def test_against_an_array_of_bytes(name, stall):
    passed = run_component_bench(
        KVBuffer(CONFIGS[name]), "tests.hw.memory.bench_kv_buffer", name="kv_buffer_top",
        parameters={"config": asdict(CONFIGS[name]), "seed": 3, "stall": stall})
    assert len(passed) == 3

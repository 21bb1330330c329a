"""The whole device under cocotb: as in the compiled loop, cycle by cycle, and as in the image."""

import json
import sys

import pytest

from headrace.sim.bench import BenchFailed, run_device_bench
from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions

from .drivers import BASE, IMAGES, PROMPTS, converse, memory_bytes
from .machines import TINY, verilog


CASES = {
    "demo": {"image": "demo", "tokens": 5, "chunk": 3, "passes": 2, "options": {"latency": 20}},
    "random stalls": {"image": "large heads", "tokens": 6, "chunk": None, "passes": 1,
                      "options": {"latency": 30, "write_latency": 70, "bandwidth": 0.8,
                                  "stall_seed": 4, "stall_probability": 0.4}},
}


def _compiled(case):
    image = IMAGES[case["image"]]()
    with SimDevice(TINY, verilog(TINY), MemoryOptions(**case["options"]), memory_base=BASE,
                   memory_bytes=memory_bytes(image), fill=0xff) as device:
        found = converse(device, image, PROMPTS[case["image"]], case["tokens"],
                         chunk=case["chunk"], passes=case["passes"])
        return found, device.simulated_hz


def _bench(case, expected, folder):
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")
    passed = run_device_bench(verilog(TINY), "tests.e2e.bench_device", parameters={
        **case, "expected": str(folder / "expected.json"), "report": str(folder / "report.json")})
    assert len(passed) == 2
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_both_drivers_take_the_same_cycles(name, tmp_path):
    """The driver's session is bit-exact and counted right under both, with equal counters."""
    case = CASES[name]
    expected, compiled_hz = _compiled(case)
    bench_hz = _bench(case, expected, tmp_path)["simulated_hz"]
    passes = expected["passes"]
    assert len(expected["tokens"]) == case["tokens"] and all(p["cycles"] for p in passes)
    if name == "random stalls":
        assert sum(p["kv_hits"] for p in passes) and sum(p["kv_misses"] for p in passes)
    print(f"{name}: {sum(p['cycles'] for p in passes):,} cycles in {len(passes)} passes, equal "
          f"under both drivers; compiled loop {compiled_hz / 1e3:.0f} kHz, cocotb "
          f"{bench_hz / 1e3:.0f} kHz: {bench_hz / compiled_hz:.2f} of it", file=sys.stderr)


@pytest.mark.parametrize("name, spoil", [
    ("tokens", lambda found: found["tokens"].append(0)),
    ("passes", lambda found: found["passes"][-1].update(cycles=1)),
])
def test_bench_notices_a_difference(name, spoil, tmp_path):
    case = {**CASES["demo"], "tokens": 1}
    expected, _ = _compiled(case)
    spoil(expected)
    with pytest.raises(BenchFailed, match=f"AssertionError: {name}: "):
        _bench(case, expected, tmp_path)

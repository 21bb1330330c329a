"""The driver on the simulated device: bit-exact, its counters exact, usable after an error."""

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.verilog import generate
from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sw.checkpoint import load_checkpoint
from headrace.sw.compiler import Traffic, compile_model
from headrace.sw.driver import DeviceError, Session
from headrace.sw.errors import HeadraceError


TINY = PRESETS["tiny"]
BASE = 1 << 20

#: Cycles that a pass of the built-in model stays far below.
BOUND = 3_000_000


@pytest.fixture(scope="module")
def demo():
    return compile_model(load_checkpoint("demo"), TINY)


@pytest.fixture(scope="module")
def verilog():
    # Every SRAM begins with random bits.
    return generate(TINY, fill=1)


def _device(verilog, options=None, **changes):
    return SimDevice(TINY, verilog, options, memory_bytes=1 << 20, memory_base=BASE,
                     **{"fill": 0xff, **changes})


@pytest.mark.parametrize("options, fill, chunk, passes", [
    (MemoryOptions(latency=5), 0xff, 2, 6),
    (MemoryOptions(latency=80, stall_seed=3), np.random.default_rng(0), 8, 1),
], ids=["fast", "stalls"])
def test_bit_exact_and_counted(demo, verilog, options, fill, chunk, passes):
    prompt = [1, 454, 455, 324, 437]
    with _device(verilog, options, fill=fill) as device:
        session = Session(device, demo, check=True, chunk=chunk, passes_per_run=passes,
                          max_cycles=BOUND)
        tokens = list(session.generate(prompt, 7))
        bus = device.simulation.statistics
    assert len(tokens) == 7 and session.verdict == "bit-exact"

    # Reading ahead moves bytes between passes: sums are exact.
    expected, position = Traffic(), 0
    for entry in session.statistics.passes:
        head = entry["context"] >= len(prompt)
        expected.add(demo.expected_traffic(position, entry["positions"], head, head))
        position += entry["positions"]
    totals = session.report()["totals"]
    assert totals["bytes_read"] == expected.read and totals["bytes_written"] == expected.written
    assert (totals["kv_hits"], totals["kv_misses"]) == (expected.kv_hits, expected.kv_misses)
    assert sum(p["macs_counted"] for p in session.statistics.passes) == expected.macs
    # On the bus, scales are part of the weight streams.
    together = {**expected.read, "scales": 0,
                "weights": expected.read["weights"] + expected.read["scales"]}
    assert bus["read"]["bytes"] == together and bus["write"]["bytes"] == expected.written


def test_usable_after_an_error(demo, verilog):
    prompt = [1, 454, 455]
    with _device(verilog) as device:
        session = Session(device, demo, max_cycles=BOUND)
        token = session.prefill(prompt)
        bad = BASE + demo.parts["layers.2.o"].begin
        for response, code in (("slverr", 1), ("decerr", 2)):
            device.simulation.memory.inject(bad, 64, response)
            session.restart()
            with pytest.raises(DeviceError, match="the device has been reset") as caught:
                session.prefill(prompt)
            assert caught.value.code == code
            assert bad <= caught.value.address < bad + 64
            device.simulation.memory.clear_errors()
            session.restart()
            assert session.prefill(prompt) == token


def test_host_accesses_are_checked(verilog):
    device = _device(verilog)
    with pytest.raises(HeadraceError, match="sim: the device is not open"):
        device.read_register("id")
    for access in (lambda: device.read_memory(BASE - 1, 1),
                   lambda: device.write_memory(BASE + (1 << 20), np.zeros(1, np.uint8))):
        with pytest.raises(HeadraceError, match="are outside the memory: expected 0x100000 to "
                                                "0x200000"):
            access()

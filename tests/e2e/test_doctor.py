"""The self-test on the simulated device."""

import pytest

from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sw.doctor import DeviceDoctor

from .machines import TINY, demo, verilog


def test_a_simulated_device_is_sound():
    image = demo(TINY, 64)
    with SimDevice(TINY, verilog(TINY), MemoryOptions(latency=20), fill=0xff,
                   memory_bytes=image.total_bytes) as device:
        checks = {check.name: check for check in
                  DeviceDoctor(device, lambda _: image, memory_bytes=65536).examine()}
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    found = checks["bandwidth"].figures
    assert found["port_share"] <= 1 and found["bytes_read"] > 0.8 * image.content.size
    assert found["bytes_per_second"] == pytest.approx(
        found["bytes_read"] * TINY.clk_hz / found["cycles"], rel=1e-3)

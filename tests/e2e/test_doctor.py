"""The self-test on the simulated device, and on a simulated board behind a link."""

import json

import numpy as np
import pytest

from headrace.sim.core_board import CLK_HZ, CoreBoard
from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sim.uart_pump import TcpPump
from headrace.sw.cli import main
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
    assert image.tokenizer is not None
    position = len(image.tokenizer.encode("Once upon a time"))
    expected = image.expected_traffic(position, 1, True, True)
    # The sequencer reads ahead: bytes of a pass may count for the one before.
    assert found["bytes_read"] == pytest.approx(sum(expected.read.values()), rel=0.05)
    assert 0.5 < found["port_share"] <= 1
    assert found["bytes_per_second"] == pytest.approx(
        found["bytes_read"] * TINY.clk_hz / found["cycles"], rel=1e-3)


@pytest.mark.slow
def test_a_board_behind_a_link(capsys):
    """``headrace doctor tcp://...``: it says itself what it is, and tests its own memory."""
    image = demo(TINY, 64)
    options = MemoryOptions(latency=20, stall_seed=1)
    with CoreBoard(TINY, 4 << 20, options, fill=np.random.default_rng(3)) as board:
        # What memory holds already is not sent; the memory test spoils the beginning.
        board.storage[:image.content.size] = image.content
        with TcpPump(board) as pump, pytest.raises(SystemExit) as ended:
            main(["doctor", f"tcp://127.0.0.1:{pump.port}?timeout=20", "--memory", "8192",
                  "--json"])
    report = json.loads(capsys.readouterr().out)
    assert not ended.value.code and report["ok"], report
    checks = {check["name"]: check for check in report["checks"]}
    assert {check["verdict"] for check in checks.values()} == {"ok"}
    assert checks["memory"]["figures"]["by"] == "board"
    assert checks["memory"]["figures"]["bytes"] == 8192
    assert checks["configuration"]["figures"]["config"] == "tiny"
    assert checks["bandwidth"]["figures"]["clk_hz"] == CLK_HZ

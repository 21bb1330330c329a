"""The loop over the array alone adds up, and the command reports what it measures."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headrace.hw.config import load_config
from headrace.sim.array_loop import ArrayLoop
from headrace.sw.cli.app import app


ODD = load_config(str(Path(__file__).parents[1] / "e2e" / "3x5.toml"))
PASS = 32


def _words(count):
    # The random numbers of cpp/array_loop.cpp.
    value, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for _ in range(count):
        value ^= value << 13 & mask
        value ^= value >> 7
        value ^= value << 17 & mask
        yield value


def test_the_array_alone_adds_up():
    config, passes = ODD, 10
    # The first pass is one cycle shorter; the last rows have left long before the end.
    cycles = PASS - 1 + PASS * (passes - 1) + 20
    per_cycle = -(-max(8 * (config.cols + config.rows), 65) // 64)
    data = np.array(list(_words(cycles * per_cycle)), "<u8").view(np.int8)
    data = data.reshape(cycles, -1).astype(int)
    weights, acts = data[:, :config.cols], data[:, config.cols:config.cols + config.rows]
    expected, begin, mask = 0, 0, (1 << config.sum_bits) - 1
    for index in range(passes):
        end = begin + PASS - (index == 0)
        for sums in acts[begin:end].T @ weights[begin:end]:
            packed = sum((int(value) & mask) << config.sum_bits * c
                         for c, value in enumerate(sums))
            expected = (expected * 31 + (packed & 0xffffffff)) % (1 << 64)
        begin = end
    with ArrayLoop(config) as array:
        assert array.run(cycles) == expected


@pytest.mark.slow
def test_command(tmp_path):
    """No speed is asked for: what else runs on the machine decides it."""
    result = CliRunner().invoke(app, ["speed", "--config", "tiny", "--repeat", "1", "--tokens", "1",
                                      "--json", str(tmp_path / "speed.json")])
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "speed.json").read_text())
    assert row["config"] == "tiny" and row["build_seconds"] > 0
    assert row["device_ratio"] == pytest.approx(row["device_khz"] / row["array_khz"])
    assert row["cocotb_ratio"] == pytest.approx(row["cocotb_khz"] / row["device_khz"])
    for text in ("tiny", "of array", f"{row['device_khz']:.0f}"):
        assert text in result.output

"""Boards in simulation: LiteDRAM's controller and PHY, the chip at its pins, and the link."""

import dataclasses

import numpy as np
import pytest

from headrace.boards.catalogue import find_board
from headrace.boards.dram import controller_spec
from headrace.sim.board_device import SimulatedBoard
from headrace.sim.controller_report import compare
from headrace.sim.direct import DirectDevice
from headrace.sim.memory import ProtocolViolation
from headrace.sim.sdr import find_chip
from headrace.sw.driver import Session
from headrace.sw.golden_device import GoldenDevice

from .machines import demo, ids, synthetic


pytest.importorskip("litedram")

ULX3S = find_board("ulx3s")
PROMPT, TOKENS = ids(21, seed=4), 3


def golden(image, prompt, tokens):
    with GoldenDevice(image.config, memory_bytes=image.total_bytes) as device:
        return list(Session(device, image).generate(prompt, tokens))


def full_rate(board):
    """The board with its chip at the clock of the accelerator: its port is wider than memory."""
    memory = dataclasses.replace(board.memory, rate="1:1", clock_hz=board.clk_hz)
    return dataclasses.replace(board, memory=memory)


@pytest.mark.parametrize("board", (
    pytest.param(ULX3S, id="half rate"),
    pytest.param(full_rate(ULX3S), id="full rate", marks=pytest.mark.slow),
))
def test_a_model_through_the_controller(board):
    image = synthetic(board.config)
    device = DirectDevice(board.config, controller_spec(board), fill=np.random.default_rng(7))
    with device:
        session = Session(device, image, check=True)
        assert list(session.generate(PROMPT, TOKENS)) == golden(image, PROMPT, TOKENS)
        found = device.dram_statistics
    assert found is not None
    # All that was read and written has moved, and the chip was refreshed all the time.
    moved = session.report()["totals"]
    read = sum(moved["bytes_read"].values())
    assert 2 * found["words"] >= read > 0
    assert found["refreshes"] >= found["clocks"] // 782 - 60


def test_a_chip_that_is_slower_than_the_controller_believes():
    """The rules of the chip are watched: with another data sheet the same run breaks one."""
    image = synthetic(ULX3S.config)
    chip = dataclasses.replace(find_chip("IS42S16160"), name="slow", rcd=70)
    with DirectDevice(ULX3S.config, controller_spec(ULX3S), chip=chip) as device:
        with pytest.raises(ProtocolViolation, match="READ or WRITE within tRCD"):
            Session(device, image).prefill(PROMPT)


def test_a_model_over_the_uart():
    image = synthetic(ULX3S.config)
    uploads = []
    device = SimulatedBoard(ULX3S, fill=np.random.default_rng(8),
                            upload=lambda done, total: uploads.append((done, total)))
    with device:
        assert (device.clk_hz, device.memory_bytes) == (ULX3S.clk_hz, 32 << 20)
        result = device.memory_test(12 << 20, 4096)
        assert (result.words, result.errors) == (1024, 0)
        session = Session(device, image, check=True)
        assert list(session.generate(PROMPT, TOKENS)) == golden(image, PROMPT, TOKENS)
        assert device.faults == 0
        # Reset and opened again, the chip holds what it held.
        content = device.read_memory(0, 512)
        assert np.array_equal(content, device.simulation.storage[:512])
    assert uploads and uploads[-1][0] == uploads[-1][1]


def test_the_timing_model_agrees_with_the_controller():
    real, model, free, ideal = compare(ULX3S, tokens=2)
    assert abs(model.decode / real.decode - 1) < 0.05
    assert abs(model.prefill / real.prefill - 1) < 0.05
    assert ideal.decode < free.decode < model.decode


@pytest.mark.slow
def test_a_model_on_a_board_with_ddr3():
    board = find_board("orangecrab")
    image = synthetic(board.config)
    with SimulatedBoard(board) as device:
        result = device.memory_test(16 << 20, 4096)
        assert (result.words, result.errors) == (1024, 0)
        session = Session(device, image, check=True)
        assert list(session.generate(PROMPT, TOKENS)) == golden(image, PROMPT, TOKENS)


@pytest.mark.slow
def test_the_built_in_model_over_the_uart():
    image = demo(ULX3S.config)
    with SimulatedBoard(ULX3S) as device:
        session = Session(device, image, check=True)
        prompt = [1, 454, 30, 2]
        assert list(session.generate(prompt, 8)) == golden(image, prompt, 8)

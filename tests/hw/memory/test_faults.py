"""Resets while beats are owed, and error responses."""

from copy import deepcopy

import pytest

from headrace.hw.config import Config

from .scenario import CONFIGS, Scenario, everything


def tried_twice(scenario):
    """Let the next reset begin again with all that was asked so far."""
    harness = scenario.harness
    harness.again = deepcopy(harness.send)
    harness.pulses_again = deepcopy(harness.pulses)
    return harness


@pytest.mark.parametrize("cycle", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233])
@pytest.mark.parametrize("name", ["3x5", "edge"])
def test_reset_while_beats_are_owed(name, cycle):
    # What was written before the reset is written again, so the memory must end up the same.
    scenario = Scenario(CONFIGS[name], stall=0.3, latency=20, seed=cycle)
    everything(scenario)
    harness = tried_twice(scenario)

    def strike(harness, now):
        if harness.cycle == cycle:
            harness.pulses.appendleft("reset")

    harness.on_cycle = strike
    scenario.settle()
    assert harness.recoveries == 1


def test_reset_with_a_silent_far_side():
    scenario = Scenario(Config(), latency=5)
    everything(scenario)
    harness = tried_twice(scenario)
    harness.silent = True
    seen = []

    def strike(harness, now):
        if harness.cycle == 200:
            harness.pulses.append("reset")
        if harness.cycle == 600:
            assert now["resetting"] and harness.owed
            harness.silent = False
        seen.append(now["resetting"])

    harness.on_cycle = strike
    scenario.settle()
    assert harness.recoveries == 1 and sum(seen) > 400


def test_reset_of_a_blocked_machine():
    # Every target is full and a write waits for data that never come.
    scenario = Scenario(Config(ring_bytes=2048))
    scenario.matmul(0, 600)
    for table in range(6):
        scenario.norm(20 * table, 256)
    scenario.linear(900, 50)
    harness = tried_twice(scenario)
    harness.blocked |= {"weights", "tables"}
    data = harness.send["linear_data"]
    harness.send["linear_data"] = type(data)(list(data)[:7])

    def strike(harness, now):
        if harness.cycle == 1500:
            assert now["port_buffer_full"] and not now["write_idle"]
            harness.blocked.clear()
            harness.pulses.append("reset")

    harness.on_cycle = strike
    scenario.settle()
    assert harness.recoveries == 1


@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize("beat", [0, 7, 15])
def test_error_response_to_a_read(beat, response):
    config = Config(burst_beats=16)
    scenario = Scenario(config, latency=20)
    scenario.matmul(64, 64)
    scenario.matmul(200, 5)
    harness = tried_twice(scenario)
    start = 4096 + 64 * 64 + 64 * 2            # the third burst
    harness.errors = {start + 4 * beat: response, start + 64: 5 - response}
    later = []

    def look(harness, now):
        if now["error.valid"] and not harness.recoveries and not harness.reads and not later:
            assert now["error.code"] == response - 1
            assert now["error.addr"] == start
            harness.errors = {}
            harness.pulses.append("reset")
            later.append(harness.cycle)
        if harness.recoveries:
            assert not now["error.valid"]

    harness.on_cycle = look
    harness.run(lambda harness: harness.recoveries and scenario.complete(harness), 4000)
    scenario.check()
    assert later


@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize("burst", [0, 1, 3])
def test_error_response_to_a_write(burst, response):
    scenario = Scenario(Config(burst_beats=4), latency=20)
    scenario.linear(64, 16)
    scenario.single(64 * 200, 1)
    harness = scenario.harness
    start = 4096 + 64 * 64 + 16 * burst
    harness.errors = {start: response, 4096 + 64 * 64 + 48: 5 - response if burst < 3 else response}
    scenario.settle()
    assert harness.status["error.valid"] and harness.status["error.code"] == response + 1
    assert harness.status["error.addr"] == start
    harness.errors = {}


def test_error_on_an_exclusive_okay_is_none():
    scenario = Scenario(Config())
    scenario.matmul(64, 4)
    scenario.harness.errors = {4096 + 64 * 64: 1}
    assert not scenario.settle().status["error.valid"]


def test_reordering_far_side_is_reported():
    scenario = Scenario(Config(burst_beats=4), latency=20)
    scenario.matmul(64, 640)
    scenario.fetch(3, 9)
    harness = scenario.harness
    harness.reorder = True
    harness.run(lambda harness: harness.status["error.valid"], 1000)
    assert harness.status["error.code"] == 6


def test_nothing_is_read_after_data_out_of_order():
    # What asks next may have taken its address from them. So it is after any error of a read.
    scenario = Scenario(Config(burst_beats=4), latency=20)
    scenario.matmul(64, 640)
    scenario.fetch(3, 9)
    harness = scenario.harness
    harness.reorder = True
    found = []

    def look(harness, now):
        if now["error.valid"]:
            found.append(sum(entry[0] == "ar" for entry in harness.history))

    harness.on_cycle = look
    harness.run(lambda harness: len(found) > 400, 2000)
    # An address may have been on the port.
    assert 0 < found[0] <= found[-1] <= found[0] + 1

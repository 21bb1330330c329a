"""The commands before a DRAM's controller takes over."""

import pytest
from amaranth.sim import Simulator

from headrace.boards.dram.start import Start


STEPS = [
    {"a": 0, "ba": 0, "cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1, "wait": 20},
    {"a": 0x400, "ba": 0, "cs_n": 0, "ras_n": 0, "cas_n": 1, "we_n": 0, "wait": 4},
    {"a": 0x21, "ba": 1, "cs_n": 0, "ras_n": 0, "cas_n": 0, "we_n": 0, "wait": 9},
]
IDLE = {"cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1}


@pytest.mark.parametrize("steps", ([], [{**STEPS[0], "wait": 3}]))
def test_bad_steps(steps):
    with pytest.raises(ValueError, match="at least one step, each with a wait of at least 4"):
        Start(steps, 13, 2)


def test_each_command_once_and_its_wait_after_it():
    dut, seen, done = Start(STEPS, 13, 2), [], []

    async def watch(ctx):
        for _ in range(60):
            command = {name: ctx.get(dut.command[name])
                       for name in ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n", "cke")}
            seen.append(command)
            done.append(ctx.get(dut.done))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(watch)
    simulator.run()

    first = next(cycle for cycle, command in enumerate(seen) if command["cke"])
    assert first <= 2 and all(command["cke"] for command in seen[first:])
    at = [first, first + 20, first + 24]
    end = first + 33
    for cycle, command in enumerate(seen):
        if cycle in at:
            step = STEPS[at.index(cycle)]
            assert command == {**{name: step[name] for name in step if name != "wait"}, "cke": 1}
        else:
            assert {name: command[name] for name in IDLE} == IDLE
    assert done.index(1) <= end + 1 and all(done[end + 1:]) and not any(done[:end - 1])

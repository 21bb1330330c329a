"""Bench of the vector unit: one list of instructions, with stalls on every stream."""

import pickle
import random
from collections import Counter

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

from headrace.sim.testbench import parameters, start
from tests.hw.vector.model import counter


INPUTS = ("commands", "results", "tables", "request_data")
OUTPUTS = ("requests", "append", "append_data", "linear", "linear_data", "single")
STATES = ("busy", "wait_matmul", "wait_memory", "wait_write", "idle")


class Stalls:
    """Valid or ready in runs: some streams wait long, others are always there."""

    def __init__(self, rng, most):
        self.rng = rng
        self.most = most
        self.left = 0
        self.on = True

    def __call__(self):
        if not self.most:
            return True
        if self.left == 0:
            self.on = not self.on
            self.left = self.rng.randint(1, self.most)
        self.left -= 1
        return self.on


@cocotb.test()
async def instructions(dut):
    given = parameters()
    with open(given["case"], "rb") as file:
        case = pickle.load(file)
    rng = random.Random(given["seed"])
    most = given["stall"]
    names = set(dir(dut))

    source = {name: iter(case["streams"].get(name, [])) for name in INPUTS}
    pending = dict.fromkeys(INPUTS)
    # Answers come after their request: words of request_data that are allowed.
    asked = 0
    stalls = {name: Stalls(rng, most and rng.randint(1, most)) for name in (*INPUTS, *OUTPUTS)}
    seen = {name: [] for name in OUTPUTS}
    lanes = case["lanes"]
    a, s, x = case["a_start"].copy(), case["s_start"].copy(), case["x_start"].copy()
    a_count = s_count = 0
    events = Counter()
    per_command = []
    # Times at which memory acknowledges, and at which readers of the cache see an append.
    unacknowledged, unseen = [], []
    idle_history = [(True, True)] * 3
    snapshot = 0
    next_counter = 0

    for name in INPUTS:
        getattr(dut, f"{name}__valid").value = 0
    for name in OUTPUTS:
        getattr(dut, f"{name}__ready").value = 0
    dut.write_idle.value = dut.append_idle.value = 1
    dut.counter_data.value = 0
    await start(dut, max_cycles=given["cycles"] + 1000)

    # Appended and pass_done may come after later instructions: each kind has its own order.
    kinds = ("a_ready", "appended", "token_stb", "pass_done")
    expected_pulses = {kind: [tuple(facts) for name, *facts in case["pulses"] if name == kind]
                       for kind in kinds}
    assert sum(map(len, expected_pulses.values())) == len(case["pulses"])
    pulses = {kind: [] for kind in kinds}
    holds = 0
    commands_left = len(case["streams"]["commands"])
    for cycle in range(given["cycles"]):
        await FallingEdge(dut.clk)
        for name in INPUTS:
            if pending[name] is None and stalls[name]():
                if name != "request_data" or asked > 0:
                    pending[name] = next(source[name], None)
                    if pending[name] is not None:
                        getattr(dut, f"{name}__payload").value = pending[name]
            getattr(dut, f"{name}__valid").value = int(pending[name] is not None)
            if pending[name] is None:
                getattr(dut, f"{name}__payload").value = rng.getrandbits(32)
        for name in OUTPUTS:
            getattr(dut, f"{name}__ready").value = int(stalls[name]())
        # Acknowledgements: in sight two cycles after the acceptance.
        unacknowledged = [due for due in unacknowledged if due > cycle]
        unseen = [due for due in unseen if due > cycle]
        dut.write_idle.value, dut.append_idle.value = map(int, idle_history[-2])
        dut.counter_data.value = next_counter

        await ReadOnly()
        states = int(dut.events.value)
        assert states.bit_count() == 1, f"cycle {cycle}: events {states:05b}"
        events[STATES[states.bit_length() - 1]] += 1
        next_counter = counter(int(dut.counter_index.value), snapshot)
        for name in INPUTS:
            if pending[name] is not None and int(getattr(dut, f"{name}__ready").value):
                pending[name] = None
                if name == "request_data":
                    asked -= 1
                if name == "commands":
                    commands_left -= 1
                    per_command.append(dict(events))
                    events.clear()
        for name in OUTPUTS:
            if int(getattr(dut, f"{name}__valid").value):
                value = int(getattr(dut, f"{name}__payload").value)
                at = len(seen[name])
                wanted = case["streams"].get(name, [])
                assert at < len(wanted), f"cycle {cycle}: {name}: more than {at} words"
                assert value == wanted[at], (f"cycle {cycle}, command {len(per_command)}: "
                                             f"{name}[{at}] = {value:x}, not {wanted[at]:x}")
                if int(getattr(dut, f"{name}__ready").value):
                    seen[name].append(value)
                    if name == "requests":
                        asked += -(-(value >> 40 & 0xfffff) // (4 * lanes))
                    elif name in ("append_data", "linear_data", "single"):
                        (unseen if name == "append_data" else unacknowledged).append(
                            cycle + 1 + (most and rng.randint(0, 40)))
        if int(dut.x_en.value):
            word = int(dut.x_data.value)
            base = int(dut.x_addr.value) * lanes
            for lane in range(lanes):
                x[base + lane] = word >> 32 * lane & 0xffffffff
        if int(dut.a_write__en.value):
            a_count += 1
            word = int(dut.a_write__data.value)
            row = int(dut.a_write__row.value) if "a_write__row" in names else 0
            for lane in range(lanes):
                a[int(dut.a_write__addr.value), row, lane] = (
                    ((word >> 8 * lane & 0xff) ^ 0x80) - 0x80)
        if int(dut.s_write__en.value):
            s_count += 1
            s[int(dut.s_write__addr.value)] = int(dut.s_write__data.value)
        if int(dut.counter_hold.value):
            snapshot, holds = holds, holds + 1
        for name, facts in (("a_ready", (a_count, s_count)),
                            ("appended", (len(seen["append_data"]),)),
                            ("token_stb", (int(dut.token.value),)),
                            ("pass_done", (len(seen["single"]),))):
            if int(getattr(dut, name).value):
                at = len(pulses[name])
                pulses[name].append(facts)
                wanted = expected_pulses[name][at:at + 1]
                assert wanted == [facts], (
                    f"cycle {cycle}: {name} {at} is {facts}, not {wanted}")
                if name == "appended":
                    assert not unseen, f"cycle {cycle}: {name} before the last append"
                if name == "pass_done":
                    assert not unacknowledged, f"cycle {cycle}: {name} before the last write"
        idle_history = [*idle_history[1:], (not unacknowledged and not unseen, not unseen)]
        if commands_left == 0 and pulses == expected_pulses:
            break
    assert commands_left == 0, (
        f"command {len(per_command)} not over after {given['cycles']} cycles; "
        f"{ {name: len(words) for name, words in seen.items()} }")
    for name in INPUTS:
        assert pending[name] is None and next(source[name], None) is None, f"{name} left over"
    for name in OUTPUTS:
        assert len(seen[name]) == len(case["streams"].get(name, [])), f"{name} incomplete"
    assert pulses == expected_pulses
    for name, found, wanted in (("x", x, case["x"]), ("a", a, case["a"]), ("s", s, case["s"])):
        wrong = (found != wanted).nonzero()
        assert len(wrong[0]) == 0, (f"{name}: {len(wrong[0])} wrong, first at "
                                    f"{[int(i[0]) for i in wrong]}")
    with open(given["report"], "wb") as file:
        pickle.dump(per_command, file)

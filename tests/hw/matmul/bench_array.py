"""Bench of the systolic array: passes of every length and width, with random gaps and garbage."""

import random
from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from headrace.hw.config import Config
from headrace.sim.testbench import parameters, start

from .model import array_cycles, pack


def make(config, rng, extreme):
    """Passes ``(q[r, k], w[k, n], used)``."""
    rows, cols = config.rows, config.cols
    longest = max(config.group, 32)
    if extreme:
        return [(np.full((rows, longest), act), np.full((longest, cols), weight), rows)
                for act in (-127, 127) for weight in (-128, 127)]
    if config.folds > 1:
        widths = [n for n in (cols, 16, 32, 64) if n <= cols]
        return [(rng.integers(-128, 128, (rows, k)), rng.integers(-128, 128, (k, n)), used)
                for n in rng.permutation(widths * 3).tolist() for k in (16, 32)
                for used in (1, rows)]
    lengths = [*range(1, 2 * rows + 3), longest]
    return [(rng.integers(-128, 128, (rows, k)), rng.integers(-128, 128, (k, cols)), used)
            for k in lengths for used in range(1, rows + 1)]


def signed(value, bits):
    return value - (value >> bits - 1 << bits)


class Checker:
    """Compares each row of sums, and the cycle in which it leaves."""

    def __init__(self, dut, config):
        self.dut, self.config = dut, config
        self.due = deque()

    def expect(self, cycle, sums):
        for r, (*columns, act_sum) in enumerate(sums):
            self.due.append((cycle + 3 + r, columns, act_sum))

    def step(self, cycle):
        now = bool(self.due) and self.due[0][0] == cycle
        assert bool(self.dut.o_valid.value) == now, f"cycle {cycle}: o_valid is {not now}"
        if now:
            _, sums, act_sum = self.due.popleft()
            bits, word = self.config.sum_bits, int(self.dut.o.value)
            found = [signed(word >> bits * c & (1 << bits) - 1, bits)
                     for c in range(len(sums))]
            assert found == sums, f"cycle {cycle}: {found}, not {sums}"
            assert self.dut.o_acts.value.to_signed() == act_sum, f"cycle {cycle}: o_acts"


@cocotb.test()
async def sums_of_passes(dut):
    given = parameters()
    config = Config(**given["config"])
    rng, chance = np.random.default_rng(given["seed"]), random.Random(given["seed"])
    dut.valid.value = 0
    await start(dut)
    checker = Checker(dut, config)
    cycle = -1

    async def step(valid=0, last=0, used=None, acts=None, weights=None, narrow=0):
        # What is driven after an edge belongs to the cycle that begins there. What no pass needs
        # is garbage.
        nonlocal cycle
        dut.valid.value = valid
        dut.last.value = last if valid else chance.getrandbits(1)
        dut.used.value = chance.randint(0, config.rows) if used is None else used
        if hasattr(dut, "narrow"):
            dut.narrow.value = narrow if valid else chance.getrandbits(2)
        dut.acts.value = (chance.getrandbits(8 * config.rows * config.folds) if acts is None
                          else pack(acts, 8))
        dut.weights.value = (chance.getrandbits(8 * config.cols) if weights is None
                             else pack(weights, 8))
        cycle += 1
        await RisingEdge(dut.clk)
        checker.step(cycle)

    apart = 0
    for q, w, used in make(config, rng, given["extreme"]):
        # The last products of two passes are as far apart as the former has rows.
        cycles, sums = array_cycles(config, q, w, rng)
        narrow = 0 if w.shape[1] == config.cols else config.sub_select(w.shape[1])
        for _ in range(max(0, apart - len(cycles))):
            await step()
        while chance.random() < given["stall"]:
            await step()
        for i, (acts, weights) in enumerate(cycles):
            last = i == len(cycles) - 1
            if last:
                checker.expect(cycle + 1, sums[:used])
                if given["spoil"]:
                    weights[0] ^= 1
            await step(1, int(last), used if last else None, acts, weights, narrow)
        apart = used
    for _ in range(config.rows + 4):
        await step()
    assert not checker.due

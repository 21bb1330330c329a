"""The systolic array against integer matrix products, on Amaranth's simulator."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from headrace.hw.config import Config
from headrace.hw.matmul.array import SystolicArray

from .model import array_cycles


SIZES = [(1, 1), (2, 2), (3, 5), (4, 8), (8, 4)]


def config_of(rows, cols, **sizes):
    return Config(rows=rows, cols=cols, **{"ring_bytes": 65536, **sizes})


def run(config, passes):
    """Stream `passes` of ``(q[r, k], w[k, n], used)`` without a gap that is not needed."""
    dut = SystolicArray(config)
    rows, cols = config.rows, config.cols
    rng = np.random.default_rng(5)
    expected, inputs = [], []
    for q, w, used in passes:
        cycles, sums = array_cycles(config, q, w, rng)
        expected += sums[:used]
        narrow = 0 if w.shape[1] == cols else config.sub_select(w.shape[1])
        inputs.append((cycles, used, narrow))
    seen = []

    async def drive(ctx):
        gap = 0
        for cycles, used, narrow in inputs:
            # The last products of two passes are as far apart as the former has rows.
            ctx.set(dut.valid, 0)
            for _ in range(max(0, gap - len(cycles))):
                await ctx.tick()
            gap = used
            for i, (acts, weights) in enumerate(cycles):
                ctx.set(dut.valid, 1)
                ctx.set(dut.last, int(i == len(cycles) - 1))
                ctx.set(dut.used, used)
                if len(dut.narrow):
                    ctx.set(dut.narrow, narrow)
                ctx.set(dut.acts, acts)
                ctx.set(dut.weights, weights)
                await ctx.tick()
        ctx.set(dut.valid, 0)
        await ctx.tick().repeat(rows + 4)

    async def watch(ctx):
        async for _, _, valid, sums, act_sum in ctx.tick().sample(dut.o_valid, dut.o, dut.o_acts):
            if valid:
                found = expected[len(seen)] if len(seen) < len(expected) else []
                seen.append([*(int(sums[c]) for c in range(len(found) - 1)), act_sum])

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(drive)
    sim.add_testbench(watch, background=True)
    sim.run()
    assert seen == expected


@pytest.mark.parametrize("rows, cols", SIZES)
def test_drain_loses_no_row_of_a_short_pass(rows, cols):
    """Every number of rows, and passes over K from 1 up, follow each other."""
    rng = np.random.default_rng(rows * 100 + cols)
    passes = []
    for k in range(1, 2 * rows + 3):
        for used in range(1, rows + 1):
            passes.append((rng.integers(-128, 128, (rows, k)), rng.integers(-128, 128, (k, cols)),
                           used))
    run(config_of(rows, cols), passes)


@pytest.mark.parametrize("rows, cols, lanes", [(2, 64, 4), (3, 72, 8), (2, 128, 4), (1, 128, 2)])
def test_column_groups_of_a_narrow_tile_share_its_rows(rows, cols, lanes):
    """Full and narrow tiles follow each other; with one pass as short as folds make it."""
    rng = np.random.default_rng(cols + rows)
    config = config_of(rows, cols, lanes=lanes)
    passes = []
    for n in (cols, 32, 16, 64, 16, 32, cols, 64):
        if n <= cols:
            k = 16 if n == 16 else 32
            passes.append((rng.integers(-128, 128, (rows, k)), rng.integers(-128, 128, (k, n)),
                           rows))
    assert max(config.fold(n) for n in (16, 32, 64)) == config.folds > 1
    run(config, passes)


@pytest.mark.parametrize("group", [16, 32, 128])
def test_sums_are_wide_enough_for_extremes(group):
    """Products of the largest size and of one sign, over the longest pass."""
    config = config_of(3, 5, group=group)
    k = max(group, 32)
    passes = []
    for act in (-127, 127):
        for weight in (-128, 127):
            passes.append((np.full((3, k), act), np.full((k, 5), weight), 3))
    run(config, passes)

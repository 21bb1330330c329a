"""The systolic array against integer matrix products, on Amaranth's simulator."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from headrace.hw.config import Config
from headrace.hw.matmul.array import SystolicArray


SIZES = [(1, 1), (2, 2), (3, 5), (4, 8), (8, 4)]


def config_of(rows, cols, **sizes):
    return Config(rows=rows, cols=cols, **{"ring_bytes": 65536, **sizes})


def run(config, passes):
    """Stream `passes` of ``(q[r, k], w[k, c], used)`` without a gap that is not needed."""
    dut = SystolicArray(config)
    rows, cols = config.rows, config.cols
    expected = []
    for q, w, used in passes:
        sums = q @ w
        expected += [(*sums[r].tolist(), int(q[r].sum())) for r in range(used)]
    seen = []

    async def drive(ctx):
        gap = 0
        for q, w, used in passes:
            k = q.shape[1]
            # The last products of two passes are as far apart as the former has rows.
            ctx.set(dut.valid, 0)
            for _ in range(max(0, gap - k)):
                await ctx.tick()
            gap = used
            for i in range(k):
                ctx.set(dut.valid, 1)
                ctx.set(dut.last, int(i == k - 1))
                ctx.set(dut.used, used)
                ctx.set(dut.acts, (q[:, i] & 255).tolist())
                ctx.set(dut.weights, (w[i] & 255).tolist())
                await ctx.tick()
        ctx.set(dut.valid, 0)
        await ctx.tick().repeat(rows + 4)

    async def watch(ctx):
        async for _, _, valid, sums, act_sum in ctx.tick().sample(dut.o_valid, dut.o, dut.o_acts):
            if valid:
                seen.append((*(int(sums[c]) for c in range(cols)), act_sum))

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

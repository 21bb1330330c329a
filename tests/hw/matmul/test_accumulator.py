"""The accumulator against NumPy, on Amaranth's simulator: rows as dense as they can come."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from headrace.hw.config import Config
from headrace.hw.matmul.accumulator import Accumulator
from headrace.sw.numerics import as_bits, from_fp16

from .model import accumulate


CONFIGS = {
    "1 column": Config(rows=1, cols=1, ring_bytes=4096, streams=8),
    "2 lanes": Config(rows=3, cols=6, lanes=2, ring_bytes=8192, streams=8),
}

#: Tiles of 16 to 64 columns in up to so many column groups; the last have rows of so many words
#: that they leave before they have entered.
FOLDED = {
    4: Config(rows=1, cols=128, lanes=8, ring_bytes=32768, streams=4, chunk_positions=4),
    2: Config(rows=1, cols=100, lanes=2, ring_bytes=32768, streams=4, chunk_positions=4),
}


def make(config, streams, groups, seed, *, words):
    """Rows ``(fields, sums, act_sum, scales, minima)`` and the result of each last one.

    Rows of less than `col_words` words belong to narrow tiles; their sums come in column groups,
    with anything in the columns behind.
    """
    rng = np.random.default_rng(seed)
    cols = words * config.lanes
    narrow, fold = 0, 1
    if cols < config.cols:
        narrow, fold = config.sub_select(cols), config.fold(cols)
    rows, results = [], []
    acc = None
    for g in range(groups):
        q = rng.integers(-127, 128, (streams, 32))
        w = rng.integers(-128, 128, (32, cols))
        act, rescale, row_scale = rng.standard_normal((3, streams)).astype(np.float32)
        scales, minima = rng.standard_normal((2, cols)).astype(np.float16).view(np.uint16)
        affine = bool(g % 2)
        acc = accumulate(acc, q, act, w, from_fp16(scales), rescale,
                         from_fp16(minima) if affine else None)
        last = g == groups - 1
        for s in range(streams):
            fields = {
                "addr": s * words, "words": words, "act_scale": int(as_bits(act[s])),
                "rescale": int(as_bits(rescale[s])), "row_scale": int(as_bits(row_scale[s])),
                "first": int(g == 0), "last": int(last), "scores": streams % 2, "scaled": 1,
                "affine": int(affine),
                **({"narrow": narrow} if config.folds > 1 else {})}
            sums = rng.integers(-1000, 1000, config.cols)
            sums[:fold * cols] = np.concatenate([q[s, j::fold] @ w[j::fold] for j in range(fold)])
            rows.append((fields, sums.tolist(), int(q[s].sum()), scales, minima))
            if last:
                scale = None if streams % 2 else fields["row_scale"]
                results += [(tuple(as_bits(acc[s]).tolist()[i:i + config.lanes]), scale)
                            for i in range(0, cols, config.lanes)]
    return rows, results


def run(dut, rows, expected, stall, *, seed=1):
    config = dut.config
    rng = random.Random(seed)
    seen = []
    queue = list(rows)
    lanes = config.lanes
    stopped = 0

    async def drive(ctx):
        nonlocal stopped
        while len(seen) < len(expected):
            opened = rng.random() >= stall
            ctx.set(dut.results.ready, int(opened))
            ctx.set(dut.scores.ready, int(opened))
            ctx.set(dut.row_valid, int(bool(queue)))
            if len(queue) > 1:
                ctx.set(dut.following, queue[1][0]["addr"])
            if queue:
                fields, sums, act_sum, scales, minima = queue[0]
                ctx.set(dut.row, fields)
                ctx.set(dut.sums, sums)
                ctx.set(dut.act_sum, act_sum)
                word = ctx.get(dut.word) if len(dut.word) else 0
                part = slice(word * lanes, (word + 1) * lanes)
                ctx.set(dut.scales, scales[part].tolist())
                ctx.set(dut.minima, minima[part].tolist())
            if opened and ctx.get(dut.results.valid):
                payload = ctx.get(dut.results.payload)
                seen.append((tuple(payload.values[i] for i in range(lanes)), payload.row_scale))
            if opened and ctx.get(dut.scores.valid):
                payload = ctx.get(dut.scores.payload)
                seen.append((tuple(payload[i] for i in range(lanes)), None))
            taken = ctx.get(dut.take)
            await ctx.tick()
            stopped += 1
            assert stopped < 40 * (len(rows) + 10) * config.col_words, "it stands still"
            if taken:
                queue.pop(0)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(drive)
    sim.run()
    assert seen == expected
    assert not queue
    return stopped


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_word_in_flight_is_not_read(name, stall):
    """Rows return to the same storage sooner than the pipeline has written it."""
    config = CONFIGS[name]
    rows, results = [], []
    for streams in range(1, config.streams + 1):
        for part, into in zip(make(config, streams, 4, streams, words=config.col_words),
                              (rows, results)):
            into.extend(part)
    run(Accumulator(config), rows, results, stall)


def test_full_rows_take_one_cycle_per_word():
    """As many words as the loop is long: no cycle is lost between groups."""
    config = CONFIGS["2 lanes"]
    dut = Accumulator(config)
    streams = 6
    assert streams * config.col_words >= dut.loop
    rows, results = make(config, streams, 8, 3, words=config.col_words)
    cycles = run(dut, rows, results, 0.0)
    assert cycles <= len(rows) * config.col_words + dut.latency + 4


def test_narrow_rows():
    """Fewer columns than the array has, as in attention."""
    config = CONFIGS["2 lanes"]
    rows, results = make(config, 4, 5, 9, words=2)
    run(Accumulator(config), rows, results, 0.3)


@pytest.mark.parametrize("folds", FOLDED)
def test_column_groups_are_added(folds):
    """Rows of every width follow each other."""
    config = FOLDED[folds]
    assert config.folds == folds
    rows, results = [], []
    for n in (config.cols, 32, 16, 64, 16, 32, 64, config.cols):
        words = n // config.lanes
        for part, into in zip(make(config, 2, 2, n, words=words), (rows, results)):
            into.extend(part)
    run(Accumulator(config), rows, results, 0.2)

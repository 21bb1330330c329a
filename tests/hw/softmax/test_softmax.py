"""Softmax pipeline against its NumPy model, on Amaranth's simulator."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from headrace.hw.config import Config
from headrace.hw.softmax import Softmax
from headrace.hw.softmax.frame import Delay
from headrace.hw.softmax.schedule import Schedule
from headrace.sw.numerics import as_bits

from .model import expected, make_run


def config_of(**sizes):
    return Config(**{"ring_bytes": 65536, "x_bytes": 65536, "a_bytes": 65536, "streams": 16,
                     **sizes})


CONFIGS = {
    "1 lane": config_of(cols=8, rows=3, lanes=1),
    "1 lane, wider scales": config_of(cols=5, rows=1, lanes=1, softmax_lanes=2),
    "2 lanes": config_of(cols=10, rows=4, lanes=2, softmax_lanes=2),
    "4 lanes": config_of(cols=4, rows=3, lanes=4, softmax_lanes=4),
    "16 lanes": config_of(cols=48, rows=5, lanes=16, softmax_lanes=1),
    "16 lanes, 2 for softmax": config_of(cols=16, rows=2, lanes=16, softmax_lanes=2),
}


class Bench:
    """Feeds blocks, drains P as the matmul unit does, and checks every write."""

    def __init__(self, config, blocks, *, seed=1, stall=0.0, hold=0):
        self.config, self.blocks = config, blocks
        self.stall, self.hold, self.seed = stall, hold, seed
        self.dut = Softmax(config)
        self.results = []
        self.busy = self.cycles = 0
        self.max_unfreed = 0

    async def feed(self, ctx, port, words, rng):
        for word in words:
            while rng.random() < self.stall:
                await ctx.tick()
            ctx.set(port.payload, word)
            ctx.set(port.valid, 1)
            await ctx.tick().until(port.ready)
            ctx.set(port.valid, 0)

    async def feed_blocks(self, ctx):
        await self.feed(ctx, self.dut.blocks, [b.fields for b in self.blocks],
                        random.Random(self.seed))

    async def feed_scores(self, ctx):
        lanes, k_cols = self.config.lanes, self.config.k_cols
        words = [as_bits(block.scores[s, t:t + lanes]).tolist()
                 for block in self.blocks for tile in range(0, 32, k_cols)
                 for s in range(block.fields["streams"])
                 for t in range(tile, tile + k_cols, lanes)]
        await self.feed(ctx, self.dut.scores, words, random.Random(self.seed + 1))

    async def feed_scales(self, ctx):
        n = self.config.softmax_lanes
        scales = np.concatenate([np.concatenate([b.k_scales, b.v_scales]) for b in self.blocks])
        await self.feed(ctx, self.dut.kv_scales, scales.reshape(-1, n).tolist(),
                        random.Random(self.seed + 2))

    async def drain(self, ctx):
        config, write, rows = self.config, self.dut.p_write, self.config.rows
        p, factors, buffer, unfreed = {}, {}, 0, []
        per_row = 32 // config.lanes
        limit = 2000 + 600 * sum(b.fields["streams"] + 2 for b in self.blocks)
        limit = limit * (1 + int(4 * self.stall)) + self.hold * len(self.blocks)
        for cycle in range(limit):
            ctx.set(self.dut.p_free, 0)
            if unfreed and unfreed[0] + self.hold <= cycle:
                unfreed.pop(0)
                ctx.set(self.dut.p_free, 1)
            self.busy += ctx.get(self.dut.events.busy)
            assert ctx.get(self.dut.events.busy) + ctx.get(self.dut.events.idle) == 1
            self.cycles += 1
            p_en, scale_en, done = (ctx.get(x) for x in (write.p_en, write.scale_en, write.done))
            if p_en or scale_en or done:
                assert ctx.get(write.buffer) == buffer
            if p_en:
                row_set, word = divmod(ctx.get(write.p_addr), per_row)
                stream = row_set * rows + ctx.get(write.p_row)
                data = ctx.get(write.p_data)
                for lane in range(config.lanes):
                    key = (stream, word * config.lanes + lane)
                    assert key not in p, f"written twice: {key}"
                    p[key] = data[lane]
            if scale_en:
                stream = ctx.get(write.stream)
                assert stream not in factors
                factors[stream] = tuple(ctx.get(write.scale[name])
                                        for name in ("act_scale", "rescale", "inv_sum"))
            if done:
                self.results.append((p, factors))
                p, factors, buffer = {}, {}, 1 - buffer
                unfreed.append(cycle + 1)
                self.max_unfreed = max(self.max_unfreed, len(unfreed))
                assert len(unfreed) <= 2
            if len(self.results) == len(self.blocks) and not unfreed:
                return
            await ctx.tick()
        raise AssertionError(f"{len(self.results)} of {len(self.blocks)} blocks in {limit} cycles")

    def run(self):
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        for process in (self.feed_blocks, self.feed_scores, self.feed_scales):
            simulator.add_process(process) if False else simulator.add_testbench(
                process, background=True)
        simulator.add_testbench(self.drain)
        simulator.run()
        for number, (block, (p, factors), want) in enumerate(
                zip(self.blocks, self.results, expected(self.blocks), strict=True)):
            q, act_scale, rescale, inv_sum = want
            streams = block.fields["streams"]
            assert set(p) == {(s, t) for s in range(streams) for t in range(32)}
            got = np.array([[p[s, t] for t in range(32)] for s in range(streams)], np.uint8)
            got_factors = np.array([factors[s] for s in range(streams)], np.uint32)
            assert sorted(factors) == list(range(streams))
            for name, have, must in (
                    ("act_scale", got_factors[:, 0], act_scale),
                    ("rescale", got_factors[:, 1], rescale),
                    ("inv_sum", got_factors[:, 2], inv_sum), ("q", got.view(np.int8), q)):
                np.testing.assert_array_equal(have, must, err_msg=f"block {number}: {name}")
        return self


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_blocks_match_the_model(name, stall):
    rng = np.random.default_rng(7)
    # A chunk of a prefill within one block, then one that crosses a block: early streams see
    # nothing of the last block. Then a decode step.
    blocks = [
        *make_run(rng, heads=1, streams=6, n_rep=2, position=0),
        *make_run(rng, heads=2, streams=15, n_rep=3, position=29, wild=True),
        *make_run(rng, heads=2, streams=3, n_rep=3, position=95),
    ]
    bench = Bench(CONFIGS[name], blocks, seed=int(10 * stall), stall=stall).run()
    assert len(bench.results) == 1 + 4 + 6


@pytest.mark.parametrize("name", ["1 lane", "4 lanes"])
def test_one_stream_waits_for_its_own_state(name):
    blocks = make_run(np.random.default_rng(3), heads=2, streams=1, n_rep=1, position=130)
    Bench(CONFIGS[name], blocks).run()


@pytest.mark.parametrize("name", ["2 lanes", "16 lanes"])
def test_no_write_into_a_buffer_that_is_not_free(name):
    blocks = make_run(np.random.default_rng(4), heads=1, streams=2, n_rep=2, position=200)
    bench = Bench(CONFIGS[name], blocks, hold=700).run()
    assert bench.max_unfreed == 2


def test_infinity_and_nan_among_visible_scores():
    blocks = make_run(np.random.default_rng(5), heads=1, streams=4, n_rep=4, position=70)
    blocks[0].scores[0, 3] = np.nan
    blocks[1].scores[1, 5] = np.inf
    blocks[1].scores[2, :] = -np.inf
    blocks[0].scores[3, :] = -np.inf
    Bench(CONFIGS["1 lane"], blocks).run()


@pytest.mark.parametrize("name", CONFIGS)
def test_one_score_per_lane_and_cycle_less_one_slot_per_stream(name):
    config = CONFIGS[name]
    schedule = Schedule(config)
    blocks = make_run(np.random.default_rng(6), heads=1, streams=16, n_rep=4, position=96)
    bench = Bench(config, blocks).run()
    frames = sum(b.fields["streams"] for b in blocks)
    fill = 2 * (schedule.frames + 1) * schedule.frame
    # With one score per cycle from the accumulator the blocks take turns with the pipeline.
    words = 16 * 32 // config.lanes
    assert bench.cycles <= max(frames * schedule.frame, (len(blocks)) * (words + 4)) + words + fill


def test_schedule_keeps_half_a_score_per_cycle_for_one_stream():
    for config in CONFIGS.values():
        schedule = Schedule(config)
        assert 32 / (schedule.gap * schedule.frame) / schedule.lanes > 0.4
        assert schedule.factors <= schedule.q + schedule.steps - 2


def test_delay_refuses_less_than_two_cycles():
    with pytest.raises(ValueError, match="at least 2 cycles, not 1"):
        Delay(8, 1)

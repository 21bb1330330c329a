"""Bench of the softmax pipeline: every stream stalls, every write is compared."""

import random
from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from headrace.hw.config import Config
from headrace.hw.interfaces import BlockLayout, PWriteSignature
from headrace.hw.softmax.schedule import Schedule
from headrace.sim.testbench import parameters, start
from headrace.sw.numerics import as_bits

from .model import expected
from .scenarios import make


class Source:
    """Drives a stream with words as integers."""

    def __init__(self, dut, name, words, pace):
        self.valid, self.ready = getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.queue, self.pace, self.offered = deque(words), pace, False
        self.valid.value = 0

    def step(self):
        if self.offered and self.ready.value:
            self.queue.popleft()
            self.offered = False
        if not self.offered and self.queue and self.pace():
            self.payload.value = self.queue[0]
            self.offered = True
        self.valid.value = int(self.offered)


def join(values, bits):
    """One integer from values, the first one lowest."""
    return sum(int(value) << bits * i for i, value in enumerate(values))


def sources(dut, config, blocks, pace):
    lanes, k_cols = config.lanes, config.k_cols
    scores = [join(as_bits(block.scores[s, t:t + lanes]), 32)
              for block in blocks for tile in range(0, 32, k_cols)
              for s in range(block.fields["streams"])
              for t in range(tile, tile + k_cols, lanes)]
    scales = np.concatenate([np.concatenate([b.k_scales, b.v_scales]) for b in blocks])
    return (Source(dut, "blocks", [BlockLayout.const(b.fields).as_bits() for b in blocks], pace),
            Source(dut, "scores", scores, pace),
            Source(dut, "kv_scales", [join(word, 16) for word in
                                      scales.reshape(-1, config.softmax_lanes)], pace))


class Sink:
    """Takes what is written, and compares each block when it is done."""

    def __init__(self, dut, config, blocks, hold):
        self.config, self.hold = config, hold
        layout = PWriteSignature(config).members
        # Ports of width 0 do not exist.
        self.ports = {name: getattr(dut, f"p_write__{name}", None) for name in layout}
        self.p_free = dut.p_free
        self.blocks, self.wanted = blocks, expected(blocks)
        self.p, self.factors, self.number, self.unfreed = {}, {}, 0, []
        self.most_unfreed = 0
        self.p_free.value = 0

    def value(self, name):
        port = self.ports[name]
        return 0 if port is None else int(port.value)

    def step(self, cycle):
        config = self.config
        p_en, scale_en, done = (self.value(name) for name in ("p_en", "scale_en", "done"))
        if p_en or scale_en or done:
            assert self.value("buffer") == self.number % config.p_buffers
            assert len(self.unfreed) < config.p_buffers, "a write without a free buffer"
        if p_en:
            row_set, word = divmod(self.value("p_addr"), 32 // config.lanes)
            stream = row_set * config.rows + self.value("p_row")
            data = self.value("p_data").to_bytes(config.lanes, "little")
            for lane in range(config.lanes):
                key = (stream, word * config.lanes + lane)
                assert key not in self.p, f"written twice: {key}"
                self.p[key] = data[lane]
        if scale_en:
            stream = self.value("stream")
            assert stream not in self.factors
            scale = self.value("scale")
            self.factors[stream] = [scale >> 32 * i & 0xffffffff for i in range(3)]
        if done:
            self.check()
            self.p, self.factors, self.number = {}, {}, self.number + 1
            self.unfreed.append(cycle + 1)
            self.most_unfreed = max(self.most_unfreed, len(self.unfreed))
        free = bool(self.unfreed) and self.unfreed[0] + self.hold <= cycle
        if free:
            self.unfreed.pop(0)
        self.p_free.value = int(free)

    def check(self):
        q, *factors = self.wanted[self.number]
        streams = self.blocks[self.number].fields["streams"]
        assert set(self.p) == {(s, t) for s in range(streams) for t in range(32)}
        assert sorted(self.factors) == list(range(streams))
        got = np.array([[self.p[s, t] for t in range(32)] for s in range(streams)], np.uint8)
        np.testing.assert_array_equal(got.view(np.int8), q, err_msg=f"block {self.number}: q")
        have = np.array([self.factors[s] for s in range(streams)], np.uint32)
        for index, name in enumerate(("act_scale", "rescale", "inv_sum")):
            np.testing.assert_array_equal(have[:, index], factors[index],
                                          err_msg=f"block {self.number}: {name}")


@cocotb.test()
async def blocks_match_the_model(dut):
    options = parameters()
    config = Config(**options["config"])
    blocks = make(options["scenario"], options["seed"])
    rng = random.Random(options["seed"])
    stall = options["stall"]

    def pace():
        return rng.random() >= stall

    inputs = sources(dut, config, blocks, pace)
    sink = Sink(dut, config, blocks, options["hold"])
    await start(dut, max_cycles=options["max_cycles"])
    cycle = busy = 0
    while sink.number < len(blocks) or sink.unfreed:
        await RisingEdge(dut.clk)
        for source in inputs:
            source.step()
        sink.step(cycle)
        busy += dut.events.value.to_unsigned() == 1
        assert dut.events.value.to_unsigned() in (1, 2)
        cycle += 1

    if options["hold"]:
        assert sink.most_unfreed == config.p_buffers
    schedule = Schedule(config)
    frames = sum(max(block.fields["streams"], schedule.gap) for block in blocks)
    fill = 2 * (schedule.frames + 1) * schedule.frame
    dut._log.info("%d cycles, %d busy, %d in frames", cycle, busy, frames * schedule.frame)
    if options["bounded"]:
        # Limited by the pipeline, by the scores, or by the buffers of P, which a block holds from
        # its start until it is freed: whichever is slower.
        words = max(block.fields["streams"] for block in blocks) * 32 // config.lanes
        limit = max(frames * schedule.frame, len(blocks) * (words + 4),
                    len(blocks) * (max(block.fields["streams"] for block in blocks) * schedule.frame
                                   + schedule.done + 4) / config.p_buffers)
        assert cycle <= limit + words + fill

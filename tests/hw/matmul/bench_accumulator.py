"""Bench of the accumulator: rows come and results go at random times."""

import random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from headrace.hw.config import Config
from headrace.hw.matmul.layouts import RowLayout
from headrace.sim.testbench import parameters, start

from .model import pack
from .test_accumulator import make


@cocotb.test()
async def rows_are_added_up(dut):
    given = parameters()
    config = Config(**given["config"])
    rng = random.Random(given["seed"])
    lanes, layout = config.lanes, RowLayout(config)
    rows, expected = [], []
    for streams in range(1, config.streams + 1):
        for part, into in zip(make(config, streams, 4, given["seed"] + streams,
                                   words=config.col_words), (rows, expected)):
            into.extend(part)
    if given["spoil"]:
        fields, sums, act_sum, scales, minima = rows[-1]
        rows[-1] = (fields, [sums[0] ^ 1 << 8, *sums[1:]], act_sum, scales, minima)

    dut.row_valid.value = 0
    dut.results__ready.value = dut.scores__ready.value = 0
    await start(dut)
    taken = seen = 0
    offered = False
    for cycle in range(40 * len(rows) * config.col_words):
        # In the second half of a cycle `word` has settled, and its scales can follow it.
        await FallingEdge(dut.clk)
        offered = offered or (taken < len(rows) and rng.random() >= given["stall"])
        dut.row_valid.value = int(offered)
        following = min(taken + offered, len(rows) - 1)
        dut.following.value = rows[following][0]["addr"]
        if offered:
            fields, sums, act_sum, scales, minima = rows[taken]
            word = int(dut.word.value) if hasattr(dut, "word") else 0
            part = slice(word * lanes, (word + 1) * lanes)
            dut.row.value = layout.const(fields).as_bits()
            dut.sums.value = pack(sums, config.sum_bits)
            dut.act_sum.value = act_sum
            dut.scales.value = pack(scales[part], 16)
            dut.minima.value = pack(minima[part], 16)
        else:
            for name in ("row", "sums", "scales", "minima"):
                handle = getattr(dut, name)
                handle.value = rng.getrandbits(len(handle))
        ready = {name: rng.random() >= given["stall"] for name in ("results", "scores")}
        for name, value in ready.items():
            getattr(dut, f"{name}__ready").value = int(value)

        await RisingEdge(dut.clk)
        for name, value in ready.items():
            if value and getattr(dut, f"{name}__valid").value:
                payload = int(getattr(dut, f"{name}__payload").value)
                assert seen < len(expected), f"cycle {cycle}: more results than expected"
                values, scale = expected[seen]
                assert (name == "scores") == (scale is None), f"result {seen} comes in {name}"
                wanted = pack(values, 32) | (scale or 0) << 32 * lanes
                assert payload == wanted, f"result {seen}: {payload:#x}, not {wanted:#x}"
                seen += 1
        if offered and dut.take.value:
            taken, offered = taken + 1, False
        if seen == len(expected):
            break
    assert (taken, seen) == (len(rows), len(expected)), "it stands still"

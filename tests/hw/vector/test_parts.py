"""Parts of the vector unit on their own, on Amaranth's simulator."""

import random

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from headrace.hw.vector.argmax import ArgMax
from headrace.hw.vector.delay import Delay
from headrace.sw.numerics import from_bits

from .model import EXTREMES


def simulate(dut, bench):
    m = Module()
    m.domains.sync = ClockDomain()      # a delay of 0 has no use for it
    m.submodules.dut = dut
    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()


def test_delay_must_not_be_negative():
    with pytest.raises(ValueError, match="stages must be at least 0, not -1"):
        Delay(8, -1)


@pytest.mark.parametrize("stages", [0, 1, Delay.registers, Delay.registers + 1, 17])
def test_delay(stages):
    dut = Delay(8, stages)
    values = random.Random(stages).choices(range(256), k=80)

    async def bench(ctx):
        for time, value in enumerate(values):
            ctx.set(dut.i, value)
            if time >= stages:
                assert ctx.get(dut.o) == values[time - stages]
            await ctx.tick()

    simulate(dut, bench)


def chosen(bits):
    """The scan in NumPy."""
    row = from_bits(bits)
    best = 0
    for index in range(1, len(row)):
        if row[index] > row[best]:
            best = index
    return best


NAN, INF, MINUS_INF, MINUS_ZERO = 0x7fc00000, 0x7f800000, 0xff800000, 0x80000000
ROWS = {
    "NaN first": [NAN, INF, 0x3f800000],
    "NaN later": [0xbf800000, NAN, 0xffffffff, 0xbf000000],
    "all NaN": [NAN] * 5,
    "minus infinity, then NaN": [MINUS_INF, NAN, MINUS_INF],
    "minus infinity, then lowest": [MINUS_INF, 0xff7fffff, 0xff7fffff],
    "zeros": [MINUS_ZERO, 0, MINUS_ZERO],
    "below zero": [0xc0000000, MINUS_ZERO, 0],
    "ties": [0x3f800000, 0x40000000, 0x40000000],
    "infinities": [0, INF, INF, NAN],
    "one column": [0x12345678],
}


@pytest.mark.parametrize("lanes", [1, 2, 4, 16])
def test_argmax(lanes):
    rng = np.random.default_rng(lanes)
    rows = [np.array(row, np.uint32) for row in ROWS.values()]
    for length in (3, 17, 33, 48):
        rows.append(rng.choice(EXTREMES[[0, 1, 4, 5, 6, 7, 8, 9, 11, 12]], size=length))
        rows.append(rng.integers(0, 1 << 32, length, dtype=np.uint32))
        rows.append(np.sort(rng.normal(size=length).astype(np.float32)).view(np.uint32))
    dut = ArgMax(lanes)

    async def bench(ctx):
        for row in rows:
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for column in range(0, len(row), lanes):
                if rng.random() < 0.3:
                    ctx.set(dut.valid, 0)
                    ctx.set(dut.values[0], INF)
                    await ctx.tick()
                ctx.set(dut.valid, 1)
                ctx.set(dut.column, column)
                for lane in range(lanes):
                    inside = column + lane < len(row)
                    # Lanes that do not take part hold the greatest number.
                    ctx.set(dut.values[lane], int(row[column + lane]) if inside else INF)
                ctx.set(dut.mask, sum(1 << lane for lane in range(lanes)
                                      if column + lane < len(row)))
                await ctx.tick()
            ctx.set(dut.valid, 0)
            await ctx.tick().repeat(dut.latency - 1)
            assert ctx.get(dut.index) == chosen(row), [hex(bits) for bits in row]

    simulate(dut, bench)

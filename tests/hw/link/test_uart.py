"""Receiver and transmitter against a host that counts its own bit times."""

import random

import pytest
from amaranth.sim import Simulator

from headrace.hw.config import ConfigError
from headrace.hw.link.uart import Receiver, Transmitter, rate_step
from tests.hw.link.far_side import listen, send


@pytest.mark.parametrize("clk_hz, baud, text", [
    (1_000_000, 300_000, "uart_baud must be between 1 and clk_hz / 4 = 250000, not 300000"),
    (1_000_000, 0, "not 0"),
    (1_000_000_000, 10, "too slow for a clock of 1000000000 Hz"),
])
def test_refused_rates(clk_hz, baud, text):
    with pytest.raises(ConfigError, match=text):
        rate_step(clk_hz, baud)


# The host's clock is off by up to 2 %, in both directions, and the ratio is no whole number.
@pytest.mark.parametrize("ratio, drift", [(4, 1), (4.34, 1), (5.5, 1.02), (16, 0.98), (27.1, 1.02)])
def test_bytes(ratio, drift):
    dice = random.Random(int(ratio * 100))
    step = rate_step(1_000_000, round(1_000_000 / ratio))
    data = bytes([0, 255, 0x55, 0xaa, 1, 128, *dice.randbytes(20)])

    receiver, got = Receiver(step), bytearray()

    async def feed(ctx):
        ctx.set(receiver.pin, 1)
        await ctx.tick().repeat(20)
        await send(ctx, receiver.pin, data, ratio * drift)
        await ctx.tick().repeat(int(20 * ratio))

    async def take(ctx):
        ctx.set(receiver.o.ready, 1)
        async for _, _, valid, payload, framing, overrun in ctx.tick().sample(
                receiver.o.valid, receiver.o.payload, receiver.framing, receiver.overrun):
            assert not framing and not overrun
            if valid:
                got.append(payload)

    simulator = Simulator(receiver)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed)
    simulator.add_testbench(take, background=True)
    simulator.run()
    assert bytes(got) == data

    transmitter, heard = Transmitter(step), bytearray()

    async def give(ctx):
        for byte in data:
            ctx.set(transmitter.i.payload, byte)
            ctx.set(transmitter.i.valid, 1)
            await ctx.tick().until(transmitter.i.ready)
            if byte & 1:                 # now and then the line rests
                ctx.set(transmitter.i.valid, 0)
                await ctx.tick().repeat(int(11 * ratio))
        ctx.set(transmitter.i.valid, 0)
        await ctx.tick().repeat(int(12 * ratio))

    simulator = Simulator(transmitter)
    simulator.add_clock(1e-6)
    simulator.add_testbench(give)
    simulator.add_testbench(listen(transmitter.pin, heard, ratio), background=True)
    simulator.run()
    assert bytes(heard) == data


def test_faults():
    """A short low is no start bit, a byte without stop bit is dropped, a lost one is counted."""
    ratio = 8
    receiver = Receiver(rate_step(1_000_000, 125_000))
    got, framing, overrun = [], 0, 0

    async def feed(ctx):
        ctx.set(receiver.pin, 1)
        await ctx.tick().repeat(20)
        ctx.set(receiver.pin, 0)
        await ctx.tick().repeat(2)
        ctx.set(receiver.pin, 1)
        await ctx.tick().repeat(3 * ratio)
        await send(ctx, receiver.pin, b"\x11", ratio)
        await ctx.tick().repeat(ratio)
        ctx.set(receiver.o.ready, 1)
        await ctx.tick()
        ctx.set(receiver.o.ready, 0)
        await send(ctx, receiver.pin, b"\x22", ratio, stop=0)
        # A line that stays low, as of a cable that is pulled, is no stream of zeros.
        ctx.set(receiver.pin, 0)
        await ctx.tick().repeat(40 * ratio)
        ctx.set(receiver.pin, 1)
        await ctx.tick().repeat(2 * ratio)
        await send(ctx, receiver.pin, b"\x33\x44", ratio)
        await ctx.tick().repeat(2 * ratio)
        ctx.set(receiver.o.ready, 1)
        await ctx.tick()

    async def watch(ctx):
        nonlocal framing, overrun
        async for _, _, valid, ready, payload, f, o in ctx.tick().sample(
                receiver.o.valid, receiver.o.ready, receiver.o.payload, receiver.framing,
                receiver.overrun):
            framing += f
            overrun += o
            if valid and ready:
                got.append(payload)

    simulator = Simulator(receiver)
    simulator.add_clock(1e-6)
    simulator.add_testbench(feed)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    assert (got, framing, overrun) == ([0x11, 0x44], 1, 1)

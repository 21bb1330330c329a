"""Bridges between AXI4 ports of different widths, against an array of bytes."""

import contextlib
import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from headrace.hw.bridge import Narrow, Widen, make_bridge


SIZE = 4096
MAX_CYCLES = 20_000


def test_bad_widths():
    with pytest.raises(ValueError, match="64 bits to 64: the first must be the second times a "
                                         "power of two above 1"):
        Narrow(32, 64, 32, 64, max_beats=16)
    with pytest.raises(ValueError, match="64 bits to 32: the second must be"):
        Widen(32, 64, 32, 32)
    with pytest.raises(ValueError, match="bursts of 128 beats of 128 bits have 512 of 32: AXI4 "
                                         "allows 256; make burst_beats at most 64"):
        make_bridge(32, 128, 32, 32, max_beats=128)


class Finished(Exception):
    """The initiator is done; the far side waits for nothing more."""


class Bench:
    """Random bursts from one side, a memory of bytes that answers in order on the other."""

    def __init__(self, i_bits, o_bits, seed, stalls):
        self.dut = make_bridge(40, i_bits, 16, o_bits, max_beats=32, outstanding=4)
        self.rng = random.Random(seed)
        self.stalls = stalls
        self.beat, self.far = i_bits // 8, o_bits // 8
        self.memory = bytearray(self.rng.randbytes(SIZE))
        self.expected = bytearray(self.memory)
        self.done = 0

    async def handshake(self, ctx, condition, *values):
        for _ in range(MAX_CYCLES):
            _, _, there, *found = await ctx.tick().sample(condition, *values)
            if there:
                return found
            if self.done:
                raise Finished
        raise AssertionError(f"no handshake in {MAX_CYCLES} cycles")

    async def send(self, ctx, port, channel, **payload):
        while self.rng.random() < self.stalls:
            await ctx.tick()
        for name, value in payload.items():
            ctx.set(getattr(port, channel + name), value)
        ctx.set(getattr(port, f"{channel}valid"), 1)
        await self.handshake(ctx, getattr(port, f"{channel}ready"))
        ctx.set(getattr(port, f"{channel}valid"), 0)

    async def receive(self, ctx, port, channel, *names):
        while self.rng.random() < self.stalls:
            await ctx.tick()
        ctx.set(getattr(port, f"{channel}ready"), 1)
        values = await self.handshake(ctx, getattr(port, f"{channel}valid"),
                                      *(getattr(port, channel + name) for name in names))
        ctx.set(getattr(port, f"{channel}ready"), 0)
        return values

    def burst(self):
        beats = self.rng.choice((1, 1, 2, 3, 5, 16, 32))
        room = SIZE // self.beat - beats
        return self.rng.randrange(room + 1) * self.beat, beats

    async def initiate(self, ctx):
        """One burst after the other, writes and reads of what was written."""
        i, size = self.dut.i, self.beat.bit_length() - 1
        for index in range(60):
            addr, beats = self.burst()
            ident = self.rng.randrange(8)
            # Bits above the memory's address are dropped.
            high = self.rng.randrange(1 << 8) << 32
            common = {"addr": addr | high, "len": beats - 1, "size": size, "burst": 1,
                      "id": ident}
            if index % 2:
                await self.send(ctx, i, "ar", **common)
                for beat in range(beats):
                    data, got, resp, last = await self.receive(ctx, i, "r", "data", "id", "resp",
                                                               "last")
                    place = addr + beat * self.beat
                    assert data.to_bytes(self.beat, "little") == \
                        self.expected[place:place + self.beat]
                    assert (got, resp, last) == (ident, self.response(place), beat == beats - 1)
            else:
                await self.send(ctx, i, "aw", **common)
                for beat in range(beats):
                    data = self.rng.randbytes(self.beat)
                    strb = self.rng.choice((0, (1 << self.beat) - 1,
                                            self.rng.getrandbits(self.beat)))
                    for byte in range(self.beat):
                        if strb >> byte & 1:
                            self.expected[addr + beat * self.beat + byte] = data[byte]
                    await self.send(ctx, i, "w", data=int.from_bytes(data, "little"), strb=strb,
                                    last=int(beat == beats - 1))
                assert await self.receive(ctx, i, "b", "id", "resp") == [ident, 0]
                assert self.memory == self.expected
        self.done += 1

    def response(self, place):
        """Reads of the third kilobyte end with SLVERR where any part of the beat lies in it."""
        width = max(self.beat, self.far)
        begin = place // width * width
        return 2 if begin < 3072 and begin + width > 2048 else 0

    async def answer_reads(self, ctx):
        with contextlib.suppress(Finished):
            while True:
                await self.answer_read(ctx, self.dut.o)

    async def answer_read(self, ctx, o):
        addr, length, size, burst, ident = await self.receive(
            ctx, o, "ar", "addr", "len", "size", "burst", "id")
        assert (1 << size, burst, addr % self.far) == (self.far, 1, 0)
        for beat in range(length + 1):
            place = addr + beat * self.far
            assert place + self.far <= SIZE
            part = self.memory[place:place + self.far]
            await self.send(ctx, o, "r", data=int.from_bytes(part, "little"), id=ident,
                            resp=2 if 2048 <= place < 3072 else 0, last=int(beat == length))

    async def answer_writes(self, ctx):
        with contextlib.suppress(Finished):
            while True:
                await self.answer_write(ctx, self.dut.o)

    async def answer_write(self, ctx, o):
        addr, length, size, burst, ident = await self.receive(
            ctx, o, "aw", "addr", "len", "size", "burst", "id")
        assert (1 << size, burst, addr % self.far) == (self.far, 1, 0)
        for beat in range(length + 1):
            data, strb, last = await self.receive(ctx, o, "w", "data", "strb", "last")
            assert last == (beat == length)
            for byte, value in enumerate(data.to_bytes(self.far, "little")):
                if strb >> byte & 1:
                    self.memory[addr + beat * self.far + byte] = value
        await self.send(ctx, o, "b", id=ident, resp=0)

    def run(self):
        # Wires alone have no clock.
        top = Module()
        top.submodules.dut = self.dut
        top.d.sync += Signal().eq(1)
        simulator = Simulator(top)
        simulator.add_clock(1e-6)
        for process in self.processes:
            simulator.add_testbench(process)
        simulator.run()
        assert self.done == 1

    @property
    def processes(self):
        return self.initiate, self.answer_reads, self.answer_writes


@pytest.mark.parametrize("stalls", (0.0, 0.4))
@pytest.mark.parametrize("i_bits, o_bits", ((32, 32), (32, 16), (64, 16), (32, 64), (64, 128),
                                            (32, 256)))
def test_bursts(i_bits, o_bits, stalls):
    Bench(i_bits, o_bits, seed=i_bits * 1000 + o_bits, stalls=stalls).run()


class Pipelined(Bench):
    """Reads one after the other without a pause: the bridge must not lose a cycle per burst."""

    async def initiate(self, ctx):
        i, size = self.dut.i, self.beat.bit_length() - 1
        for index in range(20):
            await self.send(ctx, i, "ar", addr=index * 64, len=64 // self.beat - 1, size=size,
                            burst=1, id=0)

    async def collect(self, ctx):
        for index in range(20 * 64 // self.beat):
            data, = await self.receive(ctx, self.dut.i, "r", "data")
            place = index * self.beat
            assert data.to_bytes(self.beat, "little") == self.memory[place:place + self.beat]
        self.done += 1

    @property
    def processes(self):
        return self.initiate, self.collect, self.answer_reads


@pytest.mark.parametrize("i_bits, o_bits", ((32, 16), (64, 128)))
def test_reads_in_flight(i_bits, o_bits):
    Pipelined(i_bits, o_bits, seed=1, stalls=0.2).run()

"""Bench of the K/V buffer against an array of bytes: random bursts, writes, strobes and stalls."""

import random
from collections import deque

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge

from headrace.hw.config import Config
from headrace.sim.testbench import parameters, start


ORIGIN = 0x1_2345_6780


class Bench:
    """The design, and what its SRAM must hold: a version of each word since each of its writes."""

    def __init__(self, dut, config, seed):
        self.dut, self.size = dut, config.port_bytes
        self.rng = random.Random(seed)
        self.depth = config.kv_bytes // self.size
        self.contents = np.zeros((self.depth, self.size), np.uint8)
        self.versions = [[] for _ in range(self.depth)]     # (cycle of the write, word)
        self.cycle = 0
        self.burst = None
        self.asked = deque()                                # (cycle of the request, word)
        self.checked, self.came = 0, []
        layout = {"addr": config.addr_bits, "beats": 8}
        self.beats_at = layout["addr"]
        dut.origin.value = ORIGIN
        dut.request__valid.value = 0
        dut.o__ready.value = 0
        dut.write_strb.value = 0

    def addr(self, word):
        return ORIGIN + self.size * word

    def write(self, word, strobes):
        data = self.rng.randbytes(self.size)
        self.dut.write_addr.value = self.addr(word)
        self.dut.write_data.value = int.from_bytes(data, "little")
        self.dut.write_strb.value = strobes
        for i in range(self.size):
            if strobes >> i & 1:
                self.contents[word, i] = data[i]
        if strobes:
            value = int.from_bytes(self.contents[word].tobytes(), "little")
            self.versions[word].append((self.cycle, value))

    def allowed(self, since, word):
        """Values that the word had at some time from `since` until now."""
        versions = self.versions[word]
        ends = [*(begin for begin, _ in versions[1:]), self.cycle + 1]
        return [value for (_, value), end in zip(versions, ends) if end >= since]

    async def step(self, *, write=None, burst=None, ready=True):
        """One cycle; returns whether the burst was taken."""
        dut = self.dut
        await FallingEdge(dut.clk)
        if write is None:
            dut.write_addr.value = self.addr(self.rng.randrange(self.depth))
            dut.write_strb.value = 0
        else:
            self.write(*write)
        dut.request__valid.value = int(burst is not None)
        if burst is not None:
            dut.request__payload.value = self.addr(burst[0]) | burst[1] - 1 << self.beats_at
        dut.o__ready.value = int(ready)
        await RisingEdge(dut.clk)
        if ready and dut.o__valid.value:
            assert self.asked, "data that nobody asked for"
            since, word = self.asked.popleft()
            value, allowed = int(dut.o__payload.value), self.allowed(since, word)
            assert value in allowed, f"word {word} is {value:#x}, not in {allowed}"
            self.checked += 1
            self.came.append(self.cycle)
        taken = burst is not None and bool(dut.request__ready.value)
        if taken:
            self.asked.extend((self.cycle, burst[0] + i) for i in range(burst[1]))
        self.cycle += 1
        return taken

    def random_burst(self, most=256):
        first = self.rng.randrange(self.depth)
        return first, self.rng.randint(1, min(most, self.depth - first))

    async def fill(self):
        # Undefined until written: at first as a whole, then in part.
        for word in range(self.depth):
            await self.step(write=(word, (1 << self.size) - 1))
        for _ in range(2 * self.depth):
            await self.step(write=(self.rng.randrange(self.depth),
                                   self.rng.getrandbits(self.size)))

    async def drain(self):
        for _ in range(4 * len(self.asked) + 20):
            await self.step()
        assert not self.asked, f"{len(self.asked)} words never came"


async def begin(dut):
    given = parameters()
    bench = Bench(dut, Config(**given["config"]), given["seed"])
    await start(dut, max_cycles=20_000)
    await bench.fill()
    return bench, given["stall"]


@cocotb.test()
async def bursts_follow_each_other(dut):
    """Contents are exact; the first beat comes 4 cycles after its request, then one per cycle."""
    bench, _ = await begin(dut)
    bursts = [bench.random_burst() for _ in range(40)]
    first = bench.cycle
    for burst in bursts:
        for _ in range(1000):
            if await bench.step(burst=burst):
                break
        else:
            raise AssertionError("a burst is never taken")
    await bench.drain()
    beats = sum(length for _, length in bursts)
    assert bench.came == list(range(first + 4, first + 4 + beats))


@cocotb.test()
async def reads_and_writes_with_stalls(dut):
    """Each word that is read was its value at some time since its burst was asked."""
    bench, stall = await begin(dut)
    rng, burst = bench.rng, None
    # Few words are written, so that writes meet the reads of the same word.
    busy = min(bench.depth, 3)
    for _ in range(3000):
        if burst is None and rng.random() >= stall:
            burst = bench.random_burst(8)
        write = None
        if rng.random() < 0.6:
            write = rng.randrange(busy), rng.getrandbits(bench.size)
        if await bench.step(write=write, burst=burst, ready=rng.random() >= stall):
            burst = None
    await bench.drain()
    assert bench.checked > 500


@cocotb.test()
async def writes_that_ended_are_read(dut):
    """A word that is asked after its last write is exactly that, under stalls as well."""
    bench, stall = await begin(dut)
    rng = bench.rng
    for _ in range(60):
        first, length = bench.random_burst(4)
        for word in range(first, first + length):
            await bench.step(write=(word, rng.getrandbits(bench.size)))
        for _ in range(1000):
            if await bench.step(burst=(first, length), ready=rng.random() >= stall):
                break
        else:
            raise AssertionError("a burst is never taken")
        # Later writes to other words only.
        for _ in range(rng.randrange(6)):
            word = rng.randrange(bench.depth)
            write = None if first <= word < first + length else (word, (1 << bench.size) - 1)
            await bench.step(write=write, ready=rng.random() >= stall)
        await bench.drain()

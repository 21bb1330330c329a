"""Bench of the memory system against cocotbext-axi's RAM, every stream and channel stalling."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiRam

from headrace.sim.testbench import parameters, start

from .harness import INPUTS, OUTPUTS
from .model import same
from .scenario import BASE, CONFIGS, HEAD_DIM, SIZE, UNITS, Scenario, everything, fill


class Bench:
    """The design, the RAM, and a scenario whose streams are driven cycle by cycle."""

    def __init__(self, dut, scenario, stall):
        self.dut, self.scenario, self.stall = dut, scenario, stall
        self.received = {name: [] for name in OUTPUTS}
        self.ring = 0
        self.cycles = 0
        self.offered = set()
        self.open = set()
        for name in INPUTS:
            getattr(dut, f"{name}__valid").value = 0
        for name in OUTPUTS:
            getattr(dut, f"{name}__ready").value = 0
        for name in ("base", "kv_base", "kv_pinned"):
            getattr(dut, name).value = scenario.harness.constants[name]
        for name in ("appended", "reset", "freed"):
            getattr(dut, name).value = 0

    async def start(self):
        bus = AxiBus.from_prefix(self.dut, "axi", bus_separator="__")
        self.ram = AxiRam(bus, self.dut.clk, self.dut.rst, size=SIZE)
        self.ram.write(0, self.scenario.harness.memory.tobytes())
        channels = (self.ram.write_if.aw_channel, self.ram.write_if.w_channel,
                    self.ram.write_if.b_channel, self.ram.read_if.ar_channel,
                    self.ram.read_if.r_channel)
        for channel in channels:
            channel.set_pause_generator(iter(lambda: random.random() < self.stall, None))
        await start(self.dut, max_cycles=60_000)

    def go(self):
        return random.random() >= self.stall

    async def step(self):
        await RisingEdge(self.dut.clk)
        dut = self.dut
        self.cycles += 1
        for name in INPUTS:
            queue = self.scenario.harness.send[name]
            if name in self.offered and getattr(dut, f"{name}__ready").value:
                queue.popleft()
                self.offered.discard(name)
                getattr(dut, f"{name}__valid").value = 0
            if name not in self.offered and queue and self.go():
                self.offered.add(name)
                getattr(dut, f"{name}__payload").value = queue[0]
                getattr(dut, f"{name}__valid").value = 1
        for name in OUTPUTS:
            if name in self.open and getattr(dut, f"{name}__valid").value:
                self.received[name].append(int(getattr(dut, f"{name}__payload").value))
                self.ring += name == "weights"
            ready = name == "weights" or self.go()
            (self.open.add if ready else self.open.discard)(name)
            getattr(dut, f"{name}__ready").value = int(ready)
        assert self.ring <= self.scenario.config.ring_words
        freed = min(self.ring, random.randrange(3))
        self.ring -= freed
        dut.freed.value = freed

    async def run(self, limit):
        """Step until everything came back, with the *appended* token once all is written."""
        expected = self.scenario.expected
        tokens = sum(name == "appended" for name in self.scenario.harness.pulses) or 1
        quiet = 0
        for _ in range(limit):
            await self.step()
            idle = (not any(self.scenario.harness.send.values()) and not self.offered
                    and bool(self.dut.write_idle.value))
            self.dut.appended.value = int(idle and tokens > 0)
            tokens -= idle
            done = idle and all(len(self.received[name]) >= len(expected[name])
                                for name in OUTPUTS)
            quiet = quiet + 1 if done else 0
            if quiet > 10:
                return
        raise AssertionError(f"not done after {limit} cycles")


async def run(dut, prepare, limit=20000, **options):
    given = parameters()
    scenario = Scenario(CONFIGS[given["config"]], seed=given["seed"], **options)
    prepare(scenario)
    bench = Bench(dut, scenario, given["stall"])
    await bench.start()
    await bench.run(limit)
    for name in OUTPUTS:
        assert same(bench.received[name], scenario.expected[name]), name
    memory = np.frombuffer(bench.ram.read(0, SIZE), np.uint8)
    assert (memory == scenario.model.memory).all(), "memory differs"


@cocotb.test()
async def everything_at_once(dut):
    await run(dut, everything)


@cocotb.test()
async def appends_then_attention(dut):
    def prepare(scenario):
        fill(scenario, 2, range(33))
        scenario.attn(BASE, 2 * UNITS, 2, HEAD_DIM, 0, 33, token=False)
        scenario.matmul(3, 20)

    await run(dut, prepare, kv_base=BASE, kv_pinned=2 * UNITS)


@cocotb.test()
async def long_stream(dut):
    def prepare(scenario):
        for part in range(4):
            scenario.matmul(1000 * part, 300 + part)
        for index, elems in enumerate((1, 16, 150)):
            scenario.linear(3700 + 20 * index, elems)       # behind all weights

    await run(dut, prepare)

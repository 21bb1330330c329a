"""The cache: its buffer on chip, and reads that must not overtake appends."""

import random

import pytest
from amaranth.sim import Simulator

from headrace.hw.config import Config
from headrace.hw.memory.kv_buffer import KVBuffer

from .scenario import BASE, CONFIGS, HEAD_DIM, UNITS, Scenario, fill


def release(scenario, then=None, idle="append_idle"):
    """Give the *appended* token when all appends can be read, or all writes are acknowledged."""
    done = []

    def look(harness, now):
        if harness.sent and now[idle] and not done and harness.cycle > 20:
            harness.pulses.append("appended")
            done.append(harness.cycle)
            if then is not None:
                then()

    scenario.harness.on_cycle = look
    return done


@pytest.mark.parametrize("name", ["tiny", "edge", "wide", "3x5"])
def test_pinned_part_is_read_from_the_buffer(name):
    # One block of each of two heads is pinned, the second is not. Once appended, the far
    # side's copy of the pinned part is destroyed: nothing of it may be read.
    config = CONFIGS[name]
    pinned = 2 * UNITS
    assert 64 * pinned <= config.kv_bytes or name == "3x5"
    if name == "3x5":
        config = Config(rows=3, cols=5, port_bits=64, ring_bytes=4096, kv_bytes=64 * pinned)
    scenario = Scenario(config, stall=0.1, base=4096, kv_base=BASE, kv_pinned=pinned)
    fill(scenario, 2, range(33))
    scenario.attn(BASE, pinned, 2, HEAD_DIM, 0, 33, token=False)
    scenario.matmul(3, 20)
    start = 4096 + 64 * BASE

    def destroy():
        for memory in (scenario.harness.memory, scenario.model.memory):
            memory[start:start + 64 * pinned] = 0xee

    release(scenario, destroy, idle="write_idle")
    harness = scenario.settle(limit=30000)
    assert harness.stats["kv_hit_stb"] * config.port_bytes == 2 * 64 * UNITS
    assert harness.stats["kv_miss_stb"] * config.port_bytes == 2 * 64 * UNITS
    assert harness.stats["port_wait_dependency"]


@pytest.mark.parametrize("latency", [2, 150])
def test_read_ahead_fetches_the_block_before_the_append_has_landed(latency):
    scenario = Scenario(CONFIGS["edge"], latency=latency, stall=0.1, kv_base=BASE)
    fill(scenario, 1, range(62, 70))
    scenario.attn(BASE, UNITS, 1, HEAD_DIM, 62, 8, token=False)
    scenario.matmul(7, 9)
    done = release(scenario)
    harness = scenario.settle()
    assert done and harness.stats["port_wait_dependency"]


@pytest.mark.parametrize("pinned", [0, 1, 2])
def test_pinned_appends_can_be_read_before_they_are_acknowledged(pinned):
    # A block of each of two heads, some of them pinned; memory answers late.
    scenario = Scenario(CONFIGS["edge"], latency=150, kv_base=BASE, kv_pinned=pinned * UNITS)
    fill(scenario, 2, range(32))
    scenario.attn(BASE, 2 * UNITS, 2, HEAD_DIM, 0, 32, token=False)
    done = release(scenario)
    give, acknowledged = scenario.harness.on_cycle, []

    def look(harness, now):
        give(harness, now)
        if harness.sent and now["write_idle"] and harness.cycle > 20:
            acknowledged.append(harness.cycle)

    scenario.harness.on_cycle = look
    scenario.settle()
    if pinned == 2:
        assert done[0] < acknowledged[0] - 100
    else:
        assert done[0] == acknowledged[0]


def test_one_token_for_each_attention():
    # Tokens may come before their ATTN; each ATTN takes one, and older blocks need none.
    scenario = Scenario(CONFIGS["edge"])
    for layer in range(3):
        scenario.attn(100 + 200 * layer, UNITS, 1, HEAD_DIM, 40, 8, token=False)
    harness = scenario.harness
    harness.pulses += ["appended", "appended"]
    reached = []

    def look(harness, now):
        if harness.cycle == 600:
            # Two whole and the first block of the third: its scales and its K tile.
            part = len(scenario.expected["kv_scales"]) // 3
            reached.append(len(harness.received["kv_scales"]) == 2 * part + part // 2)
            assert now["port_wait_dependency"]
            harness.pulses.append("appended")

    harness.on_cycle = look
    scenario.settle()
    assert reached == [True]


@pytest.mark.parametrize("kv_bytes", [64, 192])
def test_reading_while_writing_the_same_word(kv_bytes):
    """Each word that is read was the word's value at some time since its burst was asked."""
    config = Config(port_bits=64, cols=16, kv_bytes=kv_bytes)
    depth = kv_bytes // 8
    dut = KVBuffer(config)
    rng = random.Random(5)
    origin = 0x12340
    history = {word: [(0, None)] for word in range(depth)}     # (cycle, value)
    asked = []                                                 # (cycle, word)
    checked = 0

    async def bench(ctx):
        nonlocal checked
        ctx.set(dut.origin, origin)
        request = None
        for cycle in range(1, 1500):
            write = rng.random() < 0.7 or cycle <= depth
            word = cycle - 1 if cycle <= depth else rng.randrange(min(depth, 3))
            value = rng.getrandbits(64)
            ctx.set(dut.write_addr, origin + 8 * word)
            ctx.set(dut.write_data, value)
            ctx.set(dut.write_strb, 0xff if write else 0)
            if request is None and cycle > depth and rng.random() < 0.5:
                first = rng.randrange(depth)
                request = (first, rng.randrange(depth - first))
                ctx.set(dut.request.payload, {"addr": origin + 8 * first, "beats": request[1]})
            ctx.set(dut.request.valid, request is not None)
            ctx.set(dut.o.ready, rng.random() < 0.6)
            _, _, taken, valid, data = await ctx.tick().sample(
                dut.request.ready, dut.o.valid & dut.o.ready, dut.o.payload)
            if write:
                history[word].append((cycle, value))
            if valid:
                since, word = asked.pop(0)
                times = history[word]
                recent = [value for (_, value), (end, _) in
                          zip(times, [*times[1:], (cycle + 1, None)]) if end >= since]
                assert data in recent
                checked += 1
            if request is not None and taken:
                asked.extend((cycle, request[0] + n) for n in range(request[1] + 1))
                request = None

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    assert checked > 300


def test_write_is_seen_by_the_read_of_the_next_cycle():
    config = Config(port_bits=32, kv_bytes=64)
    dut = KVBuffer(config)
    found = []

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        for delay in range(6):
            ctx.set(dut.request.payload, {"addr": 8, "beats": 0})
            ctx.set(dut.request.valid, 1)
            await ctx.tick()
            ctx.set(dut.request.valid, 0)
            last = None
            for cycle in range(10):
                # A write in every cycle up to `delay` holds the read back, as it is the same word.
                ctx.set(dut.write_addr, 8)
                ctx.set(dut.write_data, 100 * delay + cycle)
                ctx.set(dut.write_strb, 0xf if cycle <= delay else 0)
                _, _, valid, data = await ctx.tick().sample(dut.o.valid, dut.o.payload)
                if valid:
                    last = data
            found.append(last)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    assert found[3:] == [303, 404, 505]

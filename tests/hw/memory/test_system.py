"""Memory system in Amaranth's simulator: data, order, speed, and faults of other DMA engines."""

import pytest

from headrace.hw.config import PRESETS, Config
from headrace.hw.memory.layouts import STREAM_BEATS

from .scenario import CONFIGS, Scenario, everything, v_select


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS)
def config(request):
    return request.param


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_everything_at_once(config, stall):
    scenario = Scenario(config, stall=stall, seed=7, latency=9)
    everything(scenario)
    scenario.settle()
    assert scenario.harness.stats["port_busy"]


def test_order_of_the_cache(config):
    # One head in blocks 0 and 1, then two heads; the position decides the number of blocks.
    scenario = Scenario(config, stall=0.2, drain=0.8)
    scenario.attn(100, 40, 1, 16, 31, 1)
    if config.cols > 1:             # a word of one byte per cycle would take long
        scenario.attn(300, 36, 2, 16, 32, 33)
    scenario.attn(700, 66, 1, 32, 0, 1)
    scenario.settle()


@pytest.mark.parametrize("lead", [2, 3, 7])
def test_order_of_the_cache_with_a_lead(lead):
    # More blocks than the lead, as many, fewer, one; a head of one block; weights in between.
    config = Config(rows=3, cols=5, port_bits=64, ring_bytes=1088, outstanding=2, attn_lead=lead)
    scenario = Scenario(config, stall=0.3, seed=lead)
    scenario.attn(300, 54, 3, 16, 64, 31)
    scenario.attn(100, 36, 1, 16, 31 * lead - 2, 1)
    scenario.matmul(3, 9)
    scenario.attn(500, 36, 2, 16, 0, 1)
    scenario.attn(700, 66, 1, 32, 0, 1)
    scenario.settle(limit=20000)


@pytest.mark.parametrize("name", CONFIGS)
def test_strobes_wrong_for_narrow_writes_on_wide_buses(name):
    config = CONFIGS[name]
    scenario = Scenario(config, stall=0.3, seed=4)
    for token in (0, 1, 2, 7, 30, 31):
        for value in (0, 1):
            scenario.append(100 + 40 * (token % 3), token, value, 16, v_select(config, 16))
    scenario.append(300, 5, 0, 48)
    scenario.append(300, 5, 1, 48, v_select(config, 48))
    for elems in (1, 2, 3, 15, 16, 17):
        scenario.linear(500 + 4 * elems, elems)
    for lane in range(16):
        scenario.single(64 * 1000 + 132 * lane, 0xf00d0000 | lane)
    scenario.settle()


def test_burst_crosses_4_kib():
    # The longest bursts, from each place before a boundary, over every multiple of 4 KiB.
    config = Config(cols=32, port_bits=128, burst_beats=256, ring_bytes=65536)
    scenario = Scenario(config, base=4096)
    for first in (0, 1, 61, 62, 63, 64):
        scenario.matmul(first, 3 * 4096 // config.stride)
    scenario.matmul(5, (16 * 4096 - 64) // config.stride)
    harness = scenario.settle()
    crossed = {addr >> 12 for kind, addr, *_ in harness.history if kind == "ar"}
    assert len(crossed) == 17
    assert max(beats for _, _, beats, _ in harness.history) == 256


def test_burst_of_exactly_4096_bytes():
    config = Config(cols=128, port_bits=512, lanes=4, ring_bytes=65536, burst_beats=64)
    scenario = Scenario(config)
    scenario.matmul(0, 128)
    scenario.matmul(1, 128)
    harness = scenario.settle()
    assert 64 in {beats for _, _, beats, _ in harness.history}


def test_zero_length(config):
    scenario = Scenario(config)
    scenario.matmul(5, 0)
    scenario.fetch(5, 0)
    scenario.request(64, 0)
    scenario.norm(8, 0)
    scenario.linear(64, 0)
    harness = scenario.settle(extra=60)
    assert harness.history == []
    # A zero-length piece must not be remembered either.
    scenario = Scenario(config)
    scenario.matmul(5, 0)
    scenario.matmul(6, 3)
    scenario.linear(64, 0)
    scenario.linear(65, 3)
    scenario.settle()


@pytest.mark.parametrize("outstanding", [1, 2, 5])
@pytest.mark.parametrize("burst_beats", [1, 3, 256])
def test_stuck_after_some_hundred_beats(outstanding, burst_beats):
    config = Config(cols=16, port_bits=64, outstanding=outstanding, burst_beats=burst_beats,
                    ring_bytes=4096)
    scenario = Scenario(config, stall=0.1, latency=3, seed=outstanding)
    scenario.matmul(3, 70)
    scenario.attn(1000, 18, 1, 16, 40, 1)
    scenario.norm(60, 128)
    scenario.linear(500, 41)
    harness = scenario.settle()
    assert harness.most_reads <= outstanding


def test_silent_far_side():
    config = Config(outstanding=4, burst_beats=8)
    scenario = Scenario(config)
    harness = scenario.harness
    everything(scenario)
    for addr in range(20):
        scenario.single(64 * (1000 + addr), addr)
    harness.silent = True

    def wake(harness, now):
        if harness.cycle == 1500:
            assert harness.most_reads == harness.most_writes == 4
            assert not now["write_idle"]
            harness.silent = False

    harness.on_cycle = wake
    scenario.settle()


def test_stray_burst_when_a_buffer_fills_exactly():
    config = Config(ring_bytes=2048, burst_beats=64)
    scenario = Scenario(config)
    scenario.harness.blocked.add("weights")
    scenario.matmul(0, config.ring_words)
    scenario.matmul(64, config.ring_words)

    def look(harness, now):
        if harness.cycle == 1400:
            assert harness.ring == config.ring_words
            assert harness.bytes_read["weights"] == config.ring_bytes
            assert now["port_buffer_full"]
            harness.blocked.clear()

    scenario.harness.on_cycle = look
    scenario.settle()


def test_blocked_streams_are_overtaken():
    # Nothing takes weights, tables or scales: the program and requests still arrive.
    scenario = Scenario(Config(ring_bytes=2048))
    harness = scenario.harness
    harness.blocked |= {"weights", "tables", "kv_scales"}
    scenario.matmul(0, 600)
    scenario.attn(1000, 18, 1, 16, 0, 1)
    for table in range(6):
        scenario.norm(20 * table, 256)
    late = []

    def look(harness, now):
        if harness.cycle == 2000:
            scenario.fetch(5, 20)
            scenario.request(64, 256)
            scenario.request(68, 4)
            late.append(len(scenario.expected["request_data"]))
        if late and len(harness.received["request_data"]) == late[0]:
            if len(harness.received["instructions"]) == 20:
                harness.blocked.clear()

    harness.on_cycle = look
    scenario.settle()
    assert late


@pytest.mark.parametrize("latency", [3, 90])
def test_done_before_the_last_write_response(latency):
    scenario = Scenario(Config(), latency=latency)
    scenario.append(100, 3, 0, 16)
    scenario.linear(200, 9)
    scenario.single(64 * 300, 5)
    seen = []

    def look(harness, now):
        if now["write_idle"] and harness.sent:
            assert not harness.owed
            assert (harness.memory == scenario.model.memory).all()
            seen.append(harness.cycle)

    scenario.harness.on_cycle = look
    scenario.settle()
    assert seen


def test_address_is_accepted_after_data():
    # A far side may want WVALID before it raises AWREADY.
    scenario = Scenario(Config())
    harness = scenario.harness
    original = harness._write_side

    def shy(now, updates):
        original(now, updates)
        updates["awready"] = int(bool(now["wvalid"] or harness.write_beats)
                                 and now["awvalid"] and not now["awready"])
        updates["wready"] = int(not harness.write_beats and not now["wready"])

    harness._write_side = shy
    scenario.linear(100, 40)
    scenario.append(300, 1, 1, 32, 0)
    scenario.settle()


def test_first_command_is_special():
    for command in ("matmul", "fetch", "linear"):
        scenario = Scenario(CONFIGS["edge"], base=0x3000)
        getattr(scenario, command)(64, 1)
        harness = scenario.settle()
        assert harness.history[0][1] == 0x3000 + 64 * 64


@pytest.mark.parametrize("port_bits", [32, 512])
def test_lengths_of_one_to_four_beats(port_bits):
    config = Config(port_bits=port_bits, ring_bytes=2048, cols=4)
    scenario = Scenario(config, stall=0.2)
    words = config.port_bytes // config.stride or 1
    for length in range(1, 4 * words + 2):
        scenario.matmul(3 * length, length)
    for count in range(1, 6):
        scenario.fetch(count, count)
    for addr in range(16):
        scenario.request(4092 + 4 * addr, 4)
    scenario.settle()


def test_port_never_idles():
    """Sequential reads with 60 cycles of latency: beats in 99 % of the cycles."""
    for name in ("tiny", "edge"):
        config = PRESETS[name]
        scenario = Scenario(config, latency=60, drain=2.0)
        words = 6000 * config.port_bytes // config.stride // 8
        for part in range(8):
            scenario.matmul(part * (words * config.stride // 64), words)
        harness = scenario.settle()
        beats = sum(scenario.model.beats.values())
        cycles = harness.last_beat - harness.first_beat + 1
        print(f"{name}: {beats} beats in {cycles} cycles, {beats / cycles:.2%}")
        assert beats / cycles >= 0.99


def test_tables_do_not_wait_behind_a_deep_queue_of_weights():
    """The far side answers in order: what is in flight is the latency of everything else."""
    scenario = Scenario(PRESETS["edge"], latency=60)
    scenario.matmul(0, 3000)
    harness, asked, latency = scenario.harness, 600, []

    def look(harness, now):
        if harness.cycle == asked:
            scenario.norm(200, 64)
        if harness.received["tables"] and not latency:
            latency.append(harness.cycle - asked)

    harness.on_cycle = look
    scenario.settle()
    assert STREAM_BEATS // 2 < latency[0] < STREAM_BEATS + 64 + 60
    beats = sum(scenario.model.beats.values())
    assert beats / (harness.last_beat - harness.first_beat + 1) >= 0.99


def test_cache_stream_never_idles():
    config = PRESETS["edge"]
    scenario = Scenario(config, latency=60, drain=1.0)
    scenario.attn(0, 34, 1, 32, 900, 1)
    harness = scenario.settle()
    beats = sum(scenario.model.beats.values())
    cycles = harness.last_beat - harness.first_beat + 1
    print(f"cache: {beats} beats in {cycles} cycles, {beats / cycles:.2%}")
    assert beats / cycles >= 0.99

"""The timing model of DRAM: every rule, the controller's order, clocks, efficiency, data."""

import dataclasses
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.sim import dram_report
from headrace.sim.dram import DRAMS, Dram, find_dram
from headrace.sim.memory import MemoryOptions, ProtocolViolation
from headrace.sim.traffic import Traffic
from headrace.sw.cli.machine import memory_options, sequential_cycles
from headrace.sw.errors import HeadraceError
from tests.sim.dram_rules import broken_rules
from tests.sim.hosts import copy


#: One access per beat, one clock of the memory per cycle, nothing on the way.
PLAIN = dataclasses.replace(DRAMS["ddr3-1600-x16"], name="plain", controller=0, refi=0, fold=False)
BUS = PLAIN.access_bytes
SPACE = 1 << 24


def _place(dram: Dram, bank: int = 0, row: int = 0, column: int = 0) -> int:
    shifts = dram.shifts
    return bank << shifts["bank"] | row << shifts["row"] | column << shifts["column"]


@pytest.fixture
def master():
    """Make a Traffic on a DRAM, by default with equal clocks; closed after the test."""
    opened = []

    def make(dram: Dram, bus_bytes: int = BUS, clk_hz: int | None = None, storage=None, **options):
        if storage is None:
            storage = np.zeros(SPACE, np.uint8)
        traffic = Traffic(storage, bus_bytes, MemoryOptions(
            dram=dram, clk_hz=clk_hz or int(dram.clock_hz), **options))
        opened.append(traffic)
        return traffic

    yield make
    for traffic in opened:
        traffic.close()


def _issued(traffic, *names: str) -> list[int]:
    return [command.clock for command in traffic.commands if command.name in names]


# Arguments.

@pytest.mark.parametrize("options, message", [
    ({"dram": "ddr5", "clk_hz": 1}, "no DRAM 'ddr5': expected one of ddr3-1600-x16, ddr4-"),
    ({"dram": "sdr-133-x16"}, "memory option clk_hz is missing: the timing of a DRAM needs the"),
    ({"dram": PLAIN, "clk_hz": 1, "latency": 5}, "memory option latency is 5, but belongs to the "
                                                 "ideal memory"),
    ({"dram": PLAIN, "clk_hz": 1, "bandwidth": 0.5}, "memory option bandwidth is 0.5, but belongs"),
    ({"clk_hz": 0}, "memory option clk_hz is 0, must be from 1 to"),
])
def test_bad_options(options, message):
    with pytest.raises(HeadraceError) as caught:
        MemoryOptions(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("changes, message", [
    ({"rcd": -1}, "DRAM plain: rcd is -1, must be a whole number from 0"),
    ({"mapping": ("bank", "row", "group", "column")}, "DRAM plain: mapping is bank row group "
                                                      "column, must be row and then"),
    ({"banks": 6}, "DRAM plain: banks is 6, must be a power of two"),
    ({"banks": 128}, "DRAM plain: expected at most 64 banks"),
    ({"interleaved": 2}, "DRAM plain: interleaved is 2, but there are 1 bank groups"),
    ({"ccd_l": 3}, "DRAM plain: ccd is 3, less than the 4 clocks of an access"),
    ({"write_high": 65}, "DRAM plain: queues are 64, 128 and 16 < 65 <= 64"),
    ({"clock_hz": Fraction(0)}, "DRAM plain: clock_hz is 0, must be above 0"),
])
def test_bad_drams(changes, message):
    with pytest.raises(HeadraceError) as caught:
        dataclasses.replace(PLAIN, **changes)
    assert str(caught.value).startswith(message)


def test_traffic_is_checked(master):
    traffic = master(PLAIN)
    with pytest.raises(HeadraceError, match=re.escape("data of the bursts is (1, 16) uint8, must be"
                                                      " a contiguous array of (2, 16) uint8")):
        traffic.run([0, 16], data=np.zeros((1, 16), np.uint8))
    with pytest.raises(HeadraceError, match="the bursts did not end within 10 cycles"):
        traffic.run([0], max_cycles=10)
    with pytest.raises(ProtocolViolation, match="alignment: ARADDR must be a multiple of 16"):
        traffic.run([8])


# Presets.

def test_presets_in_clocks():
    """Against the tables of the standards, in clocks."""
    def of(name, *fields):
        return [getattr(DRAMS[name], field) for field in fields]

    names = ("cl", "rcd", "rp", "ras", "rc", "rrd_s", "rrd_l", "faw", "rtp", "wr", "wtr_s", "wtr_l",
             "refi", "rfc")
    assert of("ddr3-1600-x16", *names) == [11, 11, 11, 28, 39, 6, 6, 32, 6, 12, 6, 6, 6240, 128]
    assert of("ddr4-2400-x64", *names) == [16, 16, 16, 39, 55, 4, 6, 26, 9, 18, 3, 9, 9360, 420]
    assert of("ddr4-2400-x64", "ccd_s", "ccd_l") == [4, 6]
    assert of("lpddr4-2400-x16", *names) == [27, 22, 22, 51, 72, 12, 12, 48, 9, 22, 12, 12, 4685,
                                             216]
    assert of("hbm2-pc", *names) == [14, 14, 14, 34, 48, 4, 6, 30, 6, 16, 6, 8, 3900, 260]
    assert of("sdr-133-x16", *names) == [3, 3, 3, 6, 9, 2, 2, 0, 6, 1, 0, 0, 1042, 9]


@pytest.mark.parametrize("name, peak", [
    ("ddr3-1600-x16", 3.2e9), ("ddr4-2400-x64", 19.2e9), ("lpddr4-2400-x16", 4.8e9),
    ("hbm2-pc", 16e9), ("sdr-133-x16", 0.8e9 / 3)])
def test_peaks(name, peak):
    assert float(find_dram(name).peak) == pytest.approx(peak, rel=1e-12)
    bus_bytes, clk_hz = dram_report.PORTS[name]
    assert bus_bytes * clk_hz == pytest.approx(peak, rel=1e-8)


@pytest.mark.parametrize("config, name", [("edge", "ddr3-1600-x16"), ("wide", "ddr4-2400-x64")])
def test_ports_of_configurations_match_their_memories(config, name):
    chosen = PRESETS[config]
    assert chosen.clk_hz * chosen.port_bytes == DRAMS[name].peak


# Hand-made sequences.

def test_row_hit_miss_and_conflict(master):
    traffic = master(PLAIN)
    traffic.record()
    latency = {}
    for name, addr in (("miss", _place(PLAIN)), ("hit", _place(PLAIN, column=5)),
                       ("conflict", _place(PLAIN, row=1)), ("other bank", _place(PLAIN, bank=3))):
        latency[name] = int(traffic.run([addr], idle=100)[0])
    assert latency["miss"] - latency["hit"] == PLAIN.rcd
    assert latency["conflict"] - latency["hit"] == PLAIN.rp + PLAIN.rcd
    assert latency["other bank"] == latency["miss"]
    # Two cycles of the port: the address is taken at the first edge, the beat at the last.
    assert latency["hit"] == PLAIN.cl + PLAIN.burst + 2
    assert [command.name for command in traffic.commands] == [
        "activate", "read", "read", "precharge", "activate", "read", "activate", "read"]
    found = traffic.memory.statistics["dram"]
    assert (found["hits"], found["misses"], found["conflicts"]) == (1, 2, 1)
    assert (found["activates"], found["precharges"], found["reads"]) == (3, 1, 4)


@pytest.mark.parametrize("controller", [0, 1, 24])
def test_controller_delays_reads(master, controller):
    traffic = master(dataclasses.replace(PLAIN, controller=controller))
    assert traffic.run([0])[0] == PLAIN.rcd + PLAIN.cl + PLAIN.burst + 2 + controller


def test_four_activates(master):
    """The fifth ACT waits for the window of the first."""
    traffic = master(PLAIN)
    traffic.record()
    traffic.run([_place(PLAIN, bank=bank) for bank in range(6)])
    clocks = _issued(traffic, "activate")
    assert [clock - clocks[0] for clock in clocks] == [
        0, PLAIN.rrd_s, 2 * PLAIN.rrd_s, 3 * PLAIN.rrd_s, PLAIN.faw, PLAIN.faw + PLAIN.rrd_s]


def test_bank_cycle(master):
    """Rows of one bank: ACT to PRE and ACT to ACT."""
    traffic = master(PLAIN)
    traffic.record()
    traffic.run([_place(PLAIN, row=row) for row in range(3)])
    activates, precharges = _issued(traffic, "activate"), _issued(traffic, "precharge")
    assert np.diff(activates).tolist() == [PLAIN.rc] * 2
    assert (np.array(precharges) - activates[:-1]).tolist() == [PLAIN.ras] * 2


def test_read_to_write(master):
    traffic = master(dataclasses.replace(PLAIN, idle=0))
    traffic.run([_place(PLAIN), _place(PLAIN, bank=1)], idle=100)    # open both rows
    traffic.record()
    traffic.run([_place(PLAIN, column=1), _place(PLAIN, bank=1)], writes=[False, True], idle=100)
    (read,), (write,) = _issued(traffic, "read"), _issued(traffic, "write")
    assert write - read == PLAIN.cl + PLAIN.burst + PLAIN.turn - PLAIN.cwl
    assert traffic.memory.statistics["dram"]["turnarounds"] == 1


def test_write_to_read(master):
    """Writes go on down to the lower level of their queue; then a read waits for tWTR."""
    traffic = master(dataclasses.replace(PLAIN, idle=0, write_high=2, write_low=1))
    traffic.record()
    traffic.run([*(_place(PLAIN, column=column) for column in range(4)), _place(PLAIN, bank=1)],
                writes=[True] * 4 + [False], idle=200)
    (read,), writes = _issued(traffic, "read"), _issued(traffic, "write")
    before = [clock for clock in writes if clock < read]
    assert len(writes) == 4 and len(before) == 3
    assert np.diff(before).tolist() == [PLAIN.ccd_s] * 2
    assert read - before[-1] == PLAIN.cwl + PLAIN.burst + PLAIN.wtr_s
    assert traffic.memory.statistics["dram"]["turnarounds"] == 3


@pytest.mark.parametrize("interleaved, gap", [(1, "ccd_l"), (2, "ccd_s"), (4, "ccd_s")])
def test_bank_groups(master, interleaved, gap):
    dram = dataclasses.replace(DRAMS["ddr4-2400-x64"], interleaved=interleaved, refi=0)
    traffic = master(dram, bus_bytes=64)
    traffic.run(np.arange(16) * 64, idle=200)    # open the rows
    traffic.record()
    traffic.run(np.arange(16) * 64)
    assert set(np.diff(_issued(traffic, "read"))) == {getattr(dram, gap)}


def test_refresh_period(master):
    dram = dataclasses.replace(PLAIN, refi=1000)
    traffic = master(dram)
    traffic.record()
    traffic.run([], idle=10_500)
    assert _issued(traffic, "refresh") == [1000 * index for index in range(1, 11)]
    assert traffic.memory.statistics["dram"]["refreshes"] == 10
    # With traffic it comes a little later, but the period does not drift.
    traffic.reset()
    traffic.record()
    traffic.run(np.arange(30_000 // 4) * BUS)
    clocks = _issued(traffic, "refresh")
    assert len(clocks) >= 30
    late = [clock - 1000 * index for index, clock in enumerate(clocks, 1)]
    assert 0 < min(late) and max(late) <= dram.ras + dram.rp_all
    # Nothing happens during a refresh, and the row must be opened again.
    for clock in clocks[:-1]:
        after = next(each for each in traffic.commands if each.clock > clock)
        assert after.name == "activate" and after.clock == clock + dram.rfc


# The controller.

def test_first_ready_first_served(master):
    """A hit passes an older conflict, another bank passes both; data come in the order asked."""
    storage = np.random.default_rng(1).integers(0, 256, SPACE, np.uint8)
    traffic = master(PLAIN, storage=storage)
    traffic.record()
    addrs = [_place(PLAIN), _place(PLAIN, row=1), _place(PLAIN, column=1), _place(PLAIN, bank=2)]
    data = np.zeros((4, BUS), np.uint8)
    ends = traffic.run(addrs, data=data)
    order = [(each.bank, each.row) for each in traffic.commands if each.name == "read"]
    assert order == [(0, 0), (0, 0), (2, 0), (0, 1)]
    assert (np.diff(ends.astype(int)) > 0).all()
    assert np.array_equal(data, [storage[addr:addr + BUS] for addr in addrs])


def test_nothing_starves(master):
    waits = {}
    for starve in (40, 10_000):
        traffic = master(dataclasses.replace(PLAIN, starve=starve), depth=400)
        traffic.record()
        traffic.run([_place(PLAIN), _place(PLAIN, row=1),
                     *(_place(PLAIN, column=index % 128) for index in range(1, 300))],
                    outstanding=400)
        waits[starve] = next(each.clock for each in traffic.commands if each.row == 1
                             and each.name == "read")
    assert waits[40] < 40 + PLAIN.ras + PLAIN.rp + PLAIN.rcd
    # Without that, the buffer for what comes too early ends it.
    early = (PLAIN.read_buffer - 2) * PLAIN.burst
    assert early < waits[10_000] < early + PLAIN.ras + PLAIN.rp + PLAIN.rcd


def test_reads_from_the_write_queue(master):
    """A read of what waits to be written needs no command; equal writes become one."""
    traffic = master(dataclasses.replace(PLAIN, idle=1000))
    traffic.record()
    data = np.arange(3 * BUS, dtype=np.uint8).reshape(3, BUS)
    traffic.run([32, 64, 32], writes=True, data=data)
    read = np.zeros((1, BUS), np.uint8)
    assert traffic.run([32], data=read)[0] < PLAIN.cl
    assert np.array_equal(read, data[2:])
    found = traffic.memory.statistics["dram"]
    assert (found["forwarded"], found["merged"], found["reads"], found["writes"]) == (1, 1, 0, 0)
    traffic.run([], idle=2000)
    found = traffic.memory.statistics["dram"]
    assert (found["writes"], found["activates"]) == (2, 1)


def test_writes_stall_when_the_queue_is_full(master):
    """Accepted is what the queue holds, the burst that waits for it and no more."""
    dram = dataclasses.replace(PLAIN, write_queue=8, write_high=6, write_low=2)
    traffic = master(dram)
    ends = traffic.run(np.arange(400) * BUS, writes=True)
    assert np.diff(ends[100:].astype(int)).mean() == pytest.approx(PLAIN.burst, rel=0.1)
    assert traffic.memory.statistics["write"]["stalls"] > 300


def test_folded_rows_keep_streams_apart(master):
    """Eight streams whose addresses differ in one bit each fall on different banks."""
    addrs = [index << 21 for index in range(8)]
    banks = {}
    for fold in (False, True):
        traffic = master(dataclasses.replace(PLAIN, fold=fold))
        traffic.record()
        traffic.run(addrs)
        banks[fold] = {each.bank for each in traffic.commands if each.name == "read"}
    assert len(banks[False]) == 1 and len(banks[True]) == 8


@pytest.mark.parametrize("name", DRAMS)
@pytest.mark.parametrize("kind", ["mixed", "writes", "far"])
def test_all_rules_hold(master, name, kind):
    """Random traffic, against the rules as a list of pairs; refreshes keep their period."""
    dram = DRAMS[name]
    bus_bytes, clk_hz = dram_report.PORTS[name]
    rng = np.random.default_rng(len(name))
    count, beats = 1500, max(1, 128 // bus_bytes)
    size = beats * bus_bytes
    # Near: many hits; far: hardly any.
    space = SPACE if kind == "far" else 1 << 18
    addrs = rng.integers(0, space // size, count) * size
    writes = rng.random(count) < {"mixed": 0.3, "writes": 0.9, "far": 0.1}[kind]
    traffic = master(dram, bus_bytes, clk_hz)
    traffic.record()
    traffic.run(addrs, writes=writes, beats=beats)
    commands = traffic.commands
    assert broken_rules(dram, commands) == []
    found = traffic.memory.statistics["dram"]
    assert found["hits"] + found["misses"] + found["conflicts"] == found["reads"] + found["writes"]
    counted = {"activates": ("activate",), "reads": ("read",), "writes": ("write",),
               "precharges": ("precharge", "precharge_all"), "refreshes": ("refresh",)}
    for key, names in counted.items():
        assert found[key] == len(_issued(traffic, *names)), key
    accesses = size // dram.access_bytes * int((~writes).sum())
    assert found["reads"] + found["forwarded"] == accesses
    assert found["conflicts"] > 0 and found["hits"] > 0 and found["turnarounds"] > 2
    assert found["refreshes"] == found["clocks"] // dram.refi or (
        found["clocks"] % dram.refi < 200)


def test_the_rules_find_faults(master):
    """Commands issued by one DRAM break the rules of a slower one, each time by name."""
    traffic = master(PLAIN)
    traffic.record()
    rng = np.random.default_rng(0)
    traffic.run(rng.integers(0, 1 << 13, 500) * BUS, writes=rng.random(500) < 0.4)
    assert broken_rules(PLAIN, traffic.commands) == []
    for field in ("rcd", "rp", "ras", "rc", "cl", "cwl", "ccd_s", "rrd_s", "faw", "rtp", "wr",
                  "wtr_s", "turn"):
        slower = dataclasses.replace(PLAIN, **{field: getattr(PLAIN, field) + (
            -1 if field == "cwl" else 1)})
        assert broken_rules(slower, traffic.commands), field


# Clocks.

@pytest.mark.parametrize("name, clk_hz", [
    ("sdr-133-x16", 50_000_000), ("sdr-133-x16", 66_666_667), ("ddr3-1600-x16", 75_000_000),
    ("ddr4-2400-x64", 300_000_000), ("sdr-133-x16", 999_999_937)])
def test_clock_ratio_is_exact(master, name, clk_hz):
    dram = DRAMS[name]
    traffic = master(dram, clk_hz=clk_hz)
    for _ in range(3):
        traffic.run([], idle=123_457)
        found = traffic.memory.statistics
        assert found["dram"]["clocks"] == found["cycles"] * dram.clock_hz // clk_hz


@pytest.mark.parametrize("clk_hz", [50_000_000, 190_000_000, 210_000_000, 400_000_000])
def test_port_and_memory_bind_in_turn(master, clk_hz):
    """16 bytes per cycle, up to the 97.5 % of 3.2 GB/s that the DRAM gives."""
    traffic = master(DRAMS["ddr3-1600-x16"], clk_hz=clk_hz)
    ends = traffic.run(np.arange(4000) * 256, beats=16)
    assert 4000 * 16 / int(ends[-1]) == pytest.approx(min(1, 195e6 / clk_hz), rel=0.01)


# Efficiency.

@pytest.mark.parametrize("name, percent", [("ddr3-1600-x16", 97.3), ("ddr4-2400-x64", 95.3),
                                           ("lpddr4-2400-x16", 95.8), ("hbm2-pc", 92.0)])
def test_sequential_reads(name, percent):
    """Within three points of what one stream reaches in a published simulator."""
    found = dram_report.measure(DRAMS[name], "sequential reads")
    assert abs(100 * found.fraction - percent) < 3
    assert found.statistics["hits"] > 0.96 * found.statistics["reads"]


def test_table_of_the_page():
    page = Path(__file__).parents[2] / "docs" / "dram.md"
    assert dram_report.table() in page.read_text(encoding="utf-8"), \
        "run: python -m headrace.sim.dram_report"


# Data.

@pytest.mark.parametrize("name", DRAMS)
def test_data_unchanged(master, name):
    rng = np.random.default_rng(5)
    storage = rng.integers(0, 256, 1 << 16, np.uint8)
    bus_bytes, clk_hz = dram_report.PORTS[name]
    beats = 256 // bus_bytes
    expected = storage.reshape(-1, 256).copy()
    traffic = master(DRAMS[name], bus_bytes, clk_hz, storage=storage)
    # Reads of the upper half while the lower is written, in random order; then everything.
    order = rng.permutation(256)
    writes = order < 128
    data = rng.integers(0, 256, (256, 256), np.uint8)
    sent = data.copy()
    traffic.run(order * 256, writes=writes, beats=beats, data=data)
    assert np.array_equal(data[~writes], expected[order[~writes]])
    expected[order[writes]] = sent[writes]
    assert np.array_equal(storage.reshape(-1, 256), expected)
    traffic.run(order * 256, beats=beats, data=data)
    assert np.array_equal(data, expected[order])


@pytest.mark.parametrize("name", DRAMS)
@pytest.mark.parametrize("bursts, beats", [(40, 1), (17, 4), (5, 16)])
def test_copies(copier, memory, name, bursts, beats):
    simulation = copier(64, dram=name, clk_hz=100_000_000)
    size = 8 * bursts * beats
    expected = memory.copy()
    expected[0x20008:0x20008 + size] = expected[0x1018:0x1018 + size]
    first = copy(simulation, 0x1018, 0x20008, bursts, beats)
    assert first["errors"] == 0
    assert np.array_equal(memory, expected)
    # After a reset time starts over.
    simulation.reset()
    assert copy(simulation, 0x1018, 0x20008, bursts, beats) == first


def test_changed_in_flight(copier, memory):
    """Options may change at any time: bursts in flight are answered, and data stay right."""
    simulation = copier(64)
    expected = memory.copy()
    expected[0x20000:0x28000] = expected[:0x8000]
    simulation.write_csr(4, 0x20000)
    simulation.write_csr(8, 256)
    simulation.write_csr(12, 16)
    simulation.write_csr(16, 1)
    for step in range(40):
        dram = (None, "ddr3-1600-x16", "sdr-133-x16")[step % 3]
        simulation.memory.configure(MemoryOptions(dram=dram, clk_hz=100_000_000))
        simulation.run(97)
    assert simulation.run(200_000)
    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_presets_name_their_dram(preset):
    assert memory_options(preset, "preset") == memory_options(preset, preset.memory)
    assert memory_options(preset, "preset").native["dram_enabled"]


def test_sequential_read():
    edge = PRESETS["edge"]
    size = 1 << 22
    beats = size // edge.port_bytes
    # Address and first beat are a cycle apart from the latency; then there is a beat per cycle.
    assert 60 <= sequential_cycles(edge, "ideal", size) - beats <= 64
    # As the table of efficiencies says: 97.5 % of the peak, which is the port's.
    assert 0.97 < beats / sequential_cycles(edge, "preset", size) < 0.98
    # A burst is whole.
    assert (sequential_cycles(edge, "ideal", 1)
            == sequential_cycles(edge, "ideal", edge.burst_bytes))
    assert sequential_cycles(edge, "ideal", 0) == 0

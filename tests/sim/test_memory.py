"""The AXI memory model: data, timing, order, errors, counts."""

import numpy as np
import pytest

from headrace.sim.memory import Memory, MemoryOptions
from headrace.sw.errors import HeadraceError
from tests.sim.hosts import copy


def steps(simulation, condition, limit=3000):
    """Cycles until the condition on the statistics holds."""
    for cycle in range(limit):
        if condition(simulation.statistics):
            return cycle
        simulation.run(1, until_irq=False)
    raise AssertionError(f"not within {limit} cycles")


@pytest.mark.parametrize("options, message", [
    ({"latency": 0}, "memory option latency is 0, must be from 1 to 1000000"),
    ({"write_latency": 0}, "memory option write_latency is 0, must be from 1 to 1000000"),
    ({"bandwidth": 0}, "memory option bandwidth is 0, must be above 0 and at most 1"),
    ({"bandwidth": 1.5}, "memory option bandwidth is 1.5, must be above 0 and at most 1"),
    ({"stall_probability": 1}, "memory option stall_probability is 1, must be from 0 to 0.95"),
    ({"reorder": "all"}, "memory option reorder is 'all', must be one of none, bursts, beats"),
    ({"max_burst_beats": 257}, "memory option max_burst_beats is 257, must be from 1 to 256"),
])
def test_bad_options(options, message):
    with pytest.raises(HeadraceError) as caught:
        MemoryOptions(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("array, message", [
    (np.zeros(8, np.int8), "memory must be a contiguous one-dimensional array of uint8, not "
                           "1-dimensional int8"),
    (np.zeros((2, 8), np.uint8), "memory must be a contiguous one-dimensional array of uint8"),
    (np.zeros(8, np.uint8)[::2], "memory must be a contiguous one-dimensional array of uint8"),
    (np.frombuffer(bytes(8), np.uint8), "memory is a read-only array"),
])
def test_bad_storage(array, message, copier):
    library = copier()._library
    with pytest.raises(HeadraceError) as caught:
        Memory(library, array, 8)
    assert str(caught.value).startswith(message)


def test_unknown_error_response(copier):
    with pytest.raises(HeadraceError, match="error response 'exokay' is none of slverr, decerr"):
        copier().memory.inject(0, 8, "exokay")


@pytest.mark.parametrize("data_bits", [32, 64, 256])
@pytest.mark.parametrize("options", [
    {}, {"latency": 1}, {"latency": 200, "bandwidth": 0.37}, {"depth": 1},
    {"stall_seed": 1, "stall_probability": 0.1}, {"stall_seed": 2, "stall_probability": 0.9},
    {"stall_seed": 3, "bandwidth": 0.5, "latency": 3, "reorder": "beats"},
])
@pytest.mark.parametrize("bursts, beats", [(1, 1), (40, 1), (17, 4), (5, 16)])
def test_copies(copier, memory, data_bits, options, bursts, beats):
    simulation = copier(data_bits, **options)
    size = bursts * beats * data_bits // 8
    expected = memory.copy()
    expected[0x20000:0x20000 + size] = expected[0x1000:0x1000 + size]
    assert copy(simulation, 0x1000, 0x20000, bursts, beats)["errors"] == 0
    assert np.array_equal(memory, expected)
    found = simulation.statistics
    for direction, ident in (("read", "kv"), ("write", "activations")):
        traffic = found[direction]
        assert traffic["bytes"] == {name: size if name == ident else 0 for name in traffic["bytes"]}
        assert traffic["bursts"][ident] == bursts == sum(traffic["bursts"].values())
        assert traffic["beats"] == bursts * beats
        assert traffic["beats"] + traffic["stalls"] + traffic["idle"] == found["cycles"]
        assert traffic["outstanding"] == 0 < traffic["max_outstanding"] <= 64
        assert traffic["errors"] == 0


def test_copies_at_another_base(copier, memory):
    simulation = copier(base=0x8000_0000)
    expected = memory[0x800:0x900].copy()
    copy(simulation, 0x8000_0800, 0x8000_1000, 2, 16)
    assert np.array_equal(memory[0x1000:0x1100], expected)


@pytest.mark.parametrize("latency", [1, 2, 7, 60, 1000])
def test_read_latency(puppet, latency):
    master = puppet(latency=latency)
    master.accept()
    master.address(False, 0x100)
    steps(master.simulation, lambda found: found["read"]["bursts"]["weights"] == 1)
    assert steps(master.simulation, lambda found: found["read"]["beats"] == 1) == latency


def test_write_latency(puppet):
    waits = {}
    for latency in (10, 11, 60):
        master = puppet(latency=1, write_latency=latency)
        master.accept()
        master.address(True, 0x100)
        master.data()
        assert master.simulation.statistics["write"]["beats"] == 1
        waits[latency] = steps(master.simulation,
                               lambda found: found["write"]["outstanding"] == 0)
    assert waits[11] - waits[10] == 1
    assert waits[60] - waits[10] == 50
    assert 0 < waits[10] <= 10


@pytest.mark.parametrize("bandwidth", [1.0, 0.75, 0.5, 0.1, 1 / 3])
def test_bandwidth(copier, bandwidth):
    simulation = copier(64, latency=1, write_latency=1, bandwidth=bandwidth)
    cycles = copy(simulation, 0, 0x20000, 256, 16)["cycles"]
    assert 4096 / bandwidth - 2 <= cycles
    if bandwidth < 0.6:  # above, the master itself is the limit
        assert cycles < (4096 + 16) / bandwidth + 60  # the last burst is read, then written


def test_a_read_returns_what_was_stored_when_it_was_accepted(puppet, memory):
    master = puppet(latency=50)
    memory[0x100:0x108] = 1
    master.address(False, 0x100)
    master.wait(5)
    memory[0x100:0x108] = 2
    master.accept()
    master.wait()
    assert master.last_data == 0x01010101


def test_a_write_lands_with_its_response(puppet, memory):
    master = puppet(latency=40)
    memory[0x100:0x110] = 9
    master.address(True, 0x100)
    master.data(0x05050505, strobe=0b10100110)
    master.wait(10)
    assert (memory[0x100:0x110] == 9).all()
    master.wait()
    assert memory[0x100:0x110].tolist() == [9, 5, 5, 9, 9, 5, 9, 5] + [9] * 8
    assert master.simulation.statistics["write"]["bytes"]["weights"] == 4


def test_write_data_may_be_taken_before_its_address(puppet):
    master = puppet(latency=1000, depth=1)
    for addr in (0x100, 0x200):
        master.address(True, addr)
        master.data()
    master.wait()
    found = master.simulation.statistics["write"]
    assert (sum(found["bursts"].values()), found["beats"]) == (1, 2)


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("response", ["slverr", "decerr"])
def test_read_errors_beat_by_beat(copier, memory, bad, response):
    simulation = copier(64)
    before = memory.copy()
    simulation.memory.inject(0x1000 + 8 * bad, 8, response, writes=False)
    assert copy(simulation, 0x1000, 0x2000, 1, 4)["errors"] == 1
    assert simulation.statistics["read"]["errors"] == 1
    copied = memory[0x2000:0x2020].reshape(4, 8) == before[0x1000:0x1020].reshape(4, 8)
    assert copied.all(axis=1).tolist() == [beat != bad for beat in range(4)]
    simulation.memory.clear_errors()
    assert copy(simulation, 0x1000, 0x2000, 1, 4)["errors"] == 0


def test_error_codes(puppet):
    master = puppet(latency=1)
    master.accept()
    master.memory.inject(0x100, 8, "slverr")
    master.memory.inject(0x900000, 8, "decerr")  # outside the memory
    for addr, code in ((0x100, 2), (0x900000, 3), (0x108, 0)):
        master.address(False, addr, ident=3)
        master.wait()
        assert master.last_read == (code, 1, 3)
        master.address(True, addr, ident=4)
        master.data()
        master.wait()
        assert master.last_response == (code, 4)


def test_write_errors_store_nothing(copier, memory):
    simulation = copier(64)
    before = memory.copy()
    simulation.memory.inject(0x2010, 4, "slverr", reads=False)
    assert copy(simulation, 0x1000, 0x2000, 2, 4)["errors"] == 1
    expected = before.copy()
    expected[0x2000:0x2040] = before[0x1000:0x1040]
    expected[0x2010:0x2018] = before[0x2010:0x2018]
    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("reorder", ["none", "bursts", "beats"])
def test_order(puppet, memory, reorder):
    """Three bursts of two beats, the last of another ID; the beats are numbered."""
    for beat, addr in enumerate((0x100, 0x108, 0x200, 0x208, 0x300, 0x308)):
        memory[addr] = beat
    orders = set()
    for seed in range(20):
        master = puppet(latency=200, reorder=reorder, stall_seed=seed, stall_probability=0)
        for addr, ident in ((0x100, 0), (0x200, 0), (0x300, 5)):
            master.address(False, addr, beats=2, ident=ident)
        master.wait(200)  # now the memory may answer all three
        master.accept()
        master.wait()
        order = master.history(6)
        assert [beat for beat in order if beat < 4] == [0, 1, 2, 3]
        assert [beat for beat in order if beat >= 4] == [4, 5]
        orders.add(tuple(order))
    if reorder == "none":
        assert orders == {(0, 1, 2, 3, 4, 5)}
    elif reorder == "bursts":
        assert orders <= {(0, 1, 2, 3, 4, 5), (0, 1, 4, 5, 2, 3), (4, 5, 0, 1, 2, 3)}
        assert len(orders) > 1
    else:
        assert any(order.index(5) - order.index(4) > 1 for order in orders)


def test_stalls_depend_on_the_traffic_only(copier):
    """The same copy takes the same cycles after a reset, however long the port idled."""
    simulation = copier(64, stall_seed=11, stall_probability=0.5)
    first = copy(simulation, 0, 0x10000, 20, 8)
    second = copy(simulation, 0, 0x10000, 20, 8)
    cycles = []
    for idle in (0, 1, 500):
        simulation.reset()
        simulation.run(idle, until_irq=False)
        cycles.append(copy(simulation, 0, 0x10000, 20, 8))
    assert cycles == [first] * 3
    assert second != first
    other = copier(64, stall_seed=12, stall_probability=0.5)
    assert copy(other, 0, 0x10000, 20, 8) != first


def test_statistics_start_over(copier):
    simulation = copier(64)
    copy(simulation, 0, 0x10000, 2, 4)
    simulation.memory.reset_statistics()
    found = simulation.statistics
    assert found["cycles"] == found["read"]["beats"] == sum(found["write"]["bytes"].values()) == 0

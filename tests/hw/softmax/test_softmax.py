"""The softmax pipeline against its NumPy model, on Verilator."""

from dataclasses import asdict

import pytest

from headrace.hw.config import Config
from headrace.hw.emission import fill_memories
from headrace.hw.softmax import Softmax
from headrace.hw.softmax.schedule import Schedule
from headrace.sim.bench import component_verilog, run_bench
from headrace.sim.ports import read_ports


BENCH = "tests.hw.softmax.bench_softmax"
TOP = "softmax_top"


def config_of(**sizes):
    return Config(**{"ring_bytes": 65536, "x_bytes": 65536, "a_bytes": 65536, "streams": 16,
                     **sizes})


CONFIGS = {
    "1 lane": config_of(cols=8, rows=3, lanes=1),
    "1 lane, 2 scales": config_of(cols=5, rows=1, lanes=1, softmax_lanes=2, attn_lead=2),
    "2 lanes": config_of(cols=10, rows=4, lanes=2, softmax_lanes=2),
    "4 lanes": config_of(cols=4, rows=3, lanes=4, softmax_lanes=4),
    "16 lanes, 2 for softmax": config_of(cols=48, rows=5, lanes=16, softmax_lanes=2,
                                         attn_lead=4),
}

_verilog = {}


def run(name, scenario, *, seed=1, stall=0.0, hold=0, bounded=False, max_cycles=100_000):
    if name not in _verilog:
        # Nothing may depend on the contents of memories.
        _verilog[name] = fill_memories(component_verilog(Softmax(CONFIGS[name]), TOP), 7)
    text = _verilog[name]
    run_bench({"softmax.v": text}, list(read_ports(text, TOP).values()), BENCH, top=TOP, seed=seed,
              parameters={"config": asdict(CONFIGS[name]), "scenario": scenario, "seed": seed,
                          "stall": stall, "hold": hold, "bounded": bounded,
                          "max_cycles": max_cycles})


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_blocks_match_the_model_with_garbage_in_masked_places(name, stall):
    run(name, "mixed", seed=int(10 * stall) + 1, stall=stall)


@pytest.mark.parametrize("name", ["1 lane", "4 lanes"])
def test_infinity_and_nan_among_visible_scores(name):
    run(name, "special")


@pytest.mark.parametrize("name", ["1 lane", "4 lanes"])
def test_one_stream_waits_for_its_own_state(name):
    run(name, "one stream", bounded=True)


@pytest.mark.parametrize("name", ["2 lanes", "16 lanes, 2 for softmax"])
def test_no_write_into_a_buffer_that_is_not_free(name):
    run(name, "two streams", hold=700)


@pytest.mark.parametrize("name", CONFIGS)
def test_one_score_per_lane_and_cycle_less_one_slot_per_stream(name):
    run(name, "full", bounded=True)


def test_rate_of_four_streams():
    """A decode step with four query heads per K/V head: 32 scores in a frame of 17 cycles."""
    run("16 lanes, 2 for softmax", "four streams", bounded=True)


@pytest.mark.parametrize("name", CONFIGS)
def test_schedule(name):
    schedule = Schedule(CONFIGS[name])
    # One stream alone: close to half a score per lane and cycle. Two: nearly one.
    assert schedule.gap == 2
    assert schedule.frame == 32 // schedule.lanes + 1
    # The factors of a stream are written while its probabilities are.
    assert schedule.q <= schedule.factors <= schedule.q + schedule.steps - 2
    for units in ((schedule.rcp_amax, schedule.rcp_sum),
                  (schedule.inverse, schedule.act_scale, schedule.decay),
                  [level.first + i for level in schedule.levels for i in range(level.issues)]):
        slots = [offset % schedule.frame for offset in units]
        assert len(set(slots)) == len(slots)

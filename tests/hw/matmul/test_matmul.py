"""The matmul unit against its NumPy model, on Verilator."""

import random
from dataclasses import asdict
from unittest.mock import patch

import pytest
from amaranth.hdl import Shape, unsigned
from amaranth.lib import memory

from headrace.hw.config import PRESETS, Config
from headrace.hw.matmul.layouts import narrow_values, walk_values
from headrace.hw.matmul.matmul import Matmul
from headrace.sim.bench import BenchFailed, component_verilog, run_bench
from headrace.sim.ports import read_ports


BENCH = "tests.hw.matmul.bench_matmul"
TOP = "matmul_top"

SMALL = {"ring_bytes": 8192, "a_bytes": 16384, "head_dim": 64, "streams": 12,
         "chunk_positions": 6}

CONFIGS = {
    "4x8": Config(**{**SMALL, "streams": 16}),
    "3x5": Config(rows=3, cols=5, **SMALL),
    # An odd number of words in the ring.
    "1x1": Config(rows=1, cols=1, **{**SMALL, "ring_bytes": 1025, "streams": 4,
                                     "chunk_positions": 2, "head_dim": 48}),
    "8x4": Config(rows=8, cols=4, lanes=4, group=64, **SMALL),
    # Tiles that fold twice; four times; twice with a walk through words left; and cols that are
    # no power of two, with more rows than the shortest pass is long.
    "3x64": Config(rows=3, cols=64, lanes=4, **{**SMALL, "ring_bytes": 32768}),
    "2x128": Config(rows=2, cols=128, lanes=8, **{**SMALL, "ring_bytes": 32768}),
    "1x128": Config(rows=1, cols=128, lanes=2, **{**SMALL, "ring_bytes": 32768}),
    "12x72": Config(rows=12, cols=72, lanes=8, **{**SMALL, "ring_bytes": 32768, "streams": 24,
                                                  "chunk_positions": 12}),
    "2x32": Config(rows=2, cols=32, lanes=4, group=128, **{**SMALL, "ring_bytes": 32768}),
    # Neither buffers of P nor their words are powers of two.
    "5x3": Config(rows=5, cols=3, attn_lead=4, **SMALL),
    # More rows than the shortest pass is long.
    "20x2": Config(rows=20, cols=2, lanes=2, **{**SMALL, "streams": 40, "chunk_positions": 20}),
}

_verilog = {}


def verilog(name):
    """The unit as Verilog, with random contents in every memory."""
    if name not in _verilog:
        rng = random.Random(name)
        plain = memory.Memory.__init__

        def filled(self, *, shape, depth, init, **options):
            bits = Shape.cast(shape).width
            plain(self, shape=unsigned(bits), depth=depth,
                  init=[rng.getrandbits(bits) for _ in range(depth)], **options)

        with patch.object(memory.Memory, "__init__", filled):
            _verilog[name] = component_verilog(Matmul(CONFIGS[name]), TOP)
    return _verilog[name]


def run(name, scenario, *, seed=1, stall=0.0, ahead=1, head_start=0, occupancy=0.0,
        max_cycles=200_000, spoil=0, weights_stall=0.0, results_stall=0.0, states=()):
    text = verilog(name)
    run_bench({"matmul.v": text}, list(read_ports(text, TOP).values()), BENCH, top=TOP, seed=seed,
              parameters={"config": asdict(CONFIGS[name]), "scenario": scenario, "seed": seed,
                          "stall": stall, "ahead": ahead, "head_start": head_start,
                          "occupancy": occupancy, "max_cycles": max_cycles, "spoil": spoil,
                          "weights_stall": weights_stall, "results_stall": results_stall,
                          "states": states})


@pytest.mark.parametrize("name, scenario, stall", [
    ("3x5", "matmul", 0.3), ("3x5", "int4", 0.0), ("3x5", "halves", 0.2),
    ("4x8", "halves", 0.0), ("3x5", "attention", 0.4),
    ("4x8", "matmul", 0.0), ("4x8", "attention", 0.2), ("5x3", "lead", 0.4), ("5x3", "lead", 0.0),
    ("1x1", "matmul", 0.5), ("1x1", "int4", 0.3),
    ("4x8", "window", 0.2), ("3x5", "window", 0.0), ("4x8", "narrow", 0.3),
    ("3x64", "narrow", 0.2), ("3x64", "attention", 0.0),
])
def test_bit_exact(name, scenario, stall):
    run(name, scenario, stall=stall)


@pytest.mark.slow
@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("scenario", ["matmul", "int4", "halves", "attention", "lead", "narrow",
                                      "window"])
@pytest.mark.parametrize("name", CONFIGS)
def test_bit_exact_on_every_size(name, scenario, stall):
    run(name, scenario, stall=stall, seed=2)


@pytest.mark.parametrize("scenario", ["prefill", "decode", "decode_int4"])
def test_array_never_idles_when_data_is_there(scenario):
    """Passes follow each other without a gap across groups, tiles and instructions."""
    run("4x8", scenario, ahead=9, head_start=700, occupancy=1.0)


@pytest.mark.parametrize("name", ["12x72", "20x2"])
def test_short_pass_after_a_long_one_loses_no_row(name):
    """The rows of a long pass have left before those of a pass shorter than the array is deep."""
    run(name, "drain", head_start=2000)


def test_no_pass_starts_before_its_weights_arrived():
    run("4x8", "decode", ahead=9, weights_stall=0.7, states=["wait_weights"])


def test_scales_of_a_block_stay_until_its_last_row():
    """Results are taken so slowly that more blocks are due than there are slots for scales."""
    run("4x8", "decode", ahead=9, head_start=700, results_stall=0.97,
        states=["wait_accumulator"])


def test_bench_notices_a_wrong_word():
    """One wrong bit in the weights fails the bench."""
    with pytest.raises(BenchFailed, match=r"results\[\d+\]"):
        run("4x8", "matmul", spoil=1)


@pytest.mark.parametrize("config", [
    PRESETS["tiny"], PRESETS["edge"], PRESETS["wide"], CONFIGS["1x128"], CONFIGS["12x72"],
], ids=lambda config: config.name)
def test_walks_cover_every_head_dimension(config):
    """Tiles of K and V, folded or not, and int4 are among the shifts that are built."""
    walks = walk_values(config)
    assert 0 in walks and 1 in walks
    tiles = {config.k_cols, *(config.v_cols(dim) for dim in range(16, config.head_dim + 1, 16))}
    for columns in tiles:
        assert config.sub_select(columns) in narrow_values(config)
        cycles = config.stride // columns // config.fold(columns)
        assert cycles in [1 << walk for walk in walks]


def test_presets_fold_where_tiles_are_narrow():
    """Arrays of 32 columns or less have no use for folds, and pay nothing for them."""
    assert [PRESETS[name].folds for name in ("tiny", "ecp5", "edge")] == [1, 1, 1]
    wide = PRESETS["wide"]
    assert [wide.fold(n) for n in (128, 64, 32, 16)] == [1, 2, 4, 4]
    assert walk_values(wide) == [0, 1]

"""Vector unit against its NumPy model, Verilated."""

import functools
import pickle

import pytest

from headrace.hw.config import Config
from headrace.hw.fp import Adder, Multiplier
from headrace.hw.isa import Op
from headrace.hw.vector.datapath import Datapath
from headrace.hw.vector.lanes import Lanes
from headrace.sim.bench import component_verilog, run_bench
from headrace.sim.ports import read_ports

from .model import VectorModel, program
from .probe import Probe


def config_of(**sizes):
    return Config(**{"head_dim": 64, "group": 32, "x_bytes": 8192, "a_bytes": 8192,
                     "table_elems": 512, "ring_bytes": 65536, **sizes})


CONFIGS = {
    "1 lane, 4 x 8": (config_of(rows=4, cols=8, lanes=1), ("small", "special")),
    "1 lane, 3 x 5": (config_of(rows=3, cols=5, lanes=1), ("small",)),
    "2 lanes, 1 x 6": (config_of(rows=1, cols=6, lanes=2, group=128), ("wide", "special")),
    "4 lanes, 3 x 4": (config_of(rows=3, cols=4, lanes=4), ("small", "special")),
    "16 lanes, 2 x 16": (config_of(rows=2, cols=16, lanes=16, x_bytes=16384), ("wide", "special")),
}


@functools.cache
def probe(config):
    """The device under test, and its Verilog."""
    device = Probe(config)
    return device, component_verilog(device, "probe")


def run(config, name, tmp_path, *, stall, seed=1, extreme=0.02, cycles=120000):
    model = VectorModel(config, seed=seed, extreme=extreme)
    x_start = model.x.copy()
    program(model, name)
    case = tmp_path / "case.pickle"
    with open(case, "wb") as file:
        pickle.dump({"streams": dict(model.streams), "pulses": model.pulses, "lanes": config.lanes,
                     "a_start": model.a_start, "s_start": model.s_start, "x_start": x_start,
                     "x": model.x, "a": model.a, "s": model.s}, file)
    report = tmp_path / "report.pickle"
    _, text = probe(config)
    ports = list(read_ports(text, "probe").values())
    run_bench({"probe.v": text}, ports, "tests.hw.vector.bench_vector", top="probe", parameters={
        "case": str(case), "report": str(report), "seed": seed, "stall": stall, "cycles": cycles})
    with open(report, "rb") as file:
        return list(zip(model.instructions, pickle.load(file)))


def most_cycles(config, vector, op, positions, fields):
    """Cycles of an instruction whose streams never stall, as docs/vector.md states them."""
    return 1 + cycles_of_loop(config, vector, op, positions, fields)    # one to tell what it is


def cycles_of_loop(config, vector, op, positions, fields):
    """Cycles once the instruction is known."""
    lanes = config.lanes
    turns = 1 if fields.get("last_only") else positions
    seek = positions - 1 if fields.get("last_only") else 0
    if op in (Op.STORE, Op.ADD, Op.GLU):
        words = config.col_words * turns
        gap = max(0, Datapath.hazard - words) * (fields["tiles"] // 2) if op == Op.GLU else 0
        fixed = {Op.STORE: 7, Op.ADD: 10, Op.GLU: 30}[op]
        if fields.get("gelu"):
            pace = Lanes.gelu_cycles
            return (fields["tiles"] * words * pace + gap * pace + seek + fixed + pace
                    + Lanes.gelu_delay - Lanes.gate_delay)
        return fields["tiles"] * words + gap + seek + fixed
    if op == Op.ATTN_OUT:
        words = fields["heads"] * fields["n_rep"] * fields["head_dim"] // lanes
        return words * positions + 11
    if op == Op.EMBED:
        return positions * max(fields["dim"] // lanes + 1, 7) + 9
    if op == Op.LOGITS:
        return fields["tiles"] * config.col_words + lanes.bit_length() + 9
    if op == Op.END:
        return 2
    reducer, found = vector.datapath.reducer, vector.quantiser.latency
    if op in (Op.NORM, Op.QUANT):
        words, group = fields["dim"] // lanes, fields["group16"] * 16 // lanes
        # Both halves of 16 bits are written one after the other.
        row = words + 1 + words * fields["act16"]
        fixed = 2 + group + found + Lanes.store_stage
        if op == Op.NORM:
            row += (fields["dim"] // 16 * reducer.turn_cycles + Lanes.mul_stage
                    + reducer.latency + Lanes.root_latency)
            fixed += Lanes.norm_stage - Lanes.store_stage
        return turns * row + seek + fixed
    if op == Op.RMS:
        words = fields["dim"] // lanes
        vector_cycles = (words + fields["dim"] // 16 * reducer.turn_cycles + Lanes.mul_stage
                         + reducer.latency + Lanes.root_latency + 2)
        if fields["accumulate"]:
            vector_cycles += words + Lanes.y_stage + Adder.latency
        return positions * fields["vectors"] * vector_cycles + words + Lanes.norm_stage + 6
    words = fields["head_dim"] // lanes + 1
    if op == Op.ROPE:
        streams = positions * fields["n_rep"] * fields["heads"]
        group = min(32, fields["head_dim"]) // lanes
        return streams * words + group + found + Lanes.rope_stage + 2
    assert op == Op.APPEND
    table = max(positions * (words - 1), fields["heads"] + 4)
    vectors = 2 * fields["heads"] * positions
    return (table + vectors * words + words + found + Multiplier.latency + 4 + Lanes.rope_stage
            + 2)


@pytest.mark.parametrize("config, name", [
    pytest.param(config, name, id=f"{label}, {name}")
    for label, (config, names) in CONFIGS.items() for name in names
])
def test_instructions_with_stalls(config, name, tmp_path):
    run(config, name, tmp_path, stall=12)


@pytest.mark.parametrize("label", ["1 lane, 3 x 5", "2 lanes, 1 x 6", "16 lanes, 2 x 16"])
def test_cycles_without_stalls(label, tmp_path):
    config, names = CONFIGS[label]
    vector = probe(config)[0].vector
    seen = set()
    for (op, positions, fields), events in run(config, names[0], tmp_path, stall=0):
        cycles = sum(events.values())
        assert cycles <= most_cycles(config, vector, op, positions, fields), (op, positions, fields)
        assert events.get("wait_matmul", 0) <= 1
        seen.add(op)
    assert seen == set(Op) - {Op.MATMUL, Op.ATTN}

"""Vector unit against its NumPy model, Verilated."""

import pickle

import pytest

from headrace.hw.config import Config
from headrace.sim.bench import run_component_bench

from .model import VectorModel, program
from .probe import Probe


def config_of(**sizes):
    return Config(**{"head_dim": 64, "group": 32, "x_bytes": 8192, "a_bytes": 8192,
                     "table_elems": 512, "ring_bytes": 65536, **sizes})


CONFIGS = {
    "1 lane, 4 x 8": (config_of(rows=4, cols=8, lanes=1), "small"),
    "1 lane, 3 x 5": (config_of(rows=3, cols=5, lanes=1), "small"),
    "2 lanes, 1 x 6": (config_of(rows=1, cols=6, lanes=2), "wide"),
    "4 lanes, 3 x 4": (config_of(rows=3, cols=4, lanes=4), "small"),
    "16 lanes, 2 x 16": (config_of(rows=2, cols=16, lanes=16, x_bytes=16384), "wide"),
}


def run(config, name, tmp_path, *, stall, seed=1, extreme=0.02, cycles=60000):
    model = VectorModel(config, seed=seed, extreme=extreme)
    x_start = model.x.copy()
    program(model, name)
    case = tmp_path / "case.pickle"
    with open(case, "wb") as file:
        pickle.dump({"streams": dict(model.streams), "pulses": model.pulses, "lanes": config.lanes,
                     "a_start": model.a_start, "s_start": model.s_start, "x_start": x_start,
                     "x": model.x, "a": model.a, "s": model.s}, file)
    report = tmp_path / "report.pickle"
    run_component_bench(Probe(config), "tests.hw.vector.bench_vector", parameters={
        "case": str(case), "report": str(report), "seed": seed, "stall": stall, "cycles": cycles})
    with open(report, "rb") as file:
        return pickle.load(file)


@pytest.mark.parametrize("stall", [0, 12], ids=["no stalls", "stalls"])
@pytest.mark.parametrize("config, name", CONFIGS.values(), ids=CONFIGS)
def test_instructions(config, name, stall, tmp_path):
    run(config, name, tmp_path, stall=stall)

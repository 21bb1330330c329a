"""Benchmarks on a small model."""

import dataclasses
import json

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.isa import Op
from headrace.hw.regmap import COUNTERS
from headrace.sw.bench import CASES, WORKLOADS, Case, Measurement, Workload, measure, select
from headrace.sw.bench.history import random_cache
from headrace.sw.bench.programs import MATRICES, arranged, single
from headrace.sw.bench.session import check_counters
from headrace.sw.bench.table import worst
from headrace.sw.checkpoint import SyntheticCheckpoint
from headrace.sw.cli import main
from headrace.sw.compiler import compile_model
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice

from .models import ODD, shape


TINY = PRESETS["tiny"]
SMALL = shape(layers=1, context=128)


def workload(part: str) -> Workload:
    return Workload(name="small", shape=SMALL, part=part, doc="")


class Timed(GoldenDevice):
    """A golden device with a time: a pass takes a cycle for each beat that it reads."""

    has_cycles = True

    def wait_interrupt(self, max_cycles, progress=None):
        beats = sum(value for name, value in self._counters.items()
                    if name.startswith("read_")) // self.config.port_bytes
        for name in ("cycles", "port_busy", "matmul_busy", "vector_idle", "softmax_idle"):
            self._counters[name] = beats
        return super().wait_interrupt(max_cycles, progress)

    @property
    def simulated_hz(self):
        return 1.0


def golden(image, memory="ideal"):
    return Timed(image.config, memory_bytes=image.total_bytes, fill=0xff)


def row(part, case, *, config=TINY, weights="w8", check=True):
    return measure(workload(part), case, weights, Measurement(config, golden, check=check))


@pytest.mark.parametrize("config", [TINY, ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("weights", ["w8", "w4", "w4a"])
def test_layer_in_decode(config, weights):
    found = row("layer", Case(workload="small", kind="decode", context=40), config=config,
                weights=weights)
    assert {"workload", "kind", "context", "positions", "config", "weights", "memory", "cycles",
            "bytes_read", "bytes_written", "macs", "port_utilisation", "array_utilisation",
            "stalls", "simulated_hz"} <= set(found)
    assert found["check"] == "bit-exact"
    # Two blocks of 32 tokens of both K/V heads; embedding, token and output layer cancel.
    assert found["bytes_read"]["kv"] == found["kv_misses"] == 2 * 2 * 64 * 18
    assert found["kv_hits"] == found["bytes_read"]["activations"] == 0
    assert found["bytes_written"]["kv"] == 2 * 2 * 18
    assert found["bytes_written"]["activations"] == 0
    # q, k, v, o: 64 + 64 + 64 columns of 48; gate, up and down of 44; 40 tokens attended.
    weight_macs = 48 * (64 + 32 + 32) + 64 * 48 + 3 * 48 * 44
    assert found["macs"] == weight_macs + 2 * 40 * 64
    scales = 2 * (64 + 32 + 32 + 88) + 2 * 48 + 2 * 48
    least = {"w8": weight_macs + 2 * scales, "w4": weight_macs // 2 + 2 * scales,
             "w4a": weight_macs // 2 + 4 * scales}[weights]
    assert found["least_bytes"] == least + 39 * 2 * 2 * 18
    assert found["port_utilisation"] == found["least_bytes"] / (found["cycles"]
                                                                 * config.port_bytes)
    assert 0 < found["port_utilisation"] < 1
    assert found["stream_waste"]["columns"] == config.stream_waste < found["stream_waste"]["all"]


def test_layer_in_prefill_adds_its_passes():
    case = Case(workload="small", kind="prefill", context=21, positions=21)
    found = row("layer", case)
    assert found["check"] == "bit-exact" and found["chunk"] == 8
    # Of each matrix, the golden device's cycles are the beats that the run has read.
    assert list(found["matrices"]) == list(MATRICES)
    assert all(0 < value < 1 for value in found["matrices"].values())
    # Three passes read the weights three times.
    one = row("layer", dataclasses.replace(case, context=7, positions=7))
    assert found["bytes_read"]["weights"] == 3 * one["bytes_read"]["weights"]
    weight_macs = 48 * (64 + 32 + 32) + 64 * 48 + 3 * 48 * 44
    assert found["macs"] == 21 * weight_macs + 2 * 64 * (21 * 22 // 2)


def test_head_is_the_difference_that_it_makes():
    found = row("head", Case(workload="small", kind="decode", context=1))
    assert found["macs"] == 48 * 37
    assert found["least_bytes"] == 48 * 37 + 2 * 2 * 37
    # Five tiles of two groups, each with a header.
    assert found["bytes_read"]["weights"] == 5 * 2 * 32 * 8
    assert found["bytes_read"]["scales"] == 5 * 2 * 16
    assert found["bytes_read"]["kv"] == 0


def test_whole_model_in_decode_counts_the_decode_passes_only():
    case = Case(workload="small", kind="decode", context=20, positions=3)
    found = row("model", case)
    assert found["bytes_written"]["kv"] == 3 * 2 * 2 * 18
    assert found["check"] == "bit-exact"


def test_a_wrong_device_is_found():
    class Wrong(Timed):
        def write_register(self, name, value):
            super().write_register(name, value)
            if name == "control":
                region = self.memory[-256 * 128 - 4096:]
                region ^= 1

    case = Case(workload="small", kind="decode", context=40)
    with pytest.raises(HeadraceError, match="first difference"):
        measure(workload("layer"), case, "w8", Measurement(
            TINY, lambda image, memory: Wrong(image.config, memory_bytes=image.total_bytes),
            check=True))


@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_arranged(repeat):
    image = compile_model(SyntheticCheckpoint(SMALL), TINY, repeat=repeat)
    size = (image.instructions - 5) // repeat
    begin, layer, head, end = (image.program[:1], image.program[1:1 + size],
                               image.program[-4:-1], image.program[-1:])
    assert all(code["head"] for code in head)
    for layers, heads in ((repeat, 1), (repeat - 1, 1), (0, 2)):
        found = arranged(image, layers=layers, heads=heads, repeat=repeat)
        assert found.program == begin + layers * layer + heads * head + end
        assert (found.content[image.regions["tables"].begin:]
                == image.content[image.regions["tables"].begin:]).all()
    with pytest.raises(HeadraceError, match="expected at most"):
        arranged(image, layers=9 * repeat, repeat=repeat)


@pytest.mark.parametrize("name", MATRICES)
def test_single_matrix(name):
    # Small memories, so that the MLP comes in pieces.
    image = compile_model(SyntheticCheckpoint(shape(layers=1, ffn=192)),
                          dataclasses.replace(TINY, x_bytes=4096))
    found = single(image, name)
    products = [code for code in found.program if code["op"] == Op.MATMUL]
    pieces = [code for code in image.program if code["op"] == Op.GLU]
    assert len(pieces) > 1
    assert [code["wait_a"] for code in products] == [1] + [0] * (len(products) - 1)
    assert len(products) == (len(pieces) if name == "gate_up" else 1)
    assert sum(code["words"] for code in products) * TINY.stride == image.parts[
        f"layers.0.{name}"].size
    takers = [code for code in found.program if code["op"] in (Op.STORE, Op.ADD, Op.GLU)]
    assert [code["tiles"] for code in takers] == [code["tiles"] for code in products]
    assert [code["op"] for code in found.program][:2] == [Op.EMBED, Op.NORM]
    assert found.program[-1]["op"] == Op.END


def test_counters_that_do_not_add_up():
    good = dict.fromkeys(COUNTERS, 0) | {
        "cycles": 5, "port_busy": 2, "port_buffer_full": 3, "matmul_idle": 5, "vector_busy": 5,
        "softmax_busy": 1, "softmax_idle": 4, "read_kv": 64}
    check_counters(good, {"read_kv": 64})
    with pytest.raises(HeadraceError, match="counter read_kv is 64: expected 128"):
        check_counters(good, {"read_kv": 128})
    with pytest.raises(HeadraceError, match="port_wait_sequencer add up to 6: expected 5"):
        check_counters(good | {"port_busy": 3}, {})
    check_counters(good | {"cycles": 0}, {"read_kv": 64, "macs": 1}, timed=False)


def test_history_is_valid_and_must_not_be_pinned():
    image = compile_model(SyntheticCheckpoint(SMALL), ODD)
    cache = random_cache(image, 70)
    blocks = image.cache.blocks(cache, 0, 3)
    scales = image.cache.scales(blocks).view(np.float16)
    assert np.isfinite(scales).all() and (scales > 0).all()
    assert image.cache.keys(blocks).min() >= -127
    with GoldenDevice(ODD, memory_bytes=image.total_bytes) as device:
        with pytest.raises(HeadraceError, match="expected an image with kv_pinned = 0"):
            Session(device, image).load_history(cache, 70)
        session = Session(device, dataclasses.replace(image, kv_pinned=0))
        with pytest.raises(HeadraceError, match="for 20 tokens: expected up to 127 tokens"):
            session.load_history(cache, 20)
        session.load_history(cache, 70)
        assert session.position == 70 and (session.cache_bytes() == cache).all()


def test_selection():
    every = list(select())
    assert len(every) == 3 * sum(not case.slow for case in CASES)
    assert len(list(select(slow=True))) == 3 * len(CASES)
    assert {fmt for _, fmt in select(quick=True)} == {"w8"}
    assert [(case.context, fmt) for case, fmt in select(
        workloads=["llama-3.2-1b-layer"], weights=["w4"], kinds=["decode"])] == [
            (512, "w4"), (2048, "w4")]
    assert all(case.workload in WORKLOADS for case in CASES)
    with pytest.raises(HeadraceError, match="no workload 'x': expected one of llama"):
        list(select(workloads=["x"]))
    with pytest.raises(HeadraceError, match="no weight format 'w5': expected one of w8, w4, w4a"):
        list(select(weights=["w5"]))


def test_worst_names_the_longest_waits():
    stalls = {"port_buffer_full": 10, "vector_wait_matmul": 60, "matmul_wait_weights": 0}
    assert worst({"cycles": 100, "stalls": stalls}) == "vector matmul 60.0 %, port buffer full " \
                                                       "10.0 %"


@pytest.mark.parametrize("arguments, text", [
    (["--config", "none"], "no configuration 'none'"), (["--memory", "x"], "no DRAM 'x'"),
    (["--context", "3"], "no case is left"), (["--workload", "x"], "no workload 'x'")])
def test_bad_arguments(arguments, text, capsys):
    with pytest.raises(SystemExit) as error:
        main(["bench", *arguments])
    assert error.value.code == 2 and text in capsys.readouterr().err


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("headrace.sw.cli.bench.open_device",
                        lambda kind, image, **options: golden(image))
    monkeypatch.setattr("headrace.sw.cli.bench.sequential_cycles",
                        lambda config, memory, size: size // config.port_bytes)
    with pytest.raises(SystemExit) as end:
        main(["bench", "--config", "tiny", "--workload", "demo", "--quick", "--check", "--json",
              str(tmp_path / "rows.json")])
    assert end.value.code == 0
    output = capsys.readouterr()
    assert "demo" in output.out and "prefill 32 on tiny, w8, sdr-133-x16" in output.err
    assert "of sequential" in output.out
    rows = json.loads((tmp_path / "rows.json").read_text())
    # By default beside the ideal memory and beside the configuration's own.
    assert [(row["kind"], row["memory"]) for row in rows] == [
        (kind, memory) for kind in ("prefill", "decode") for memory in ("ideal", "sdr-133-x16")]
    assert all(row["check"] == "bit-exact" for row in rows)
    assert all(name in COUNTERS for name in rows[0]["stalls"])
    for row in rows:
        assert row["sequential_cycles"] == row["least_bytes"] // TINY.port_bytes
        assert row["of_sequential"] == row["sequential_cycles"] / row["cycles"]


def test_a_failing_case_ends_the_command(monkeypatch, capsys):
    def broken(kind, image, **options):
        raise HeadraceError("no such device")

    monkeypatch.setattr("headrace.sw.cli.bench.open_device", broken)
    with pytest.raises(SystemExit) as end:
        main(["bench", "--config", "tiny", "--workload", "demo", "--jobs", "2"])
    assert end.value.code == 2 and "no such device" in capsys.readouterr().err

"""Locality: rows of layers and of operations add up to what the passes moved and needed."""

import pytest

from headrace.hw.config import CLASSES, PRESETS
from headrace.hw.isa import Format, Op
from headrace.sw.checkpoint import SyntheticCheckpoint
from headrace.sw.compiler import compile_model
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.quantiser import Policy
from headrace.sw.trace import BETWEEN, OPERATIONS, labels
from tests.sw.models import ODD, compiled, ids, shape


def _report(image, prompt, tokens, **options):
    with GoldenDevice(image.config, memory_bytes=image.total_bytes) as device:
        session = Session(device, image, **options)
        list(session.generate(prompt, tokens))
        return session.report()


@pytest.mark.parametrize("config, weights, kv_bytes", [
    (PRESETS["tiny"], Format.W8, None), (ODD, Format.W4A, 0), (PRESETS["edge"], Format.W4, None)])
@pytest.mark.parametrize("check", [False, True])
def test_rows_add_up(config, weights, kv_bytes, check):
    image = compile_model(SyntheticCheckpoint(shape()), config, policy=Policy(default=weights))
    if kv_bytes == 0:
        image.kv_pinned = 0
    report = _report(image, ids(35), 4, check=check)
    totals, found = report["totals"], report["locality"]
    for rows in (found["layers"], found["operations"]):
        for name in ("bytes_read", "bytes_written"):
            assert {cls: sum(row[name][cls] for row in rows) for cls in CLASSES} == totals[name]
        for name in ("macs", "least_bytes"):
            assert sum(row[name] for row in rows) == pytest.approx(totals[name], abs=20)
        assert sum(row["macs"] for row in rows) == totals["macs"]
        assert sum(row["kv_from_sram"] for row in rows) == totals["kv_hits"]
        assert sum(row["kv_from_memory"] for row in rows) == totals["kv_misses"]
        assert {row["cycles"] for row in rows} == {None}
    layers = image.shape.layers
    assert [(row["kind"], row["layer"]) for row in found["layers"]] == [
        (kind, layer) for kind in ("prefill", "decode") for layer in [*range(layers), None]]
    assert [(row["kind"], row["operation"]) for row in found["operations"]] == [
        (kind, operation) for kind in ("prefill", "decode") for operation in OPERATIONS]
    for row in found["layers"]:
        if row["layer"] is not None:
            assert row["kv_hit_rate"] == (0 if kv_bytes == 0 else 1)


def test_weights_are_used_once_for_each_position():
    # 34 bytes are 32 weights and their scale; nothing is padded.
    image = compiled(PRESETS["tiny"], ffn=64, dim=64)
    report = _report(image, ids(8), 2)
    used = {(row["kind"], row["layer"]): row["macs_per_weight_byte"]
            for row in report["locality"]["layers"]}
    assert used["prefill", 0] == pytest.approx(8 * 32 / 34)
    assert used["decode", 1] == pytest.approx(32 / 34)
    passes = {each["kind"]: each for each in report["passes"]}
    for kind, each in passes.items():
        assert each["kv_hit_rate"] == 1
        assert each["least_bytes_per_token"] == each["least_bytes"] / each["positions"]
        assert each["bytes_per_token"] == (
            sum(each["bytes_read"].values()) + sum(each["bytes_written"].values())
        ) / each["positions"] > each["least_bytes_per_token"], kind
    assert passes["decode"]["macs_per_weight_byte"] < 32 / 34 * (1 + 1e-9)


@pytest.mark.parametrize("config", [PRESETS["tiny"], ODD])
def test_labels(config):
    image = compiled(config)
    found = labels(image)
    assert [label.op for label in found] == [code["op"] for code in image.program]
    layer = [label for label in found if label.layer == 1]
    assert len({label.layer for label in found} - {None}) == image.shape.layers
    assert [(label.name, label.operation) for label in layer[:12]] == [
        ("NORM layers.1.attention_norm", "q/k/v"), ("MATMUL layers.1.kv", "q/k/v"),
        ("STORE layers.1.kv", "q/k/v"), ("MATMUL layers.1.q", "q/k/v"),
        ("APPEND layers.1", "attention"), ("STORE layers.1.q", "q/k/v"),
        ("ROPE layers.1", "attention"), ("ATTN layers.1", "attention"),
        ("ATTN_OUT layers.1", "attention"), ("QUANT layers.1", "o"),
        ("MATMUL layers.1.o", "o"), ("ADD layers.1.o", "o")]
    assert {label.operation for label in layer[12:]} == {"gate/up", "down"}
    for label in found:
        if label.op in (Op.EMBED, Op.END):
            assert label.operation == BETWEEN and label.layer is None
    assert [label.operation for label in found[-4:]] == ["head", "head", "head", BETWEEN]


def test_golden_records_nothing():
    image = compiled(PRESETS["tiny"])
    with GoldenDevice(image.config, memory_bytes=image.total_bytes) as device:
        with pytest.raises(HeadraceError, match="golden: the device does not record"):
            Session(device, image, trace=True)
        assert Session(device, image).trace() is None

"""Readers of folders and images, fed with random damage: only our error comes out."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, find_model, load_checkpoint
from headrace.sw.compiler import compile_model, load_image
from headrace.sw.errors import HeadraceError

from .models import shape
from .test_checkpoint import CONFIG


BOUNDED = settings(max_examples=200, deadline=None, database=None,
                   suppress_health_check=[HealthCheck.function_scoped_fixture])

#: What a field of a JSON file may hold.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10 ** 12), 10 ** 12) | st.integers(0, 80)
    | st.floats() | st.text(max_size=8) | st.just(10 ** 400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner,
                                                                max_size=3), max_leaves=4)

EXTRA = ("rope_scaling", "rope_parameters", "partial_rotary_factor", "quantization_config",
         "hidden_act", "attention_bias", "bos_token_id", "rope_theta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    source = SyntheticCheckpoint(shape(vocab=512))
    save_file({name: source.tensor(name) for name in source.shape.tensors()},
              folder / "model.safetensors")
    return folder


def _try(path, weights=True):
    try:
        checkpoint = load_checkpoint(path)
        for name in checkpoint.shape.tensors() if weights else ():
            checkpoint.tensor(name)
    except HeadraceError as error:
        assert str(path) in str(error)


@seed(21)
@BOUNDED
@given(changes=st.dictionaries(st.sampled_from((*CONFIG, *EXTRA)), VALUES, min_size=1, max_size=3))
def test_config_of_a_folder(folder, changes):
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 512, **changes}))
    _try(folder)


@seed(22)
@BOUNDED
@given(edits=st.lists(st.tuples(st.integers(0, 2400), st.binary(min_size=1, max_size=6)),
                      min_size=1, max_size=3), cut=st.integers(0, 10 ** 6))
def test_header_of_safetensors(folder, tmp_path, edits, cut):
    raw = bytearray((folder / "model.safetensors").read_bytes())
    for at, data in edits:
        raw[at:at + len(data)] = data
    if cut % 3 == 0:
        del raw[cut % len(raw):]
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 512}))
    (tmp_path / "model.safetensors").write_bytes(raw)
    _try(tmp_path)


@seed(23)
@BOUNDED
@given(facts=st.dictionaries(st.sampled_from(("dtype", "shape", "data_offsets")), VALUES),
       index=VALUES)
def test_values_in_headers(folder, tmp_path, facts, index):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    header = json.dumps({"model.norm.weight": {"dtype": "F32", "shape": [48],
                                               "data_offsets": [0, 192], **facts}}).encode()
    (tmp_path / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(192))
    (tmp_path / "model.safetensors.index.json").unlink(missing_ok=True)
    _try(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    _try(tmp_path)


def test_deep_nesting(tmp_path):
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(HeadraceError, match="not a JSON file"):
        load_checkpoint(tmp_path)


@seed(24)
@BOUNDED
@given(edits=st.lists(st.tuples(st.integers(0, 60_000), st.binary(min_size=1, max_size=6)),
                      min_size=1, max_size=3), config=VALUES)
def test_tokenizer_of_a_folder(folder, tmp_path, edits, config):
    raw = bytearray((find_model("demo") / "tokenizer.json").read_bytes())
    for at, data in edits:
        at %= len(raw)
        raw[at:at + len(data)] = data
    for name in ("model.safetensors",):
        if not (tmp_path / name).exists():
            shutil.copy(folder / name, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 512}))
    (tmp_path / "tokenizer.json").write_bytes(raw)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": config}))
    _try(tmp_path, weights=False)


@seed(25)
@BOUNDED
@given(edits=st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=6)),
                      min_size=1, max_size=3), cut=st.integers(0, 10 ** 6))
def test_images(tmp_path, edits, cut):
    path = tmp_path / "image"
    if not (tmp_path / "good").exists():
        compile_model(SyntheticCheckpoint(shape()), PRESETS["tiny"]).save(tmp_path / "good")
    raw = bytearray((tmp_path / "good").read_bytes())
    before = bytes(raw)
    for at, data in edits:
        raw[at:at + len(data)] = data
    if cut % 3 == 0:
        del raw[cut % len(raw):]
    path.write_bytes(raw)
    if raw == before:
        load_image(path)
        return
    with pytest.raises(HeadraceError, match="not an image|damaged|file version 1"):
        load_image(path)

"""GGUF files of every architecture are the folders that they were made from, to the last bit."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import Rope, SyntheticCheckpoint, load_checkpoint
from headrace.sw.checkpoint.architectures import GGUF_FORMS
from headrace.sw.checkpoint.gguf_names import gguf_name, hf_name
from headrace.sw.compiler import compile_model
from headrace.sw.reference import Reference

from .hf_models import MODELS, save_model
from .model_files import write_gguf
from .models import FEATURES, shape


#: Architecture of the file of each model.
ARCHITECTURE = {"mistral": "llama", "linear rope": "llama", "yarn rope": "llama"}

#: In files of Gemma the scale of scores follows from the size of a head.
CHANGES = {"gemma2": {"query_pre_attn_scalar": 16}, "gemma3": {"query_pre_attn_scalar": 16}}


def architecture(kind: str) -> str:
    """`general.architecture` of the file of a model."""
    return ARCHITECTURE.get(kind, ARCHITECTURE.get(kind.split(",")[0],
                                                   kind.split(",")[0].split(" ")[0]))


@pytest.fixture(scope="module", params=MODELS)
def both(request, tmp_path_factory):
    """The name of a model, token ids, its folder and its GGUF file."""
    folder = tmp_path_factory.mktemp("model")
    ids, _ = save_model(request.param, folder, **CHANGES.get(request.param, {}))
    checkpoint = load_checkpoint(folder)
    path = write_gguf(folder / "model.gguf", checkpoint, arch=architecture(request.param))
    return request.param, ids, checkpoint, load_checkpoint(path)


@pytest.mark.filterwarnings("ignore")
def test_file_gives_the_logits_of_the_folder(both):
    kind, ids, folder, file = both
    expected, found = (Reference(each).logits(ids) for each in (folder, file))
    assert np.abs(expected).max() > 1
    if kind == "llama 3 rope":
        # The file has the factors of frequencies in float32.
        assert 0 < np.abs(found - expected).max() < 1e-4
    else:
        assert np.array_equal(found, expected)


@pytest.mark.filterwarnings("ignore")
def test_file_gives_the_image_of_the_folder(both):
    kind, _, folder, file = both
    assert file.shape.architecture == architecture(kind)
    assert file.shape.window_of == folder.shape.window_of
    if folder.shape.score_cap:
        return      # refused by the compiler: test_architectures.py
    images = [compile_model(each, PRESETS["tiny"]) for each in (folder, file)]
    assert list(images[0].program) == list(images[1].program)
    same = np.array_equal(images[0].content, images[1].content)
    assert same == (kind != "llama 3 rope")


def test_every_form_is_tested():
    assert {architecture(kind) for kind in MODELS} == set(GGUF_FORMS)


def test_factors_of_frequencies_are_those_of_llama_3(tmp_path):
    rope = Rope(theta=500000.0, kind="llama3", factor=32.0, original=8192, low=1.0, high=4.0)
    source = SyntheticCheckpoint(shape(head_dim=64, ropes=(rope,), theta=500000.0))
    found = load_checkpoint(write_gguf(tmp_path / "m.gguf", source)).shape.all_ropes[0]
    assert found.kind == "factors" and len(set(found.factors)) == 5
    assert np.allclose(found.frequencies(64), rope.frequencies(64), rtol=1e-6)


@pytest.mark.parametrize("changes", FEATURES.values(), ids=FEATURES)
def test_names_there_and_back(changes):
    model = shape(**changes)
    names = [gguf_name(name, post_norms=model.post_norms) for name in model.tensors()]
    assert len(set(names)) == len(names)
    assert [hf_name(name, model) for name in names] == list(model.tensors())
    assert hf_name("blk.2.attn_q.weight", model) is None
    assert hf_name("blk.0.attn_q.scale", model) is None


@pytest.mark.parametrize("arch, features", [
    ("qwen2", {"qkv_bias": True}), ("qwen3", {"qk_norm": True}),
    ("gemma3", {"post_norms": True, "qk_norm": True, "gain_offset": 1.0, "activation": "gelu",
                "embedding_scale": 16.0, "window_of": (20, 20)})])
@pytest.mark.parametrize("dtype", [Type.Q8_0, Type.Q4_1], ids=lambda each: each.name)
def test_blocks_are_taken_over(tmp_path, arch, features, dtype):
    """Rows of q and k stay where they are: the image has the weights of the file."""
    source = SyntheticCheckpoint(shape(dim=256, ffn=256, heads=8, kv_heads=4, head_dim=32,
                                       **features))
    file = load_checkpoint(write_gguf(tmp_path / "m.gguf", source, dtype, arch=arch))
    assert file.shape.qkv_bias == source.shape.qkv_bias
    image = compile_model(file, PRESETS["tiny"])
    assert set(image.origins.values()) == {"taken over"}
    for name in ("model.layers.1.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"):
        found = file.blocks(name).dequantise().T.astype(np.float32)
        assert np.array_equal(found, file.tensor(name))
        step = 0.02 if dtype == Type.Q8_0 else 0.15
        assert np.abs(found - source.tensor(name)).max() < step * np.abs(found).max()

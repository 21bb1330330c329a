"""Architectures: the float reference equals transformers, the golden machine is close to both."""

import json

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import load_checkpoint
from headrace.sw.checkpoint.architectures import ARCHITECTURES
from headrace.sw.compiler import compile_model
from headrace.sw.errors import HeadraceError
from headrace.sw.quality import teacher_forced
from headrace.sw.reference import Reference

from .hf_models import MODELS, SIZES, save_model


#: Largest difference of float32 forward passes, of logits up to 60.
TOLERANCE = 5e-5


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory):
    """A random model as transformers saves it, token ids, and their logits."""
    folder = tmp_path_factory.mktemp("model")
    return folder, *save_model(request.param, folder)


@pytest.mark.filterwarnings("ignore")
def test_reference_equals_transformers(model):
    folder, ids, logits = model
    checkpoint = load_checkpoint(folder)
    found = Reference(checkpoint).logits(ids)
    assert np.abs(found - logits).max() < TOLERANCE
    assert np.abs(logits).max() > 1


@pytest.mark.filterwarnings("ignore")
def test_golden_machine_is_close(model):
    folder, ids, logits = model
    checkpoint = load_checkpoint(folder)
    if checkpoint.shape.score_cap:
        with pytest.raises(HeadraceError, match="softcapping"):
            compile_model(checkpoint, PRESETS["tiny"])
        return
    image = compile_model(checkpoint, PRESETS["edge"])
    found = teacher_forced(image, ids)
    error = np.abs(found - logits).mean() / np.abs(logits).mean()
    assert error < 0.05, error


def test_every_architecture_is_tested():
    assert {name.removesuffix("ForCausalLM").lower() for name in ARCHITECTURES} <= {
        name.split(",")[0] for name in MODELS}


def _config(folder, **values):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**SIZES, **values}))
    return folder


@pytest.mark.parametrize("values, text", [
    ({"architectures": ["MixtralForCausalLM"]}, "unsupported architecture: MixtralForCausalLM"),
    ({"architectures": ["Qwen3ForCausalLM"], "attention_bias": True}, "attention_bias is True"),
    ({"architectures": ["Gemma3ForCausalLM"], "hidden_activation": "relu"},
     "hidden_activation is 'relu': expected silu or swish or gelu_pytorch_tanh"),
    ({"architectures": ["Gemma3ForCausalLM"], "layer_types": ["full_attention"],
      "sliding_window": 4}, "layer_types is"),
    ({"architectures": ["SmolLM3ForCausalLM"], "no_rope_layers": [1, 2]}, "no_rope_layers is"),
    ({"architectures": ["LlamaForCausalLM"],
      "rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "type default, linear"),
    ({"architectures": ["LlamaForCausalLM"],
      "rope_scaling": {"rope_type": "linear", "factor": -1}}, "factor is -1: expected a number"),
    ({"architectures": ["LlamaForCausalLM"], "rope_scaling": 3}, "rope_scaling is 3: expected"),
    ({"architectures": ["MistralForCausalLM"], "sliding_window": "x"}, "sliding_window is 'x'"),
    ({"architectures": ["MistralForCausalLM"], "sliding_window": 4,
      "num_hidden_layers": 2_000_000_000}, "num_hidden_layers is 2000000000: expected a whole "
                                           "number from 1 to 65536"),
])
def test_what_is_refused(tmp_path, values, text):
    with pytest.raises(HeadraceError, match="config.json: ") as caught:
        load_checkpoint(_config(tmp_path / "m", **values))
    assert text in str(caught.value), str(caught.value)

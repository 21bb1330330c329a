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


SIZES = {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 6,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 37,
         "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

#: Configuration class of transformers, and what is special.
MODELS = {
    "llama": ("LlamaConfig", {}),
    "llama, untied, head_dim apart": ("LlamaConfig", {"head_dim": 20}),
    "llama 3 rope": ("LlamaConfig", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}),
    "linear rope": ("LlamaConfig", {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}}),
    "yarn rope": ("LlamaConfig", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
        "original_max_position_embeddings": 32}}),
    "mistral, window": ("MistralConfig", {"sliding_window": 20}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2, windows": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 20,
                                       "max_window_layers": 3}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "smollm3": ("SmolLM3Config", {}),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "sliding_window": 20,
                                "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 16, "sliding_window": 20,
                                    "query_pre_attn_scalar": 24}),
}

#: Largest difference of float32 forward passes, of logits up to 60.
TOLERANCE = 5e-5


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory):
    """A random model as transformers saves it, token ids, and their logits."""
    torch = pytest.importorskip("torch", reason="needs the extra `independent`")
    transformers = pytest.importorskip("transformers", reason="needs the extra `independent`")
    name, changes = MODELS[request.param]
    config = getattr(transformers, name)(**{**SIZES, **changes})
    config._attn_implementation = "eager"
    torch.manual_seed(1)
    network = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, weights in network.named_parameters():
            spread = 0.3 if weights.dim() == 1 else weights.shape[1] ** -0.5
            weights.copy_(torch.randn_like(weights) * (1.0 if "embed" in name else spread))
            if "norm" in name and "gemma" not in request.param:
                weights += 1
        ids = torch.randint(0, SIZES["vocab_size"], (1, 60))
        logits = network(ids).logits[0].numpy()
    folder = tmp_path_factory.mktemp("model")
    network.save_pretrained(folder)
    return folder, ids[0].tolist(), logits


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
])
def test_what_is_refused(tmp_path, values, text):
    with pytest.raises(HeadraceError, match="config.json: ") as caught:
        load_checkpoint(_config(tmp_path / "m", **values))
    assert text in str(caught.value), str(caught.value)

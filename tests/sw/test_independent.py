"""GGUF files in other implementations: llama.cpp, and transformers for what it reads of them.

On float32 files with a float32 cache both must choose the same tokens. On quantised files llama.cpp
rounds activations as well, in its own way: there logits are compared, within a stated tolerance.
"""

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import compile_model
from headrace.sw.fetch import fetched_file
from headrace.sw.presets import presets_for
from headrace.sw.quality import teacher_forced
from headrace.sw.reference import Reference

from .hf_models import MODELS, save_model
from .llama_cpp import LlamaCpp
from .model_files import BPE, RANDOM_BLOCKS, write_gguf
from .models import ids, shape
from .test_gguf_architectures import CHANGES, architecture


#: llama.cpp ignores windows of these architectures.
WINDOWS = ("mistral, window", "qwen2, windows")

#: Largest difference of a logarithm of a probability. llama.cpp has a table of GELU in half
#: precision, and logits of these models of Gemma and SmolLM3 go up to 40.
TOLERANCE = {"gemma2": 1e-2, "gemma3": 1e-2, "smollm3": 1e-4}


def log_probabilities(logits):
    """Logarithms of the probabilities that logits stand for."""
    values = logits.astype(np.float64)
    values = values - values.max(axis=-1, keepdims=True)
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [each for each in MODELS if each not in WINDOWS])
def test_llama_cpp_chooses_the_same_tokens(tmp_path, kind):
    prompt, _ = save_model(kind, tmp_path, **CHANGES.get(kind, {}))
    path = write_gguf(tmp_path / "m.gguf", load_checkpoint(tmp_path), arch=architecture(kind))
    other, reference = LlamaCpp(path), Reference(load_checkpoint(path))
    tokens, chosen = prompt[:20], []
    # The tokens of a text, then their own.
    for at in range(20, 44):
        logits = reference.logits(tokens)[-1]
        token, found = other.predict(tokens, len(BPE))
        assert np.abs(found - log_probabilities(logits)).max() < TOLERANCE.get(kind, 1e-5)
        assert token == int(logits.argmax())
        chosen.append(token)
        tokens.append(prompt[at] if at < 36 else token)
    assert len(set(chosen)) > 3


#: Mean difference of a logarithm of a probability, in standard deviations of these: of llama.cpp
#: from the float reference, and from the golden machine. Both round activations to int8; blocks
#: that the tests draw at random spread wider than those of a model, and are rounded to W8 here.
QUANTISED = {Type.Q4_K: (0.03, 0.05), Type.Q5_K: (0.03, 0.06), Type.Q6_K: (0.08, 0.15)}
USUAL = (0.015, 0.02)


@pytest.mark.parametrize("dtype", [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1,
                                   *RANDOM_BLOCKS], ids=lambda each: each.name)
def test_llama_cpp_is_close_on_quantised_files(tmp_path, dtype):
    source = SyntheticCheckpoint(shape(dim=256, ffn=256, heads=8, kv_heads=4, head_dim=32,
                                       tied=False))
    path = write_gguf(tmp_path / "m.gguf", source, dtype)
    checkpoint = load_checkpoint(path)
    tokens = ids(24)
    found = np.stack([LlamaCpp(path).predict(tokens[:at], len(BPE))[1] for at in (1, 9, 24)])
    here = {"float": Reference(checkpoint).logits(tokens),
            "golden": teacher_forced(compile_model(checkpoint, PRESETS["edge"]), tokens)}
    for (name, logits), most in zip(here.items(), QUANTISED.get(dtype, USUAL)):
        expected = log_probabilities(logits[[0, 8, 23]])
        error = np.abs(found - expected).mean() / expected.std()
        assert error < most, name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["llama", "llama, untied, head_dim apart", "qwen2", "mistral"])
def test_transformers_reads_the_same(tmp_path, kind):
    """It reads neither scaled embeddings nor windows nor sizes of heads of all architectures."""
    pytest.importorskip("accelerate", reason="needs the extra `independent`")
    prompt, _ = save_model(kind, tmp_path)
    path = write_gguf(tmp_path / "m.gguf", load_checkpoint(tmp_path), arch=architecture(kind))
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").unlink()
    import torch
    import transformers

    network = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=path.name, dtype=torch.float32).eval()
    with torch.no_grad():
        expected = network(torch.tensor([prompt])).logits[0].numpy()
    assert np.abs(Reference(load_checkpoint(path)).logits(prompt) - expected).max() < 5e-5


#: Of real files: the same measure over the 50 most probable tokens, float and golden.
FETCHED = {"smollm2-135m": (0.1, 0.12), "gemma3-270m": (0.08, 0.13)}

TEXT = "The quick brown fox jumps over 12 lazy dogs.\n\nThen it says: \"Caf\u00e9!\" and"


@pytest.mark.slow
@pytest.mark.parametrize("name", FETCHED)
def test_llama_cpp_is_close_on_models_that_people_use(name):
    path = fetched_file(name)
    if path is None:
        pytest.skip(f"needs `headrace fetch {name}`")
    checkpoint, other = load_checkpoint(name), LlamaCpp(path)
    vocab, tokens = checkpoint.shape.vocab, checkpoint.need_tokenizer().encode(TEXT)
    # Its tokenizer, in which only the same tokens give the same numbers, says the same.
    token, found = other.predict(tokens, vocab, 50)
    assert np.array_equal(other.predict(TEXT, vocab, 50)[1], found, equal_nan=True)
    seen = np.isfinite(found)
    config = presets_for(checkpoint.shape)["wide-head256" if "gemma" in name else "wide"]
    here = {"float": Reference(checkpoint).logits(tokens)[-1],
            "golden": teacher_forced(compile_model(checkpoint, config, context=64), tokens)[-1]}
    for (kind, logits), most in zip(here.items(), FETCHED[name]):
        expected = log_probabilities(logits)
        error = np.abs(found - expected)[seen].mean() / expected[seen].std()
        assert error < most, kind


@pytest.mark.slow
def test_llama_cpp_chooses_the_same_tokens_of_smollm2(tmp_path):
    """The weights of the file, dequantised: whatever differs above is rounding of activations."""
    if fetched_file("smollm2-135m") is None:
        pytest.skip("needs `headrace fetch smollm2-135m`")
    source = load_checkpoint("smollm2-135m")
    vocab, tokens = source.shape.vocab, source.need_tokenizer().encode(TEXT)
    # The vocabulary is left out: tokens go in and come out.
    names = [*BPE, *(f"<{index}>" for index in range(len(BPE), vocab))]
    path = write_gguf(tmp_path / "m.gguf", source, tokens=names)
    other, reference = LlamaCpp(path), Reference(load_checkpoint(path))
    for _ in range(12):
        logits = reference.logits(tokens)[-1]
        token, found = other.predict(tokens, vocab, 50)
        seen = np.isfinite(found)
        assert np.abs(found - log_probabilities(logits))[seen].max() < 5e-4
        assert token == int(logits.argmax())
        tokens.append(token)
    path.unlink()      # half a gigabyte

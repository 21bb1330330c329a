"""Checkpoint folders: what loads, and one clear message for whatever does not."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from headrace.sw.checkpoint import (
    ModelShape,
    Rope,
    SyntheticCheckpoint,
    find_model,
    load_checkpoint,
    read_shape,
)
from headrace.sw.errors import HeadraceError

from .models import shape


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 48,
          "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 37,
          "max_position_embeddings": 80, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": True, "eos_token_id": 2}


def _tensors():
    source = SyntheticCheckpoint(shape())
    return {name: source.tensor(name) for name in source.shape.tensors()}


def _write(folder, config=None, tensors=None, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {}), **changes}))
    save_file(_tensors() if tensors is None else tensors, folder / "model.safetensors")
    return folder


def _bfloat16(values):
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def _raw_safetensors(path, tensors, dtype):
    """Write a file without the library, which has no BF16 in NumPy."""
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _fails(folder, *parts):
    """The message of the error, which must contain all of `parts`."""
    with pytest.raises(HeadraceError) as caught:
        checkpoint = load_checkpoint(folder)
        for name in checkpoint.shape.tensors():
            checkpoint.tensor(name)
    assert caught.value.exit_code == 2
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    return str(caught.value)


def test_loads_its_shape_and_tensors(tmp_path):
    checkpoint = load_checkpoint(_write(tmp_path / "m"))
    assert checkpoint.shape == shape(eos=(2,), ropes=(Rope(theta=10000.0),))
    assert checkpoint.tokenizer is None and checkpoint.name == "m"
    for name, values in _tensors().items():
        assert np.array_equal(checkpoint.tensor(name), values)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_narrow_floats_convert_exactly(tmp_path, dtype):
    folder = _write(tmp_path / "m")
    narrow = {name: values.astype(np.float16) if dtype == "F16" else _bfloat16(values)
              for name, values in _tensors().items()}
    _raw_safetensors(folder / "model.safetensors", narrow, dtype)
    checkpoint = load_checkpoint(folder)
    for name, values in narrow.items():
        exact = (values.astype(np.float32) if dtype == "F16"
                 else (values.astype(np.uint32) << 16).view(np.float32))
        assert np.array_equal(checkpoint.tensor(name), exact)


def test_several_files_with_an_index(tmp_path):
    folder = _write(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    tensors = _tensors()
    names = sorted(tensors)
    weight_map = {}
    for file, part in (("a.safetensors", names[::2]), ("b.safetensors", names[1::2])):
        save_file({name: tensors[name] for name in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    checkpoint = load_checkpoint(folder)
    assert all(np.array_equal(checkpoint.tensor(name), tensors[name]) for name in names)
    (folder / "b.safetensors").unlink()
    _fails(folder, "b.safetensors: missing, but model.safetensors.index.json names it")
    index.write_text(json.dumps({"weight_map": {"x": "../x.safetensors"}}))
    _fails(folder, "'../x.safetensors': expected names of files in the same folder")
    index.write_text("[]")
    _fails(folder, "expected a JSON object, not a list")
    index.write_text("{}")
    _fails(folder, "expected an object `weight_map`")


def test_defaults(tmp_path):
    config = {key: value for key, value in CONFIG.items()
              if key not in ("head_dim", "num_key_value_heads", "rms_norm_eps", "eos_token_id")}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = read_shape(tmp_path)
    assert (found.head_dim, found.kv_heads, found.n_rep, found.eos) == (12, 4, 1, ())


def test_end_tokens_of_the_generation_config(tmp_path):
    _write(tmp_path / "m")
    (tmp_path / "m" / "generation_config.json").write_text('{"eos_token_id": [2, 5]}')
    assert read_shape(tmp_path / "m").eos == (2, 5)


def test_rope_parameters(tmp_path):
    folder = _write(tmp_path / "m", rope_theta=None,
                    rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    assert read_shape(folder).theta == 500


def test_built_in_model():
    checkpoint = load_checkpoint("demo")
    assert isinstance(checkpoint.shape, ModelShape) and checkpoint.shape.vocab == 512
    assert checkpoint.tokenizer is not None
    ids = checkpoint.tokenizer.encode("Once upon a time")
    assert ids[0] == checkpoint.shape.bos
    assert checkpoint.tokenizer.decode(ids) == "Once upon a time"


def test_stream_of_text_equals_the_whole_text():
    tokenizer = load_checkpoint("demo").tokenizer
    assert tokenizer is not None
    text = "Once a caf\u00e9 \U0001f600 opened."
    ids = tokenizer.encode(text)
    stream = tokenizer.stream()
    parts = [stream.push(token) for token in ids]
    assert "".join(parts) + stream.finish() == text
    assert not any("\ufffd" in part for part in parts)


def test_sentencepiece_tokenizer(babyllama):
    tokenizer = load_checkpoint(babyllama).tokenizer
    assert tokenizer is not None and tokenizer.size == 105
    expected = json.loads((babyllama / "expected.json").read_text())[0]
    assert tokenizer.encode(expected["prompt"]) == expected["prompt_tokens"]
    assert tokenizer.decode(expected["prompt_tokens"]) == expected["prompt"]


# Bad input.

def test_missing_folder(tmp_path):
    _fails(tmp_path / "none", "does not exist", "expected a Hugging Face checkpoint folder",
           "demo, smollm2-135m")


def test_file_instead_of_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadraceError, match="is a file of an unknown kind: expected a Hugging"):
        load_checkpoint(tmp_path / "file")


def test_missing_config(tmp_path):
    _fails(tmp_path, "config.json: cannot be read: No such file")


def test_damaged_config(tmp_path):
    (tmp_path / "config.json").write_text("{")
    _fails(tmp_path, "config.json: not a JSON file")


def test_missing_weights(tmp_path):
    folder = _write(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    _fails(folder, "no weights: expected model.safetensors", "pytorch_model.bin is not supported")


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_truncated_safetensors(tmp_path, size):
    folder = _write(tmp_path / "m")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    _fails(folder, "model.safetensors: truncated", "download the file again")


def test_no_safetensors(tmp_path):
    folder = _write(tmp_path / "m")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"x" * 50)
    _fails(folder, "model.safetensors: not a safetensors file")


@pytest.mark.parametrize("facts, text", [
    ({"dtype": "F32"}, "describes tensor 'a' wrongly"),
    ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "needs 8 bytes, but the header gives "
                                                             "it 4"),
    ({"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}, "the header is damaged"),
])
def test_damaged_header(tmp_path, facts, text):
    folder = _write(tmp_path / "m")
    header = json.dumps({"a": facts}).encode()
    (folder / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(64))
    _fails(folder, text)


def test_unsupported_type(tmp_path):
    tensors = _tensors()
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.float64)
    _fails(_write(tmp_path / "m", tensors=tensors), "'model.norm.weight' has type F64",
           "supported are F32, F16, BF16")


@pytest.mark.parametrize("changes, parts", [
    ({"architectures": ["MixtralForCausalLM"]},
     ["unsupported architecture: MixtralForCausalLM", "supported: LlamaForCausalLM, Mist"]),
    ({"architectures": None, "model_type": "gpt2"},
     ["unsupported architecture: model_type 'gpt2'"]),
    ({"hidden_act": "gelu"}, ["hidden_act is 'gelu'", "expected silu or swish or gelu_"]),
    ({"attention_bias": True}, ["attention_bias is True", "nothing else is supported"]),
    ({"mlp_bias": True}, ["mlp_bias is True", "nothing else is supported"]),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 8}},
     ["rope_scaling is", "a rotary embedding of type default, linear, llama3, yarn"]),
    ({"quantization_config": {"bits": 4}}, ["the checkpoint is quantised"]),
    ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor is 0.5"]),
    ({"num_key_value_heads": 3}, ["num_key_value_heads is 3", "divisor of num_attention_heads"]),
    ({"head_dim": 15}, ["head_dim is 15", "even"]),
    ({"head_dim": None, "num_attention_heads": 5, "num_key_value_heads": 5},
     ["hidden_size 48 is no multiple of num_attention_heads 5"]),
    ({"hidden_size": "48"}, ["hidden_size is '48'", "whole number"]),
    ({"num_hidden_layers": 0}, ["num_hidden_layers is 0"]),
    ({"rms_norm_eps": 0}, ["rms_norm_eps is 0", "a number above 0"]),
    ({"eos_token_id": "end"}, ["eos_token_id is 'end'"]),
    ({"vocab_size": 40}, ["'model.embed_tokens.weight' has 37 rows", "vocab_size in config.json "
                          "is 40"]),
    ({"intermediate_size": 45}, ["'model.layers.0.mlp.gate_proj.weight' has shape [44, 48]",
                                 "expected [45, 48]"]),
    ({"num_hidden_layers": 3}, ["missing tensor 'model.layers.2.self_attn.q_proj.weight'"]),
    ({"tie_word_embeddings": False}, ["missing tensor 'lm_head.weight'", "[37, 48]"]),
])
def test_bad_config(tmp_path, changes, parts):
    _fails(_write(tmp_path / "m", changes), "config.json" if "missing" not in parts[0] else "m:",
           *parts)


def test_bias_tensor(tmp_path):
    tensors = _tensors()
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(64, np.float32)
    _fails(_write(tmp_path / "m", tensors=tensors), "'model.layers.0.self_attn.q_proj.bias'",
           "a bias that architecture llama does not have")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(tmp_path, value):
    tensors = _tensors()
    tensors["model.layers.1.mlp.up_proj.weight"][7, 3] = value
    _fails(_write(tmp_path / "m", tensors=tensors), "'model.layers.1.mlp.up_proj.weight'",
           f"holds {value} at index [7, 3]")


def test_vocabulary_larger_than_the_embedding(tmp_path):
    folder = _write(tmp_path / "m")
    shutil.copy(find_model("demo") / "tokenizer.json", folder)
    _fails(folder, "the vocabulary has 512 tokens, but the embedding table has 37 rows")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model"])
def test_damaged_tokenizer(tmp_path, name):
    folder = _write(tmp_path / "m")
    (folder / name).write_text("nonsense")
    _fails(folder, f"{name}: not a")

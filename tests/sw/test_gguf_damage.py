"""GGUF files that are damaged or not supported: one clear message, and only our error."""

import struct

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf.quants import quantize
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.checkpoint.architectures import GGUF_FORMS
from headrace.sw.compiler import compile_model
from headrace.sw.errors import HeadraceError
from headrace.sw.quality import teacher_forced

from .model_files import BPE, RANDOM_BLOCKS, random_blocks, write_gguf
from .models import FEATURES, shape


TINY = PRESETS["tiny"]

#: Rows of whole blocks of 256.
WIDE = {"dim": 256, "ffn": 256, "layers": 1, "heads": 8, "kv_heads": 4, "head_dim": 32}


def _fails(path, *parts):
    with pytest.raises(HeadraceError) as caught:
        checkpoint = load_checkpoint(path)
        compile_model(checkpoint, TINY)
    for part in (str(path), *parts):
        assert part in str(caught.value), str(caught.value)


def _u32(value):
    return "add_uint32", value


@pytest.mark.parametrize("change, parts", [
    ({"general.architecture": ("add_string", "mamba")}, ["unsupported architecture 'mamba'",
                                                         "supported: llama, qwen2, qwen3"]),
    ({"general.architecture": ("add_uint32", 3)}, ["unsupported architecture 3"]),
    ({"llama.block_count": _u32(3)}, ["missing tensor 'model.layers.2.self_attn.q_proj.weight'"]),
    ({"llama.block_count": _u32(60_000)}, ["expected 60,000 layers"]),
    ({"llama.block_count": _u32(2_000_000_000)}, ["block_count is 2000000000", "to 65536"]),
    ({"llama.block_count": _u32(1)}, ["tensor 'blk.1.attn_q.weight'", "1 layers has no such"]),
    ({"llama.embedding_length": _u32(47)}, ["'model.embed_tokens.weight' has shape [37, 48]"]),
    ({"llama.embedding_length": _u32(0)}, ["llama.embedding_length is 0", "whole number"]),
    ({"llama.embedding_length": ("add_string", "48")}, ["llama.embedding_length is '48'"]),
    ({"llama.vocab_size": _u32(40)}, ["'model.embed_tokens.weight' has 37 rows", "40"]),
    ({"llama.attention.head_count_kv": _u32(3)}, ["head_count_kv is 3", "divisor"]),
    ({"llama.attention.head_count": ("add_array", [4, 2])}, ["one number for all layers"]),
    ({"llama.attention.key_length": _u32(15)}, ["key_length is 15", "even"]),
    ({"llama.attention.value_length": _u32(8)}, ["value_length is 8", "the size of a head, 16"]),
    ({"llama.rope.dimension_count": _u32(8)}, ["rope.dimension_count is 8", "head, 16"]),
    ({"llama.rope.scaling.type": ("add_string", "longrope")},
     ["rope.scaling.type is 'longrope'", "none or linear or yarn"]),
    ({"llama.rope.scaling.factor": ("add_float32", 4.0)},
     ["scaling.factor is 4.0: expected 1, as rope.scaling.type is 'none'"]),
    ({"llama.rope.scaling.type": ("add_string", "linear"),
      "llama.rope.scaling.factor": ("add_float32", -4.0)}, ["scaling.factor is -4.0"]),
    ({"llama.rope.scaling.type": ("add_string", "yarn"),
      "llama.rope.scaling.factor": ("add_float32", 4.0),
      "llama.rope.scaling.yarn_ext_factor": ("add_float32", 0.5)},
     ["yarn_ext_factor is 0.5", "for architecture llama"]),
    ({"llama.rope.scaling.type": ("add_string", "yarn"),
      "llama.rope.scaling.factor": ("add_float32", 4.0),
      "llama.rope.scaling.original_context_length": _u32(0)}, ["context_length is 0"]),
    ({"llama.expert_count": _u32(8)}, ["llama.expert_count is 8"]),
    ({"llama.attention.causal": ("add_bool", False)}, ["attention.causal is False"]),
    ({"llama.attention.sliding_window": ("add_string", "x")}, ["attention.sliding_window is 'x'"]),
    ({"llama.attention.sliding_window": _u32(64),
      "llama.attention.sliding_window_pattern": ("add_array", [True])}, ["or 2 of true or false"]),
    ({"llama.attention.sliding_window": _u32(64),
      "llama.attention.sliding_window_pattern": ("add_int32", -1)}, ["window_pattern is -1"]),
    ({"llama.attention.layer_norm_rms_epsilon": ("add_float32", float("nan"))}, ["epsilon is nan"]),
    ({"llama.rope.freq_base": ("add_float32", float("inf"))}, ["freq_base is inf"]),
    ({"tokenizer.ggml.tokens": ("add_array", [*BPE, "one more"])},
     ["the vocabulary has 38 tokens", "embedding table has 37 rows"]),
    ({"tokenizer.ggml.tokens": ("add_array", [1, 2])}, ["tokens: expected an array of strings"]),
    ({"general.alignment": _u32(48)}, ["general.alignment is 48: expected a power of two"]),
])
def test_metadata_that_contradict(tmp_path, change, parts):
    _fails(write_gguf(tmp_path / "m.gguf", change=change), *parts)


@pytest.mark.parametrize("replace, parts", [
    ({"rope_freqs.weight": (np.ones(7, np.float32), None)},
     ["'rope_freqs.weight' has 7 values: expected 8, one for each pair"]),
    ({"rope_freqs.weight": (np.ones(8, np.float16), None)}, ["has type F16 and shape [8]"]),
    ({"rope_freqs.weight": (np.zeros(8, np.float32), None)}, ["'rope_freqs.weight' holds 0.0"]),
    ({"rope_freqs.weight": (np.full(8, np.nan, np.float32), None)}, ["'rope_freqs.weight' holds"]),
    ({"rope_factors_long.weight": (np.ones(8, np.float32), None)},
     ["'rope_factors_long.weight': long and short rotary embeddings are not supported"]),
    ({"blk.0.attn_q_norm.weight": (np.ones(16, np.float32), None)},
     ["'blk.0.attn_q_norm.weight': a llama model of 2 layers has no such tensor"]),
    ({"blk.0.attn_q.bias": (np.ones(64, np.float32), None)},
     ["'blk.0.attn_q.bias': a bias that architecture llama does not have"]),
    ({"token_embd.weight": (np.ones((37, 48), np.float64), None)},
     ["'token_embd.weight' has type F64", "supported are F32, F16, BF16, Q8_0"]),
    ({"output_norm.weight": (np.full(48, np.nan, np.float32), None)},
     ["'output_norm.weight' holds nan at index [0]"]),
])
def test_tensors_that_are_not_supported(tmp_path, replace, parts):
    _fails(write_gguf(tmp_path / "m.gguf", replace=replace), *parts)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [Type.Q8_0, Type.Q4_1, Type.Q4_K, Type.Q5_1])
def test_scales_that_are_no_numbers(tmp_path, dtype, value):
    raw = (random_blocks(dtype, 256, 256) if dtype in RANDOM_BLOCKS else
           quantize(np.ones((256, 256), np.float32), dtype))
    raw[3, :2] = np.array([value], np.float16).view(np.uint8)
    path = write_gguf(tmp_path / "m.gguf", SyntheticCheckpoint(shape(**WIDE)), dtype,
                      replace={"blk.0.ffn_down.weight": (raw, dtype)})
    _fails(path, "'blk.0.ffn_down.weight", "expected finite weights")


@pytest.mark.parametrize("change, drop, reason", [
    ({}, ("tokenizer.ggml.tokens",), "the file has no tokens"),
    ({}, ("tokenizer.ggml.merges",), "there are no merges"),
    ({"tokenizer.ggml.model": ("add_string", "bert")}, (), "its kind 'bert'"),
    ({"tokenizer.ggml.pre": ("add_string", "tekken")}, (),
     "pre-tokenizer 'tekken' is not supported; supported: gpt-2"),
    ({"tokenizer.ggml.merges": ("add_array", ["x y"])}, (), "merge 0, 'x y', is no pair"),
    ({"tokenizer.ggml.bos_token_id": _u32(99)}, (), "bos is token 99 of 37"),
    ({"tokenizer.ggml.tokens": ("add_array", ["a"] * 37)}, (), "token 'a' occurs twice"),
    ({"tokenizer.ggml.token_type": ("add_array", [1])}, (), "1 types for 37 tokens"),
    ({"tokenizer.ggml.model": ("add_string", "llama")}, (), "there are no scores"),
])
def test_model_without_a_usable_tokenizer_still_runs(tmp_path, change, drop, reason):
    checkpoint = load_checkpoint(write_gguf(tmp_path / "m.gguf", change=change, drop=drop))
    with pytest.raises(HeadraceError, match=f"no tokenizer, .*{reason}.*give token ids instead"):
        checkpoint.need_tokenizer()
    assert len(teacher_forced(compile_model(checkpoint, TINY), [1, 2])) == 2


def _damaged(tmp_path, edit):
    path = write_gguf(tmp_path / "m.gguf")
    raw = bytearray(path.read_bytes())
    edit(raw)
    path.write_bytes(raw)
    return path


def _count(at, value):
    return lambda raw: raw.__setitem__(slice(at, at + 8), struct.pack("<Q", value))


@pytest.mark.parametrize("edit, parts", [
    (lambda raw: raw.__setitem__(slice(0, 4), b"GGML"), ["not a GGUF file", "with b'GGML'"]),
    (lambda raw: raw.clear(), ["not a GGUF file: it begins with b''"]),
    (lambda raw: raw.__delitem__(slice(6, None)), ["truncated", "the version"]),
    (lambda raw: raw.__delitem__(slice(300, None)), ["truncated", "the file has 300"]),
    (lambda raw: raw.__delitem__(slice(-40, None)), ["truncated", "ends at byte"]),
    (lambda raw: raw.__setitem__(4, 1), ["GGUF, version 1", "version 2 and 3"]),
    (lambda raw: raw.__setitem__(slice(4, 8), b"\0\0\0\3"), ["a big-endian file"]),
    (_count(8, 1 << 62), ["a list of 4,611,686,018,427,387,904 tensors"]),
    (_count(16, 1 << 62), ["metadata of 4,611,686,018,427,387,904 keys"]),
    (_count(24, 1 << 60), ["key 0 has 1,152,921,504,606,846,976 bytes: expected at most 65,535"]),
    (lambda raw: raw.__setitem__(32, 0xff), ["key 0 is no UTF-8"]),
    (lambda raw: raw.__setitem__(slice(52, 56), struct.pack("<I", 99)),
     ["key 'general.architecture' has type 99"]),
    (lambda raw: raw.__setitem__(slice(raw.index(b"th e"), raw.index(b"th e") + 2), b"\xff\xfe"),
     ["key 'tokenizer.ggml.merges'[1] is no UTF-8"]),
    # The length of an array, behind its key, its type and that of its items.
    (lambda raw: _count(raw.index(b"ggml.merges") + 19, 1 << 61)(raw), ["ggml.merges' needs"]),
    # Dimensions, then sizes, behind the name of the first tensor.
    (lambda raw: raw.__setitem__(raw.index(b"token_embd.weight") + 17, 9), ["9 dimensions"]),
    (lambda raw: _count(raw.index(b"token_embd.weight") + 21, 1 << 62)(raw), ["ends at byte"]),
    (lambda raw: _count(raw.index(b"token_embd.weight") + 21, 0)(raw), ["has shape [37, 0]"]),
    (lambda raw: raw.__setitem__(raw.index(b"token_embd.weight") + 37, 200), ["unknown type 200"]),
    (lambda raw: raw.__setitem__(raw.index(b"token_embd.weight") + 37, int(Type.Q8_0)),
     ["of type Q8_0 has shape [37, 48]: expected rows of a multiple of 32"]),
    (lambda raw: _count(raw.index(b"token_embd.weight") + 41, 1 << 40)(raw), ["ends at byte"]),
    (lambda raw: _count(raw.index(b"token_embd.weight") + 41, 7)(raw), ["begins at offset 7"]),
], ids=range(21))
def test_damaged_file(tmp_path, edit, parts):
    _fails(_damaged(tmp_path, edit), *parts)


def test_missing_file(tmp_path):
    with pytest.raises(HeadraceError, match="does not exist"):
        load_checkpoint(tmp_path / "none.gguf")


#: Models with everything that metadata can say.
SOURCES = {"llama": shape(), "gemma3": shape(**FEATURES["post norms, GELU"], qk_norm=True,
                                             window_of=(20, 20), architecture="gemma3")}


@pytest.fixture(scope="module", params=SOURCES)
def good(request, tmp_path_factory):
    path = write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf",
                      SyntheticCheckpoint(SOURCES[request.param]))
    return path, path.read_bytes()


@seed(4)
@settings(max_examples=300, deadline=None, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, 6000), st.binary(min_size=1, max_size=8)),
                      min_size=1, max_size=4), cut=st.integers(0, 1 << 20))
@example(edits=[(8, b"\xff" * 8)], cut=0)
def test_only_our_error_comes_out(good, tmp_path, edits, cut):
    """Random bytes in the header, and random lengths: the file loads or is refused."""
    _, raw = good
    damaged = bytearray(raw)
    for at, data in edits:
        damaged[at:at + len(data)] = data
    if cut % 3 == 0:
        del damaged[cut % len(raw):]
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damaged)
    _read_all(path)


def _read_all(path):
    try:
        checkpoint = load_checkpoint(path)
        for name in checkpoint.shape.tensors():
            checkpoint.tensor(name)
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.decode(checkpoint.tokenizer.encode("the cat"))
    except HeadraceError as error:
        assert str(path) in str(error)


#: Keys that say how a model computes.
_KEYS = ("block_count", "attention.head_count_kv", "attention.key_length", "attention.scale",
         "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base",
         "rope.freq_base_swa", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear",
         "rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast",
         "rope.scaling.yarn_ext_factor", "rope.scaling.attn_factor", "rope.dimension_count",
         "final_logit_softcapping")

_VALUES = st.one_of(
    st.sampled_from(["none", "linear", "yarn", "su", ""]).map(lambda v: ("add_string", v)),
    st.sampled_from([0, 1, 2, 6, 1 << 20, (1 << 32) - 1]).map(lambda v: ("add_uint32", v)),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda v: ("add_int32", v)),
    st.floats(width=32).map(lambda v: ("add_float32", v)),
    st.booleans().map(lambda v: ("add_bool", v)),
    st.lists(st.booleans(), min_size=1, max_size=3).map(lambda v: ("add_array", v)))


def _source(arch):
    gemma = arch.startswith("gemma")
    return shape(**FEATURES["post norms, GELU"] if gemma else {}, qkv_bias=arch == "qwen2",
                 qk_norm=arch in ("qwen3", "gemma3"), dim=32, ffn=32)


@seed(5)
@settings(max_examples=120, deadline=None, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arch=st.sampled_from(sorted(GGUF_FORMS)),
       change=st.dictionaries(st.sampled_from(_KEYS), _VALUES, min_size=1, max_size=4))
def test_any_value_of_any_type(tmp_path, arch, change):
    """Whatever the metadata say, the model loads and its tables are finite, or it is refused."""
    path = write_gguf(tmp_path / "m.gguf", SyntheticCheckpoint(_source(arch)), arch=arch,
                      change={f"{arch}.{key}": value for key, value in change.items()})
    try:
        checkpoint = load_checkpoint(path)
    except HeadraceError as error:
        assert str(path) in str(error)
        return
    for rope in checkpoint.shape.all_ropes:
        assert np.isfinite(rope.frequencies(16)).all() and np.isfinite(rope.magnitude)
    assert np.isfinite(checkpoint.shape.score_factor)

"""GGUF files: what is read, what is taken over, and one clear message for whatever is not."""

import json
import struct

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from gguf.quants import dequantize, quantize
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st

from headrace.hw.config import PRESETS
from headrace.hw.isa import Format
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.checkpoint.gguf import gguf_name
from headrace.sw.checkpoint.gguf_blocks import NATIVE, SUPPORTED, native_blocks, to_float
from headrace.sw.checkpoint.gguf_header import read_header
from headrace.sw.compiler import compile_model, plan_model
from headrace.sw.errors import HeadraceError
from headrace.sw.layout import unpack_weights
from headrace.sw.quality import teacher_forced
from headrace.sw.reference import Reference

from .model_files import BPE, FLOATS, RANDOM_BLOCKS, permuted, random_blocks, write_gguf
from .models import ids, shape


TINY = PRESETS["tiny"]

#: Rows of whole blocks of 256; head_dim 32 twice.
WIDE = {"dim": 256, "ffn": 256, "layers": 1, "heads": 8, "kv_heads": 4, "head_dim": 32}


def _raw(dtype, rows=24, k=512, scale=1.0):
    """Bytes of a matrix, and what the library makes of them."""
    if dtype in RANDOM_BLOCKS:
        raw = random_blocks(dtype, rows, k, seed=dtype.value)
    else:
        w = np.random.default_rng(dtype.value).standard_normal((rows, k), np.float32) * scale
        raw = quantize(w, dtype).view(np.uint8)
    return raw.reshape(-1), dequantize(raw.reshape(rows, -1), dtype).reshape(rows, k)


# Weights.

@pytest.mark.parametrize("dtype", SUPPORTED, ids=lambda each: each.name)
def test_floats_are_those_of_the_library(dtype):
    raw, expected = _raw(dtype)
    # At an odd byte, as a damaged alignment could have it.
    shifted = np.concatenate([np.zeros(1, np.uint8), raw])[1:]
    found = to_float(shifted, dtype, (24, 512))
    assert found.dtype == np.float32 and np.array_equal(found, expected)


EXACT = [dtype for dtype, kind in NATIVE.items() if kind.exact]


def test_types_that_are_taken_over_exactly():
    assert EXACT == [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0]
    assert list(NATIVE)[4:] == [Type.Q4_K]


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e4], ids=["usual", "subnormal", "large"])
@pytest.mark.parametrize("dtype", EXACT, ids=lambda each: each.name)
def test_blocks_are_taken_over_without_loss(dtype, scale):
    raw, expected = _raw(dtype, scale=scale)
    found = native_blocks(raw, dtype, (24, 512))
    assert found.q.shape == (512, 24) and found.scales.shape == (16, 24)
    # Exact in float64; float32 rounds the sum of Q4_1 once, as the library does.
    assert np.array_equal(found.dequantise().T.astype(np.float32), expected)
    assert np.unique(expected).size > 30 or scale < 1


@pytest.mark.parametrize("dtype", EXACT, ids=lambda each: each.name)
def test_every_bit_pattern_of_a_block(dtype):
    size = {Type.Q8_0: 34, Type.Q4_0: 18, Type.Q4_1: 20, Type.Q5_0: 22}[dtype]
    raw = np.random.default_rng(5).integers(0, 256, (4000, size), np.uint8)
    scales = raw[:, :4 if dtype == Type.Q4_1 else 2].copy().view("<f2").astype(np.float32)
    raw = raw[np.isfinite(scales).all(axis=1)]
    found = native_blocks(raw.reshape(-1), dtype, (len(raw), 32))
    assert np.array_equal(found.dequantise().T.astype(np.float32), dequantize(raw, dtype))


def test_scales_of_q4_k_are_rounded_to_fp16():
    """A product of an fp16 number and 6 bits has up to 17 bits, fp16 has 11: the integers stay,
    scales and minima move by at most half a unit in their last place."""
    raw, expected = _raw(Type.Q4_K, rows=200, k=1024)
    found = native_blocks(raw, Type.Q4_K, (200, 1024))
    step = np.repeat(np.abs(found.scales.astype(np.float64)), 32, axis=0)
    minimum = np.repeat(np.abs(found.minima.astype(np.float64)), 32, axis=0)
    error = np.abs(found.dequantise() - expected.T)
    # Half a unit in the last place, relative for normal numbers and absolute below.
    bound = (found.q * step + minimum) * 2.0 ** -11 * 1.001 + (found.q + 1) * 2.0 ** -25
    assert (error <= bound).all()
    assert error.any(), "nothing was rounded: the claim is not tested"
    assert error.max() < 0.02 * step.max()
    # Where the products have 11 bits, nothing is lost.
    blocks = raw.reshape(-1, 144).copy()
    blocks[:, :4] = np.array([0.25, 0.5], "<f2").view(np.uint8)
    exact = native_blocks(blocks.reshape(-1), Type.Q4_K, (200, 1024))
    assert np.array_equal(exact.dequantise().T.astype(np.float32),
                          dequantize(blocks.reshape(200, -1), Type.Q4_K))


@pytest.mark.parametrize("dtype", SUPPORTED, ids=lambda each: each.name)
def test_tensors_of_a_file(tmp_path, dtype):
    source = SyntheticCheckpoint(shape(**WIDE, tied=False))
    path = write_gguf(tmp_path / "m.gguf", source, dtype)
    checkpoint = load_checkpoint(path)
    assert checkpoint.shape == shape(**WIDE, tied=False, eos=(0,), bos=1,
                                     eps=float(np.float32(1e-5)))
    library = {tensor.name: dequantize(np.array(tensor.data), tensor.tensor_type)
               for tensor in GGUFReader(path).tensors}
    for name in source.shape.tensors():
        found = checkpoint.tensor(name)
        written = library[gguf_name(name)].reshape(found.shape)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            found = permuted(found, 32)
        assert np.array_equal(found, written), name
        native = checkpoint.native(name)
        assert (native is not None) == (dtype in NATIVE and found.ndim > 1)
        if native is not None:
            blocks = checkpoint.blocks(name).dequantise().T.astype(np.float32)
            found = checkpoint.tensor(name)
            assert np.array_equal(blocks, found) or not native.exact
            assert np.allclose(blocks, found, rtol=0.01, atol=0.01 * np.abs(found).max())


@pytest.mark.parametrize("types, formats", [
    ({}, {"kv": Format.W4A, "down": Format.W4A, "head": Format.W4A}),
    # W4 fits into W4A and W8 without loss; W4A and W8 have no common format.
    ({"blk.0.attn_k.weight": Type.Q4_0}, {"kv": Format.W4A}),
    ({"blk.0.attn_k.weight": Type.Q4_0, "blk.0.attn_v.weight": Type.Q4_0}, {"kv": Format.W4}),
    ({"blk.0.attn_k.weight": Type.Q4_0, "blk.0.attn_v.weight": Type.Q8_0}, {"kv": Format.W8}),
    ({"blk.0.attn_v.weight": Type.Q8_0}, {"kv": Format.W8}),
    ({"blk.0.ffn_down.weight": Type.Q5_1, "token_embd.weight": Type.Q8_0},
     {"down": Format.W8, "head": Format.W8}),
])
def test_image_computes_with_the_weights_of_the_file(tmp_path, types, formats):
    source = SyntheticCheckpoint(shape(**WIDE))
    checkpoint = load_checkpoint(write_gguf(tmp_path / "m.gguf", source, Type.Q4_1, types=types))
    image = compile_model(checkpoint, TINY)
    for kind, fmt in formats.items():
        name = kind if kind == "head" else f"layers.0.{kind}"
        spec = plan_model(checkpoint, TINY).specs[name]
        assert spec.fmt == fmt, kind
        q, scales, minima = unpack_weights(
            fmt, image.content[image.parts[name].bytes], tiles=spec.tiles, groups=spec.k_groups,
            group=32, cols=TINY.cols, stride=TINY.stride)
        w = q * np.repeat(scales.view(np.float16).astype(np.float64), 32, axis=0)
        if minima is not None:
            w += np.repeat(minima.view(np.float16).astype(np.float64), 32, axis=0)
        tensors = {"kv": ("self_attn.k_proj", "self_attn.v_proj"), "down": ("mlp.down_proj",)}
        names = [f"model.layers.0.{part}.weight" for part in tensors.get(kind, ())]
        parts = [checkpoint.tensor(each) for each in names or ["model.embed_tokens.weight"]]
        if kind == "kv":
            parts[0] = permuted(parts[0], 32)
        expected = np.concatenate(parts)
        found = w.T[:len(expected)].astype(np.float32)
        assert np.array_equal(found, expected) == image.origins[name].startswith("taken over")
        assert np.allclose(found, expected, atol=0.02 * np.abs(expected).max())
    origins = {kind: image.origins[kind if kind == "head" else f"layers.0.{kind}"]
               for kind in formats}
    assert origins == {kind: "quantised in part" if Type.Q8_0 in types.values()
                       and Type.Q4_0 not in types.values() and kind == "kv"
                       else "quantised" if kind == "down" and types else "taken over"
                       for kind in formats}


def test_scales_of_q4_k_are_said_to_be_rounded(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", SyntheticCheckpoint(shape(**WIDE)), Type.Q4_K)
    image = compile_model(load_checkpoint(path), TINY)
    assert set(image.origins.values()) == {"taken over, scales rounded"}


def test_padded_heads_are_not_taken_over(tmp_path):
    """Groups of `o` would be cut by the padding of heads of 8 to 16."""
    source = SyntheticCheckpoint(shape(dim=64, ffn=64, heads=8, kv_heads=4, head_dim=8))
    image = compile_model(load_checkpoint(write_gguf(tmp_path / "m.gguf", source, Type.Q8_0)),
                          TINY)
    assert image.origins["layers.0.o"] == "quantised"
    assert image.origins["layers.0.q"] == "taken over"
    expected = compile_model(source, TINY)
    found, wanted = (teacher_forced(each, ids(6)) for each in (image, expected))
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


def test_file_is_the_folder(babyllama):
    """Both forms of one model give the same image, hence the same tokens at every position."""
    folder = load_checkpoint(babyllama)
    file = load_checkpoint(babyllama / "babyllama-tok105.gguf")
    images = [compile_model(each, TINY) for each in (folder, file)]
    assert np.array_equal(images[0].content, images[1].content)
    tokens = json.loads((babyllama / "expected.json").read_text())[0]["greedy"][:24]
    logits = [teacher_forced(image, tokens) for image in images]
    assert np.array_equal(logits[0], logits[1])
    assert np.array_equal(*(Reference(each).logits(tokens) for each in (folder, file)))


def test_written_file_is_the_folder(babyllama, tmp_path):
    folder = load_checkpoint(babyllama)
    path = write_gguf(tmp_path / "m.gguf", folder, tokens=[])
    found = compile_model(load_checkpoint(path), TINY)
    assert np.array_equal(found.content, compile_model(folder, TINY).content)


def test_version_2(tmp_path):
    path = write_gguf(tmp_path / "m.gguf")
    raw = bytearray(path.read_bytes())
    raw[4] = 2
    path.write_bytes(raw)
    assert read_header(path).version == 2 and load_checkpoint(path).shape.dim == 48


def test_tokenizer_and_template(tmp_path):
    checkpoint = load_checkpoint(write_gguf(tmp_path / "m.gguf"))
    tokenizer = checkpoint.need_tokenizer()
    assert [BPE[i] for i in tokenizer.encode("the cat<user>12 and<end>")] == [
        "the", "\u0120", "c", "a", "t", "<user>", "\u0120", "and", "<end>"]
    assert tokenizer.template == "{{ messages }}"


def test_output_layer_of_its_own(tmp_path):
    checkpoint = load_checkpoint(write_gguf(tmp_path / "m.gguf",
                                            SyntheticCheckpoint(shape(tied=False))))
    assert not checkpoint.shape.tied
    assert checkpoint.tensor("lm_head.weight").shape == (37, 48)


# Bad input.

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
                                                         "supported: llama"]),
    ({"llama.block_count": _u32(3)}, ["missing tensor 'model.layers.2.input_layernorm.weight'"]),
    ({"llama.block_count": _u32(2_000_000_000)}, ["expected 2,000,000,000 layers"]),
    ({"llama.block_count": _u32(1)}, ["tensor 'blk.1.attn_norm.weight'", "1 layers has no such"]),
    ({"llama.embedding_length": _u32(47)}, ["'model.embed_tokens.weight' has shape [37, 48]"]),
    ({"llama.embedding_length": _u32(0)}, ["llama.embedding_length is 0", "whole number"]),
    ({"llama.embedding_length": ("add_string", "48")}, ["llama.embedding_length is '48'"]),
    ({"llama.vocab_size": _u32(40)}, ["'model.embed_tokens.weight' has 37 rows", "40"]),
    ({"llama.attention.head_count_kv": _u32(3)}, ["head_count_kv is 3", "divisor"]),
    ({"llama.attention.head_count": ("add_array", [4, 2])}, ["one number for all layers"]),
    ({"llama.attention.key_length": _u32(15)}, ["key_length is 15", "even"]),
    ({"llama.attention.value_length": _u32(8)}, ["value_length is 8", "the size of a head, 16"]),
    ({"llama.rope.dimension_count": _u32(8)}, ["rope.dimension_count is 8", "head, 16"]),
    ({"llama.rope.scaling.type": ("add_string", "yarn")}, ["rope.scaling.type is 'yarn'"]),
    ({"llama.rope.scaling.type": ("add_string", "linear"),
      "llama.rope.scaling.factor": ("add_float32", 4.0)}, ["rope.scaling.type is 'linear'"]),
    ({"llama.expert_count": _u32(8)}, ["llama.expert_count is 8"]),
    ({"llama.attention.sliding_window": _u32(64)}, ["attention.sliding_window is 64"]),
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
    ({"rope_freqs.weight": (np.ones(8, np.float32), None)},
     ["'rope_freqs.weight': scaled rotary embeddings are not supported"]),
    ({"blk.0.attn_q.bias": (np.ones(64, np.float32), None)},
     ["'blk.0.attn_q.bias': biases are not supported"]),
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


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf")
    return path, path.read_bytes()


@seed(4)
@settings(max_examples=400, deadline=None, database=None,
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
    try:
        checkpoint = load_checkpoint(path)
        for name in checkpoint.shape.tensors():
            checkpoint.tensor(name)
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.decode(checkpoint.tokenizer.encode("the cat"))
    except HeadraceError as error:
        assert str(path) in str(error)


def test_types_of_the_tests_are_those_that_are_supported():
    assert set(SUPPORTED) == {*FLOATS, *RANDOM_BLOCKS, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0,
                              Type.Q5_1}

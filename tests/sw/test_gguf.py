"""GGUF files: what is read, and what is taken over."""

import json

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from gguf.quants import dequantize, quantize

from headrace.hw.config import PRESETS
from headrace.hw.isa import Format
from headrace.sw.checkpoint import Rope, SyntheticCheckpoint, load_checkpoint
from headrace.sw.checkpoint.gguf_blocks import NATIVE, SUPPORTED, native_blocks, to_float
from headrace.sw.checkpoint.gguf_header import read_header
from headrace.sw.checkpoint.gguf_names import gguf_name
from headrace.sw.compiler import compile_model, plan_model
from headrace.sw.quality import teacher_forced
from headrace.sw.reference import Reference
from headrace.sw.weight_layout import unpack_weights

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


def test_what_q4_k_would_need():
    """All products of an fp16 number and 6 bits: a sign, 6 bits of exponent and 17 of fraction
    hold each of them, fp16 with its 10 does not hold most."""
    numbers = np.arange(1, 0x7c00, dtype=np.uint16).view(np.float16).astype(np.float64)
    products = numbers[:, None] * np.arange(1, 64)
    fraction, exponent = np.frexp(products)
    assert (fraction * 2 ** 17 == np.rint(fraction * 2 ** 17)).all()
    assert exponent.max() - exponent.min() < 2 ** 6 - 1
    with np.errstate(over="ignore"):
        held = products.astype(np.float16).astype(np.float64) == products
    assert 0.1 < held.mean() < 0.3


@pytest.mark.parametrize("dtype", SUPPORTED, ids=lambda each: each.name)
def test_tensors_of_a_file(tmp_path, dtype):
    source = SyntheticCheckpoint(shape(**WIDE, tied=False))
    path = write_gguf(tmp_path / "m.gguf", source, dtype)
    checkpoint = load_checkpoint(path)
    assert checkpoint.shape == shape(**WIDE, tied=False, eos=(0,), bos=1,
                                     eps=float(np.float32(1e-5)), ropes=(Rope(),))
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


def test_types_of_the_tests_are_those_that_are_supported():
    assert set(SUPPORTED) == {*FLOATS, *RANDOM_BLOCKS, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0,
                              Type.Q5_1}

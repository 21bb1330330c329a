"""Checkpoints of llama2.c."""

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import compile_model
from headrace.sw.errors import HeadraceError

from .model_files import write_llama2c
from .models import shape


TINY = PRESETS["tiny"]

# Heads of dim / heads: the file has no other.
SHAPE = {"dim": 64, "context": 24, "bos": 1, "eos": (2, 1)}

TOKENS = [(b"<unk>", 0.0), (b"\n<s>\n", 0.0), (b"\n</s>\n", 0.0),
          *((f"<0x{byte:02X}>".encode(), 0.0) for byte in (0x41, 0xc3, 0xa9)),
          (b" ", -1.0), (b"t", -2.0), (b"h", -3.0), (b"e", -4.0), (b"th", -5.0), (b"the", -6.0),
          (b" the", -7.0), *((bytes([97 + i]), -20.0) for i in range(23) if i not in (4, 7, 19)),
          (b"x1", -30.0), (b"x2", -30.0), (b"x3", -30.0), (b"x4", -30.0)]


@pytest.mark.parametrize("tied", [True, False])
def test_loads_shape_and_tensors(tmp_path, tied):
    source = SyntheticCheckpoint(shape(**SHAPE, tied=tied))
    checkpoint = load_checkpoint(write_llama2c(tmp_path / "m.bin", source))
    assert checkpoint.shape == source.shape and checkpoint.name == "m"
    for name in source.shape.tensors():
        assert np.array_equal(checkpoint.tensor(name), source.tensor(name)), name
    assert np.array_equal(compile_model(checkpoint, TINY).content,
                          compile_model(source, TINY).content)
    with pytest.raises(HeadraceError, match="no tokenizer.bin or tokenizer.model beside it"):
        checkpoint.need_tokenizer()


def test_tokenizer(tmp_path):
    source = SyntheticCheckpoint(shape(**SHAPE))
    assert len(TOKENS) == 37
    tokenizer = load_checkpoint(write_llama2c(tmp_path / "m.bin", source, TOKENS)).need_tokenizer()
    found = tokenizer.encode("the tA\u00e9")
    assert [TOKENS[i][0] for i in found] == [b"\n<s>\n", b" the", b" ", b"t", b"<0x41>", b"<0xC3>",
                                             b"<0xA9>"]
    assert tokenizer.decode(found) == "the tA\u00e9"


def _fails(path, *parts):
    with pytest.raises(HeadraceError) as caught:
        load_checkpoint(path)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize("edit, parts", [
    (lambda raw: raw[:20], ["truncated: 20 bytes", "28 bytes of sizes"]),
    (lambda raw: raw[:-4], ["it is truncated, or of another version"]),
    (lambda raw: raw + b"1", ["it is truncated, or of another version"]),
    (lambda raw: struct.pack("<II", 0x616b3432, 1) + raw[8:], ["of version 1: supported is "
                                                              "version 0"]),
    (lambda raw: struct.pack("<i", -5) + raw[4:], ["dim is -5"]),
    (lambda raw: struct.pack("<i", 63) + raw[4:], ["dim 63, n_heads 4"]),
    (lambda raw: struct.pack("<7i", *[1 << 30] * 7) + raw[28:], ["each to be a multiple"]),
    (lambda raw: struct.pack("<7i", 1 << 30, *[1 << 28] * 6) + raw[28:], ["it is truncated"]),
])
def test_damaged_file(tmp_path, edit, parts):
    path = write_llama2c(tmp_path / "m.bin", SyntheticCheckpoint(shape(**SHAPE)))
    path.write_bytes(edit(path.read_bytes()))
    _fails(path, str(path), *parts)


@pytest.mark.parametrize("tokens, parts", [
    (TOKENS[:-1], ["truncated: 36 of 37 tokens"]), ([*TOKENS, (b"x", 0.0)], ["behind 37 tokens"]),
    ([(b"\xff", 0.0), *TOKENS[1:]], ["token 0 is no UTF-8"]),
    ([*TOKENS[:-1], TOKENS[-2]], ["'x3' occurs twice"]),
])
def test_bad_tokenizer(tmp_path, tokens, parts):
    path = write_llama2c(tmp_path / "m.bin", SyntheticCheckpoint(shape(**SHAPE)), tokens)
    _fails(path, "tokenizer.bin", *parts)


def test_weights_that_are_no_numbers(tmp_path):
    path = write_llama2c(tmp_path / "m.bin", SyntheticCheckpoint(shape(**SHAPE)))
    raw = bytearray(path.read_bytes())
    raw[28:32] = b"\xff" * 4
    path.write_bytes(raw)
    with pytest.raises(HeadraceError, match=r"'model.embed_tokens.weight' holds nan at index"):
        load_checkpoint(path).tensor("model.embed_tokens.weight")


@seed(11)
@settings(max_examples=200, deadline=None, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=st.lists(st.integers(-4, 80), min_size=7, max_size=7), tail=st.binary(max_size=64),
       words=st.binary(max_size=600))
def test_only_our_error_comes_out(tmp_path, head, tail, words):
    path = tmp_path / "m.bin"
    path.write_bytes(struct.pack("<7i", *head) + tail)
    (tmp_path / "tokenizer.bin").write_bytes(words)
    with pytest.raises(HeadraceError):
        load_checkpoint(path)


@seed(12)
@settings(max_examples=100, deadline=None, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, 500), st.binary(min_size=1, max_size=4)),
                      min_size=1, max_size=3))
def test_damaged_tokenizer_is_refused_or_works(tmp_path, edits):
    path = write_llama2c(tmp_path / "m.bin", SyntheticCheckpoint(shape(**SHAPE)), TOKENS)
    raw = bytearray((tmp_path / "tokenizer.bin").read_bytes())
    for at, data in edits:
        raw[at:at + len(data)] = data
    (tmp_path / "tokenizer.bin").write_bytes(raw)
    try:
        tokenizer = load_checkpoint(path).need_tokenizer()
        tokenizer.decode(tokenizer.encode("the"))
    except HeadraceError as error:
        assert "tokenizer.bin" in str(error)

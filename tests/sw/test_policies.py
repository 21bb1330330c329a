"""Quantisation policies as text."""

import pytest

from headrace.hw.config import PRESETS
from headrace.hw.isa import Format
from headrace.sw.checkpoint import SyntheticCheckpoint
from headrace.sw.compiler import plan_model
from headrace.sw.errors import HeadraceError
from headrace.sw.policies import parse_policy

from .models import shape


def _formats(text, layer=0):
    policy = parse_policy(text)
    return {kind: policy.format(kind if kind == "head" else f"layers.{layer}.{kind}")
            for kind in ("kv", "q", "o", "gate_up", "down", "head")}


W8, W4, W4A = Format.W8, Format.W4, Format.W4A


@pytest.mark.parametrize("text, expected", [
    (None, [None] * 6), ("native", [None] * 6), ("w8", [W8] * 6), ("W4A", [W4A] * 6),
    ("w4,head=w8", [W4] * 5 + [W8]), ("head=w8, w4", [W4] * 5 + [W8]),
    ("w4,attn=w8,mlp=w4a,head=native", [W8] * 3 + [W4A] * 2 + [None]),
    ("attn=w8,q=w4", [W8, W4, W8, None, None, None]), ("w8,embed=f32", [W8] * 6),
    ("w8,layers.0.down=w4", [W8] * 4 + [W4, W8]),
])
def test_formats_by_kind(text, expected):
    assert list(_formats(text).values()) == expected
    assert parse_policy(text).group == 32


def test_file(tmp_path):
    path = tmp_path / "mixed.toml"
    path.write_text('default = "w4"\nhead = "w8"\nattn = "native"\n'
                    '[tensors]\n"layers.1.down" = "w4a"\n')
    assert list(_formats(str(path)).values()) == [None, None, None, W4, W4, W8]
    assert list(_formats(str(path), layer=1).values()) == [None, None, None, W4, W4A, W8]


@pytest.mark.parametrize("text, parts", [
    ("w5", ["no format 'w5': expected one of w8, w4, w4a, native"]),
    ("w4,lips=w8", ["no kind of tensors 'lips'", "attn, mlp, head"]), ("", ["expected a format"]),
    ("w4,", ["expected a format"]), ("head=", ["no format ''"]),
    ("embed=w8", ["reads embedding rows in float32"]),
    ("none.toml", ["none.toml: cannot be read: No such file"]),
])
def test_bad_text(text, parts):
    with pytest.raises(HeadraceError) as caught:
        parse_policy(text)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.parametrize("content, text", [
    ("default = 8", "no format 8"), ("=", "not a TOML file"), ("tensors = 3", "expected a table"),
    ('[tensors]\nx = "w8"', "no kind of tensors 'x'"), ("default = [1]", "no format"),
])
def test_bad_file(tmp_path, content, text):
    (tmp_path / "p.toml").write_text(content)
    with pytest.raises(HeadraceError, match=text):
        parse_policy(str(tmp_path / "p.toml"))


def test_matrix_that_the_model_does_not_have():
    with pytest.raises(HeadraceError, match="the model has no matrix 'layers.2.down'.*layers.1.d"):
        plan_model(SyntheticCheckpoint(shape()), PRESETS["tiny"],
                   policy=parse_policy("layers.2.down=w4"))

"""Activations of 16 bits are bit-exact on the RTL, in every chunking and on every machine."""

import dataclasses

import pytest

from headrace.hw.isa import Format
from headrace.sw.errors import HeadraceError
from headrace.sw.policies import parse_policy
from headrace.sw.quantiser import Policy
from tests.sw.models import FEATURES

from .machines import ODD, TINY, ids, on_golden, on_rtl, synthetic
from .test_features import LANES


PROMPT_LENGTH, TOKENS = 35, 4


def _run(config, policy, **changes):
    image = synthetic(config, seed=7, policy=policy, **changes)
    prompt = ids(PROMPT_LENGTH, seed=5)
    expected = on_golden(synthetic(TINY, seed=7, policy=policy, **changes), prompt, TOKENS, chunk=1)
    found = on_rtl(image, prompt, TOKENS, passes=3)
    assert found.tokens == expected.tokens
    assert found.logits == [expected.logits[0], expected.logits[-1]]
    assert (found.cache == expected.cache).all()
    return expected


@pytest.mark.parametrize("fmt", [Format.W8, Format.W4A])
def test_formats_on_tiny(fmt):
    wide = _run(TINY, Policy(default=fmt, act_bits=16))
    narrow = on_golden(synthetic(TINY, seed=7, policy=Policy(default=fmt)),
                       ids(PROMPT_LENGTH, seed=5), TOKENS, chunk=1)
    assert wide.logits != narrow.logits


@pytest.mark.parametrize("config", [ODD, LANES], ids=["3x5", "lanes"])
def test_other_machines(config):
    _run(config, Policy(act_bits=16), **FEATURES["everything"])


def test_halves_take_twice_the_room():
    """The chunk shrinks with the room that A has, and a machine without room says so."""
    policy = parse_policy("w8,act=16")
    small = dataclasses.replace(TINY, name="small", a_bytes=768)
    assert synthetic(small, policy=policy).chunk < synthetic(small).chunk
    with pytest.raises(HeadraceError, match="int16 activations"):
        synthetic(small, policy=policy, ffn=128)


@pytest.mark.parametrize("text", ["act=4", "w8,act=w8", "act="])
def test_other_widths_are_refused(text):
    with pytest.raises(HeadraceError, match="act=8 or act=16"):
        parse_policy(text)

"""The built-in model computes the same bits on every configuration."""

import dataclasses
import functools

import pytest

from headrace.hw.config import PRESETS, Config
from headrace.sw.checkpoint import load_checkpoint

from .machines import ODD, TINY, Outcome, demo, on_golden, on_rtl


CONFIGS = [TINY, ODD, PRESETS["ecp5"], PRESETS["edge"],
           pytest.param(PRESETS["wide"], marks=pytest.mark.slow)]
TOKENS = 4


def _name(config: Config) -> str:
    return config.name


@functools.cache
def _prompt() -> tuple[int, ...]:
    tokenizer = load_checkpoint("demo").tokenizer
    assert tokenizer is not None
    return tuple(tokenizer.encode("Once upon a time"))


@functools.cache
def _reference() -> Outcome:
    return on_golden(demo(TINY), _prompt(), TOKENS)


@pytest.mark.parametrize("config", CONFIGS, ids=_name)
def test_same_logits_to_the_last_bit(config):
    found = on_rtl(demo(config), _prompt(), TOKENS)
    assert len(found.tokens) == len(found.logits) == TOKENS
    assert len(found.logits[0]) == 4 * demo(config).shape.vocab
    assert len(set(found.logits)) == TOKENS, "a pass has written no logits"
    assert found.same(_reference())


def test_a_difference_of_one_bit_is_seen():
    """The comparison above can fail: one weight differs in its lowest bit."""
    image = demo(TINY)
    part = image.parts["head"]
    other = dataclasses.replace(image, content=image.content.copy())
    other.content[part.begin + 2 * image.config.stride + 3] ^= 1
    assert not on_golden(other, _prompt(), TOKENS).same(_reference())

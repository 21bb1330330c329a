"""Models of all shapes, with random weights, are bit-exact on the RTL."""

import pytest

from headrace.hw.config import PRESETS

from .machines import ODD, TINY, ids, on_golden, on_rtl, synthetic


SHAPES = {
    "head_dim 8": {"head_dim": 8, "heads": 6, "kv_heads": 3},
    "head_dim 64": {"head_dim": 64, "heads": 2, "kv_heads": 1},
    "head_dim 128": {"head_dim": 128, "heads": 2, "kv_heads": 1},
    "head_dim 10, padded to 16": {"head_dim": 10},
    "head_dim 48": {"head_dim": 48},
    "one K/V head": {"kv_heads": 1},
    "no grouped queries": {"kv_heads": 4},
    "three queries for each key": {"heads": 6},
    "one head": {"heads": 1, "kv_heads": 1},
    "one layer": {"layers": 1},
    "FFN 172": {"ffn": 172},
    "FFN of one value": {"ffn": 1},
    "FFN in pieces": {"ffn": 900},
    "odd vocabulary": {"vocab": 101},
    "vocabulary of two": {"vocab": 2},
    "own output layer": {"tied": False},
    "narrow": {"dim": 8, "head_dim": 2},
    "width 80": {"dim": 80},
    "eps and theta": {"eps": 1e-2, "theta": 500000.0},
}

#: 5 is not a multiple of any number of rows, and 32 tokens end within the run.
PROMPT_LENGTH, TOKENS = 29, 5


def _run(config, name):
    shape = SHAPES[name]
    image = synthetic(config, seed=len(name), **shape)
    vocab = image.shape.vocab
    # The prompt ends in an odd chunk.
    prompt = ids(PROMPT_LENGTH, vocab, seed=4)
    expected = on_golden(synthetic(TINY, seed=len(name), **shape), prompt, TOKENS, chunk=1)
    found = on_rtl(image, prompt, TOKENS, passes=2)
    assert found.tokens == expected.tokens
    assert found.logits == [expected.logits[0], expected.logits[2], expected.logits[4]]
    assert (found.cache == expected.cache).all()


def test_pieces_are_needed():
    image = synthetic(TINY, **SHAPES["FFN in pieces"])
    assert len(image.sizes.pieces) == 2 and image.chunk == 8


@pytest.mark.parametrize("name", SHAPES)
def test_shape_on_tiny(name):
    _run(TINY, name)


@pytest.mark.parametrize("name", ["head_dim 8", "head_dim 128", "FFN 172"])
@pytest.mark.parametrize("config", [ODD, PRESETS["edge"]], ids=["3x5", "edge"])
def test_shape_on_other_machines(config, name):
    _run(config, name)

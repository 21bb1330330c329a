"""Reference model and quality of the golden machine."""

import json

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import compile_model
from headrace.sw.errors import HeadraceError
from headrace.sw.quality import measure_quality, perplexity, teacher_forced
from headrace.sw.reference import Reference

from .models import ids, shape


TINY = PRESETS["tiny"]


@pytest.mark.parametrize("changes", [{}, {"head_dim": 40, "heads": 3, "kv_heads": 1},
                                     {"tied": False, "kv_heads": 4}])
def test_golden_is_close_to_the_reference(changes):
    checkpoint = SyntheticCheckpoint(shape(**changes), seed=5)
    prompt = ids(40)
    expected = Reference(checkpoint).logits(prompt)
    found = teacher_forced(compile_model(checkpoint, TINY), prompt)
    # Quantisation to 8 bits leaves a few percent of noise; a wrong order of heads or pairs does
    # not leave any correlation.
    assert np.abs(found - expected).max() < 0.12 * np.abs(expected).max()
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.998


def test_reference_reproduces_the_published_tokens(babyllama):
    checkpoint = load_checkpoint(babyllama)
    expected = json.loads((babyllama / "expected.json").read_text())[0]
    tokens, start = expected["greedy"], len(expected["prompt_tokens"])
    chosen = Reference(checkpoint).logits(tokens[:-1]).argmax(axis=-1)
    assert chosen[start - 1:].tolist() == tokens[start:]


def test_babyllama_agrees_with_float(babyllama):
    checkpoint = load_checkpoint(babyllama)
    tokens = json.loads((babyllama / "expected.json").read_text())[0]["greedy"]
    quality = measure_quality(checkpoint, compile_model(checkpoint, TINY), tokens)
    assert quality.positions == len(tokens) == 200
    assert quality.agreement >= 0.98
    assert quality.perplexity < 1.01 * quality.reference_perplexity
    assert 0 < quality.mean_difference < quality.max_difference
    assert quality.report()["agreement"] == quality.agreement


def test_built_in_model_agrees_with_float():
    checkpoint = load_checkpoint("demo")
    assert checkpoint.tokenizer is not None
    text = ("Once upon a time, there was a little girl named Lily. She loved to play outside in "
            "the park with her friends.")
    quality = measure_quality(checkpoint, compile_model(checkpoint, TINY),
                              checkpoint.tokenizer.encode(text))
    assert quality.agreement >= 0.9
    assert quality.perplexity < 1.03 * quality.reference_perplexity


def test_perplexity_of_known_logits():
    uniform = np.zeros((3, 8), np.float32)
    assert perplexity(uniform, [1, 2, 3]) == pytest.approx(8)
    certain = np.full((3, 8), -50, np.float32)
    certain[[0, 1], [2, 3]] = 50
    assert perplexity(certain, [1, 2, 3]) == pytest.approx(1)


@pytest.mark.parametrize("tokens, text", [
    ([1], "a text of 1 tokens: expected 2 to 80"), ([1] * 81, "a text of 81 tokens"),
    ([1, 99], r"id 99 \(number 1\) is out of range: expected 0 to 36"),
])
def test_bad_text(tokens, text):
    checkpoint = SyntheticCheckpoint(shape())
    with pytest.raises(HeadraceError, match=text):
        measure_quality(checkpoint, compile_model(checkpoint, TINY), tokens)

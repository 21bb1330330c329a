"""Reference model and quality of the golden machine."""

import json
import math

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import compile_model
from headrace.sw.errors import HeadraceError
from headrace.sw.quality import (
    Tally,
    measure_quality,
    perplexity,
    teacher_forced,
    windows,
)
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


def test_figures_of_known_distributions():
    """Against sums written out: two tokens, three positions, two predicted."""
    p = np.array([[0.5, 0.5], [0.25, 0.75], [0.9, 0.1]])
    q = np.array([[0.5, 0.5], [0.75, 0.25], [0.8, 0.2]])
    tally = Tally()
    # A constant beside the logarithms changes logits, but no distribution.
    tally.add(np.log(q[:2]).astype(np.float32) + 3, np.log(p[:2]).astype(np.float32), [1, 0])
    tally.add(np.log(q[2:]).astype(np.float32), np.log(p[2:]).astype(np.float32), [])
    quality = tally.quality()
    assert quality.positions == 3 and tally.predicted == 2
    assert quality.agreement == pytest.approx(2 / 3)
    assert quality.perplexity == pytest.approx((1 / 0.5 / 0.75) ** 0.5, rel=1e-6)
    assert quality.reference_perplexity == pytest.approx((1 / 0.5 / 0.25) ** 0.5, rel=1e-6)
    assert quality.loss == pytest.approx((0.25 / 0.75) ** 0.5 - 1, rel=1e-6)
    expected = (0.25 * math.log(0.25 / 0.75) + 0.75 * math.log(0.75 / 0.25)
                + 0.9 * math.log(0.9 / 0.8) + 0.1 * math.log(0.1 / 0.2)) / 3
    assert quality.divergence == pytest.approx(expected, rel=1e-6)
    assert quality.max_difference == pytest.approx(3 + math.log(3), rel=1e-5)


@pytest.mark.parametrize("count, size, bos, expected", [
    (7, 3, None, [[0, 1, 2], [3, 4, 5]]), (5, 3, None, [[0, 1, 2], [3, 4]]),
    (7, 4, 0, [[0, 1, 2, 3], [0, 4, 5, 6]]), (5, 4, 9, [[0, 1, 2, 3]]), (4, 9, 0, [[0, 1, 2, 3]]),
])
def test_windows(count, size, bos, expected):
    assert windows(list(range(count)), size, bos) == expected


def test_windows_are_texts_of_their_own():
    checkpoint = SyntheticCheckpoint(shape(), seed=2)
    image = compile_model(checkpoint, TINY)
    text = ids(50)
    seen = []
    whole = measure_quality(checkpoint, image, text, window=25, progress=seen.append)
    parts = [measure_quality(checkpoint, image, text[at:at + 25]) for at in (0, 25)]
    assert (whole.windows, whole.positions, sum(seen)) == (2, 50, 50)
    assert whole.divergence == pytest.approx(sum(part.divergence for part in parts) / 2)
    assert whole.perplexity == pytest.approx(
        (parts[0].perplexity * parts[1].perplexity) ** 0.5)
    assert whole.max_difference == max(part.max_difference for part in parts)


def test_reference_is_the_same_in_blocks_of_queries(monkeypatch):
    checkpoint = SyntheticCheckpoint(shape(), seed=2)
    expected = Reference(checkpoint).logits(ids(50))
    monkeypatch.setattr("headrace.sw.reference._QUERIES", 7)
    assert np.abs(Reference(checkpoint).logits(ids(50)) - expected).max() < 1e-4


@pytest.mark.parametrize("tokens, window, text", [
    ([1], None, "a text of 1 tokens: expected at least 2"),
    ([1] * 81, 81, "windows of 81 tokens: expected 2 to 80, the context"),
    ([1, 99], None, r"id 99 \(number 1\) is out of range: expected 0 to 36"),
])
def test_bad_text(tokens, window, text):
    checkpoint = SyntheticCheckpoint(shape())
    with pytest.raises(HeadraceError, match=text):
        measure_quality(checkpoint, compile_model(checkpoint, TINY), tokens, window=window)


def test_models_of_different_vocabularies_are_not_compared():
    other = SyntheticCheckpoint(shape(vocab=40))
    with pytest.raises(HeadraceError, match="37 and 40 tokens: expected two of the same"):
        measure_quality(other, compile_model(SyntheticCheckpoint(shape()), TINY), [1, 2])

"""Sampling: distributions of small vectors, written out; stop strings."""

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.sampling import Sampler, Sampling
from headrace.sw.stopping import StopText

from .models import compiled, ids


#: Logits of probabilities 0.1, 0.4, 0.2, 0.05, 0.25.
P = np.array([0.1, 0.4, 0.2, 0.05, 0.25])
LOGITS = np.log(P).astype(np.float32)


@pytest.mark.parametrize("options, tokens, p", [
    ({}, [1, 4, 2, 0, 3], [0.4, 0.25, 0.2, 0.1, 0.05]),
    ({"top_k": 2}, [1, 4], [0.4 / 0.65, 0.25 / 0.65]),
    ({"top_k": 9}, [1, 4, 2, 0, 3], [0.4, 0.25, 0.2, 0.1, 0.05]),
    ({"top_p": 0.6}, [1, 4], [0.4 / 0.65, 0.25 / 0.65]),
    ({"top_p": 0.66}, [1, 4, 2], [0.4 / 0.85, 0.25 / 0.85, 0.2 / 0.85]),
    ({"top_p": 1e-9}, [1], [1]),
    ({"min_p": 0.3}, [1, 4, 2], [0.4 / 0.85, 0.25 / 0.85, 0.2 / 0.85]),
    ({"min_p": 1}, [1], [1]),
    # top_p counts what top_k has left: 0.4 / 0.65 of 1 is enough.
    ({"top_k": 2, "top_p": 0.6}, [1], [1]),
    # Temperature comes before: squares, of sum 0.275.
    ({"temperature": 0.5, "top_p": 0.8}, [1, 4], [0.16 / 0.2225, 0.0625 / 0.2225]),
    ({"temperature": 0}, [1], [1]),
])
def test_distributions(options, tokens, p):
    found, q = Sampling(**{"temperature": 1, **options}).distribution(LOGITS)
    assert found.tolist() == tokens
    assert q == pytest.approx(p, rel=1e-6)


def test_penalty_comes_first_and_has_two_directions():
    logits = np.array([2, -1, 1, 0.5], np.float32)
    sampling = Sampling(temperature=1, repetition_penalty=4)
    found, p = sampling.distribution(logits, [0, 1, 0])
    weights = np.exp([0.5, -4, 1, 0.5])
    assert found.tolist() == [2, 0, 3, 1]
    assert p == pytest.approx((weights / weights.sum())[[2, 0, 3, 1]])
    assert not Sampling(repetition_penalty=4).greedy and Sampling().greedy
    assert Sampling(repetition_penalty=4).distribution(logits, [0])[0].tolist() == [2]


def test_equal_infinite_and_damaged_logits():
    one = Sampling(temperature=1, top_k=2)
    assert one.distribution(np.zeros(4, np.float32))[0].tolist() == [0, 1]
    tokens, p = one.distribution(np.array([np.nan, np.inf, 3, np.inf], np.float32))
    assert tokens.tolist() == [1, 3] and p.tolist() == [0.5, 0.5]
    with pytest.raises(HeadraceError, match="no logit is above minus infinity"):
        one.distribution(np.full(4, np.nan, np.float32))


def test_draws_follow_the_distribution_and_the_seed():
    sampling = Sampling(temperature=1)
    first, again, other = (Sampler(sampling, seed) for seed in (5, 5, 6))
    drawn = [first.choose(LOGITS) for _ in range(20000)]
    assert drawn == [again.choose(LOGITS) for _ in range(20000)]
    assert drawn[:50] != [other.choose(LOGITS) for _ in range(50)]
    share = np.bincount(drawn, minlength=5) / 20000
    # Four standard deviations of the largest share.
    assert np.abs(share - P).max() < 4 * (0.4 * 0.6 / 20000) ** 0.5
    fresh = Sampler(sampling)
    same = Sampler(sampling, fresh.seed)
    assert [fresh.choose(LOGITS) for _ in range(50)] == [same.choose(LOGITS) for _ in range(50)]
    assert fresh.report()["seed"] == fresh.seed


@pytest.mark.parametrize("options", [
    {"temperature": -1}, {"temperature": float("nan")}, {"top_k": -1}, {"top_p": 0},
    {"top_p": 1.1}, {"min_p": -0.1}, {"min_p": 2}, {"repetition_penalty": 0}])
def test_values_out_of_range(options):
    (name, value), = options.items()
    with pytest.raises(HeadraceError, match=f"{name} is {value}: expected"):
        Sampling(**options)


@pytest.mark.parametrize("check", [False, True])
def test_device_continues_from_the_token_that_the_host_chose(check):
    image = compiled(PRESETS["tiny"], seed=3)
    prompt = ids(6)
    sampler = Sampler(Sampling(temperature=20), seed=1)
    with GoldenDevice(image.config, memory_bytes=image.total_bytes) as device:
        session = Session(device, image, check=check, passes_per_run=4)
        greedy = list(session.generate(prompt, 12))
        session.restart()
        sampled = list(session.generate(prompt, 12, sampler))
        assert sampled != greedy and session.position == 17
        # The same text at once has the same logits, so the tokens were what the device read.
        last = session.logits()
        session.restart()
        session.prefill(prompt + sampled[:-1], logits=True)
        assert np.array_equal(session.logits(), last)
        session.rewind(6)
        assert session.prefill(sampled[:2]) >= 0 and session.position == 8
        with pytest.raises(HeadraceError, match="rewind to position 9: expected 0 to 8"):
            session.rewind(9)
        assert len(session.statistics.spans) > 12


def test_a_cold_sampler_is_the_arg_max():
    image = compiled(PRESETS["tiny"], seed=3)
    with GoldenDevice(image.config, memory_bytes=image.total_bytes) as device:
        session = Session(device, image)
        greedy = list(session.generate(ids(6), 10))
        session.restart()
        cold = Sampler(Sampling(temperature=1, top_k=1), seed=9)
        assert list(session.generate(ids(6), 10, cold)) == greedy


@pytest.mark.parametrize("pieces, strings, shown, stopped", [
    (["ab", "cd"], [], "abcd", False), (["ab", "cd"], ["bc"], "a", True),
    (["ab", "b", "bc"], ["bbc"], "ab", True), (["a", "<", "x"], ["</s>"], "a<x", False),
    (["a</", "s"], ["</s>"], "a</s", False), (["xyz"], ["yz", "xy"], "", True),
    (["aab"], ["ab"], "a", True), (["a", "a", "b", "c"], ["ab"], "a", True),
])
def test_stop_strings(pieces, strings, shown, stopped):
    stop = StopText(strings)
    text = "".join(stop.push(piece) for piece in pieces)
    assert text + stop.finish() == shown
    assert stop.stopped is stopped


def test_text_that_may_be_a_stop_string_is_held_back():
    stop = StopText(["</s>"])
    assert [stop.push(piece) for piece in ("a", "<", "/", "x")] == ["a", "", "", "</x"]
    with pytest.raises(HeadraceError, match="stop string is empty"):
        StopText([""])

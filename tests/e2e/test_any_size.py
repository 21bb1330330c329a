"""Machines and models of any size, drawn at random: the same bits, or a refusal with a reason."""

import functools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import seed as seeded

from headrace.hw.config import ConfigError
from headrace.sw.compiler import Image
from headrace.sw.errors import HeadraceError

from .draws import REFERENCE, THEMES, Case, Model, cases
from .machines import Outcome, ids, on_golden, on_rtl


#: The last tokens are in the second block of the cache.
PROMPT_LENGTH, TOKENS = 31, 4

#: Draws of each theme on the RTL, and in the tests that build nothing.
DRAWS, CHEAP_DRAWS = 6, 60


def bounded(count: int, seed: int):
    """Examples that are the same in every run: no time limit, no database, no shrinking, since
    each costs a build."""
    def apply(test):
        return seeded(seed)(settings(
            max_examples=count, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck))(test))
    return apply


@functools.lru_cache(maxsize=8)
def reference(model: Model) -> Outcome:
    """What every machine must compute."""
    return on_golden(model.image(REFERENCE), ids(PROMPT_LENGTH, model.shape.vocab), TOKENS,
                     chunk=1)


def image_or_none(case: Case) -> Image | None:
    """The image, or None if the machine or the model was refused by an error of ours."""
    try:
        return case.model.image(case.config())
    except (ConfigError, HeadraceError) as error:
        assert len(str(error)) > 30, "a refusal without a reason"
        return None


def same_bits(theme: str, count: int, machine: Callable[..., Outcome]) -> None:
    """Run `count` drawn machines of `theme`, and compare each with the reference."""
    ran = []

    # Seeds differ, so that themes do not share their models.
    @bounded(count, seed=76 + list(THEMES).index(theme))
    @given(cases(THEMES[theme]))
    def run(case: Case):
        image = image_or_none(case)
        assume(image is not None)
        assert image is not None
        prompt = ids(PROMPT_LENGTH, case.model.shape.vocab)
        found = machine(image, prompt, TOKENS, **(
            {"options": case.options()} if machine is on_rtl else {}))
        assert found.same(reference(case.model))
        # Memory holds 0xff at first, a NaN.
        assert all(np.isfinite(np.frombuffer(each, "<f4")).all() for each in found.logits)
        ran.append(case)

    run()
    assert len(ran) == count


def test_same_bits_on_small_machines():
    same_bits("small", DRAWS, on_rtl)


@pytest.mark.slow
@pytest.mark.parametrize("theme", [name for name in THEMES if name != "small"])
def test_same_bits_on_any_machine(theme):
    same_bits(theme, DRAWS, on_rtl)


@pytest.mark.parametrize("theme", THEMES)
def test_refused_by_us_and_seldom(theme):
    found = Counter()

    @bounded(CHEAP_DRAWS, seed=2)
    @given(cases(THEMES[theme]))
    def compiles(case: Case):
        found[image_or_none(case) is not None] += 1

    compiles()
    assert found[True] > 2 * found[False], found


@pytest.mark.parametrize("theme", ["small", "groups of 16", "128 columns"])
def test_same_bits_on_any_golden_machine(theme):
    same_bits(theme, 10, on_golden)

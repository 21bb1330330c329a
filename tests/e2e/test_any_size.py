"""Machines and models of any size, drawn at random: the same bits, or a refusal with a reason."""

import functools
from collections import Counter

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


def run_rtl(theme: str, count: int) -> None:
    """Run drawn machines of `theme` on the RTL."""
    # Seeds differ, so that themes do not share their models.
    @bounded(count, seed=76 + list(THEMES).index(theme))
    @given(cases(THEMES[theme]))
    def same_bits(case: Case):
        image = image_or_none(case)
        assume(image is not None)
        assert image is not None
        found = on_rtl(image, ids(PROMPT_LENGTH, case.model.shape.vocab), TOKENS,
                       options=case.options())
        assert found.same(reference(case.model))

    same_bits()


def test_same_bits_on_small_machines():
    run_rtl("small", DRAWS)


@pytest.mark.slow
@pytest.mark.parametrize("theme", [name for name in THEMES if name != "small"])
def test_same_bits_on_any_machine(theme):
    run_rtl(theme, DRAWS)


@pytest.mark.parametrize("theme", THEMES)
def test_refused_by_us_and_seldom(theme):
    found = Counter()

    @bounded(CHEAP_DRAWS, seed=2)
    @given(cases(THEMES[theme]))
    def compiles(case: Case):
        found[image_or_none(case) is not None] += 1

    compiles()
    assert found[True] > 2 * found[False], found


def test_same_bits_on_any_golden_machine():
    @bounded(20, seed=3)
    @given(cases(THEMES["small"]))
    def same_bits(case: Case):
        image = image_or_none(case)
        assume(image is not None)
        assert image is not None
        prompt = ids(PROMPT_LENGTH, case.model.shape.vocab)
        assert on_golden(image, prompt, TOKENS).same(reference(case.model))

    same_bits()

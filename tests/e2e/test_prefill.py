"""However a prompt is cut into passes, logits and cache are the same, bit for bit."""

import pytest

from .machines import ODD, TINY, ids, on_golden, on_rtl, synthetic


#: Crosses a block of the cache; only the odd machine takes it in one pass.
PROMPT = ids(40)


@pytest.fixture(scope="module")
def reference():
    return on_golden(synthetic(ODD), PROMPT, 2, chunk=40)


@pytest.mark.parametrize("config, chunk", [
    (TINY, 1), (TINY, 3), (TINY, 8), (ODD, 1), (ODD, 3), (ODD, 8), (ODD, 40)],
    ids=lambda value: getattr(value, "name", value))
def test_chunks(config, chunk, reference):
    image = synthetic(config)
    assert image.chunk >= chunk
    assert on_golden(image, PROMPT, 2, chunk=chunk).same(reference)
    assert on_rtl(image, PROMPT, 2, chunk=chunk).same(reference)


def test_passes_without_the_host():
    """The device goes on alone over the end of a block; each token is the next pass's input."""
    image, prompt = synthetic(TINY), ids(25)
    alone, host = on_rtl(image, prompt, 21, passes=20), on_golden(image, prompt, 21)
    assert alone.tokens == host.tokens and alone.logits[-1] == host.logits[-1]
    assert (alone.cache == host.cache).all()

"""Models with the features of other architectures are bit-exact on the RTL, in every chunking."""

import pytest

from headrace.hw.config import Config
from tests.sw.models import FEATURES

from .machines import ODD, TINY, ids, on_golden, on_rtl, synthetic


#: Lanes above one take other ways through the vector unit.
LANES = Config(name="lanes", rows=2, cols=16, lanes=4, port_bits=64, ring_bytes=32768)

PROMPT_LENGTH, TOKENS = 35, 4


def _run(config, name):
    changes = FEATURES[name]
    image = synthetic(config, seed=7, **changes)
    prompt = ids(PROMPT_LENGTH, seed=5)
    expected = on_golden(synthetic(TINY, seed=7, **changes), prompt, TOKENS, chunk=1)
    found = on_rtl(image, prompt, TOKENS, passes=3)
    assert found.tokens == expected.tokens
    assert found.logits == [expected.logits[0], expected.logits[-1]]
    assert (found.cache == expected.cache).all()


@pytest.mark.parametrize("name", FEATURES)
def test_features_on_tiny(name):
    _run(TINY, name)


@pytest.mark.parametrize("name", ["head norms", "everything"])
@pytest.mark.parametrize("config", [ODD, LANES], ids=["3x5", "lanes"])
def test_features_on_other_machines(config, name):
    _run(config, name)

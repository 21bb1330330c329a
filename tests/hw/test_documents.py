"""Generated pages agree with the tables that they describe."""

from pathlib import Path

import pytest

from headrace.hw.documents import COUNTER_DOCS, PAGES
from headrace.hw.regmap import COUNTERS, RECORD_BYTES


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), \
        "run: python -m headrace.hw.documents docs"


def test_every_counter_is_documented_and_fits_the_record():
    assert tuple(COUNTER_DOCS) == COUNTERS
    assert 8 * len(COUNTERS) <= RECORD_BYTES

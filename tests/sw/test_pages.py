"""The examples in the pages about the host side run as they stand."""

import re
from pathlib import Path

import pytest


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["image.md", "driver.md", "generation.md", "models.md"])
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"),
                        re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
    if page == "driver.md":
        printed = capsys.readouterr().out
        assert printed.startswith("Once upon a time") and printed.endswith("bit-exact\n")

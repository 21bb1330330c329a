"""Gemma 3 270M, as it was fetched: another architecture that people use, on the golden machine."""

import json

import pytest

from headrace.sw.cli import main
from headrace.sw.fetch import fetched_file


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("prompt, expected", [
    ("Monday, Tuesday, Wednesday,", " Thursday, Friday, Saturday, Sunday"),
    ("Question: What is the capital of France?\nAnswer:", " Paris"),
])
def test_golden_machine_says_what_llama_cpp_says(tmp_path, prompt, expected):
    """The texts are those that llama.cpp continues with, from the same file."""
    # Its licence is for its users to accept: the tests do not fetch it.
    if fetched_file("gemma3-270m") is None:
        pytest.skip("needs `headrace fetch gemma3-270m`")
    path = tmp_path / "report.json"
    with pytest.raises(SystemExit) as caught:
        main(["run", "gemma3-270m", "--prompt", prompt, "--tokens", "8", "--context", "64",
              "--device", "golden", "--json", str(path)])
    assert caught.value.code == 0
    report = json.loads(path.read_text())
    assert report["text"].startswith(expected)
    assert report["config"] == "edge-head256"

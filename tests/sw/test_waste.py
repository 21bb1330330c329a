"""Padding of the weight stream, where a user looks."""

import json
from pathlib import Path

import pytest

from headrace.sw.cli import main


ODD = str(Path(__file__).parents[1] / "e2e" / "3x5.toml")


def _call(*arguments: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 0


def test_configs(capsys):
    _call("configs", ODD, "tiny")
    line = next(line for line in capsys.readouterr().out.splitlines() if "stream_waste" in line)
    assert line.split() == ["stream_waste", "37.5", "%", "0.0", "%"]
    _call("configs", ODD, "--json")
    assert json.loads(capsys.readouterr().out)["3x5"]["stream_waste"] == 0.375


def test_run(tmp_path, capsys):
    path = tmp_path / "run.json"
    _call("run", "demo", "--prompt-ids", "1,454", "--tokens", "1", "--device", "golden",
          "--config", ODD, "--json", str(path))
    waste = json.loads(path.read_text())["stream_waste"]
    assert waste["columns"] == 0.375 < waste["all"] < 0.4
    shown = " ".join(capsys.readouterr().err.split())
    assert f"padding: {100 * waste['all']:.1f} % of the weight stream; 37.5 % because 5 columns " \
           f"take 8, the next power of two" in shown

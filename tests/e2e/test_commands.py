"""The commands of the documents."""

import json

import pytest

from headrace.sim.dram import DRAMS
from headrace.sw.cli import main


def _run(folder, *arguments: str) -> dict:
    path = folder / "out.json"
    with pytest.raises(SystemExit) as caught:
        main(["run", *arguments, "--json", str(path)])
    assert caught.value.code == 0
    return json.loads(path.read_text())


def _same_on_both(folder, model: str, prompt: str, tokens: int, *options: str) -> dict:
    command = (model, "--prompt", prompt, "--tokens", str(tokens))
    found = _run(folder, *command, "--device", "sim", "--check", *options)
    golden = _run(folder, *command, "--device", "golden")
    assert found["check"] == "bit-exact" and golden["check"] is None
    for key in ("prompt_ids", "tokens", "text", "model"):
        assert found[key] == golden[key]
    assert len(found["tokens"]) == tokens
    return found


def test_built_in_model(tmp_path):
    report = _same_on_both(tmp_path, "demo", "Once upon a time", 3)
    assert (report["config"], report["device"], report["clock_hz"]) == ("tiny", "sim", 50_000_000)
    assert [p["kind"] for p in report["passes"]] == ["prefill", "decode", "decode"]
    assert [p["context"] for p in report["passes"]] == [5, 6, 7]
    assert report["ttft_cycles"] == report["passes"][0]["cycles"]
    # 64 columns are 8 tiles of 8, and 2 groups.
    assert report["stream_waste"] == {"columns": 0, "all": 0}
    assert report["tpot_cycles"] == sum(p["cycles"] for p in report["passes"][1:]) / 2
    for each in report["passes"]:
        assert 0 < each["port_utilisation"] <= 1 and 0 < each["array_utilisation"] <= 1
        assert each["kv_hits"] and not each["kv_misses"]


def test_help_names_every_dram(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = "".join(capsys.readouterr().out.split())
    assert all(name in text.replace("│", "") for name in DRAMS)


def test_dram(tmp_path, capsys):
    command = ("demo", "--prompt-ids", "1,454", "--tokens", "1")
    found = _run(tmp_path, *command, "--memory", "sdr-133-x16", "--check")
    assert found["check"] == "bit-exact" and found["memory"] == "sdr-133-x16"
    dram = found["dram"]
    # An access has 16 bytes, and the device reads hardly a byte that it does not need.
    read = sum(found["totals"]["bytes_read"].values())
    assert read / 16 <= dram["reads"] + dram["forwarded"] < 1.1 * read / 16
    assert dram["hits"] > 0.9 * dram["reads"]
    # The clock of 133 1/3 MHz against 50 MHz; a refresh every 7.8125 us.
    assert dram["refreshes"] == pytest.approx(dram["clocks"] / 1042, abs=1)
    assert f"sdr-133-x16: {dram['reads'] + dram['writes']:,} accesses" in capsys.readouterr().err
    ideal = _run(tmp_path, *command)
    assert ideal["memory"] == "ideal" and ideal["dram"] is None
    assert ideal["tokens"] == found["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("config", ["tiny", "ecp5", "edge", "wide"])
def test_built_in_model_as_documented(tmp_path, config):
    report = _same_on_both(tmp_path, "demo", "Once upon a time", 48, "--config", config)
    assert len(report["passes"]) == 48


@pytest.mark.slow
@pytest.mark.parametrize("passes", [1, 20])
def test_babyllama_as_documented(tmp_path, babyllama, passes):
    report = _same_on_both(tmp_path, str(babyllama), "Once upon a time", 100,
                           "--passes-per-run", str(passes))
    assert report["totals"]["passes"] == len(report["passes"])

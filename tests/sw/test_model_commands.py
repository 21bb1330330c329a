"""Commands that take models: run, quantise, inspect."""

import json

import pytest
from gguf import GGMLQuantizationType as Type

from headrace.sw.checkpoint import Rope, SyntheticCheckpoint
from headrace.sw.cli import main

from .model_files import write_gguf, write_llama2c
from .models import shape


GOLDEN = ("--device", "golden", "--tokens", "4")


@pytest.fixture
def command(capsys):
    """Run a command; return its standard output and error."""
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert caught.value.code == code, output.err
        assert "Traceback" not in output.err
        return output
    return call


@pytest.fixture
def file(tmp_path):
    source = SyntheticCheckpoint(shape(dim=64, ffn=64))
    return write_gguf(tmp_path / "m.gguf", source, Type.Q4_1)


def test_run_a_file_and_its_image(command, file, tmp_path):
    text = command("run", file, "--prompt", "the cat", *GOLDEN, "-q").out
    assert text.startswith("the cat") and len(text) > len("the cat\n")
    image = tmp_path / "m.image"
    written = command("quantise", file, "-o", image, "--config", "tiny").out
    assert "11 matrices w4a, taken over" in written and "5.0 bits per weight" in written
    assert command("run", image, "--prompt", "the cat", *GOLDEN, "-q").out == text
    ids = command("run", image, "--prompt-ids", "10,11", *GOLDEN, "-q", "--json",
                  tmp_path / "r.json")
    assert ids.out and json.loads((tmp_path / "r.json").read_text())["model"] == "m"
    for options, reason in (
            (("--quant", "w8"), "in which --quant is decided"),
            (("--context", "9"), "in which --context is decided"),
            (("--config", "wide"), "compiled for configuration 'tiny', not for 'wide'")):
        assert reason in command("run", image, "--prompt", "the", *GOLDEN, *options, code=2).err
    image.write_bytes(image.read_bytes()[:-1])
    assert "truncated" in command("run", image, "--prompt", "the", *GOLDEN, code=2).err


def test_run_a_llama2c_file_by_ids(command, tmp_path):
    path = write_llama2c(tmp_path / "m.bin", SyntheticCheckpoint(shape(dim=64)))
    assert command("run", path, "--prompt-ids", "1,2,3", *GOLDEN, "-q").out
    assert "no tokenizer, so a text cannot be read" in command(
        "run", path, "--prompt", "the", *GOLDEN, code=2).err


def test_quantise_by_kind(command, file, tmp_path):
    image = tmp_path / "image"
    report = json.loads(command("quantise", file, "-o", image, "--quant", "w4,head=w8",
                                "--context", "33", "--json").out)
    assert report["matrices"] == [
        {"format": "w4", "origin": "quantised", "count": 10},
        {"format": "w8", "origin": "quantised", "count": 1}]
    assert report["context"] == 33 and report["config"] == "tiny"
    assert report["file_bytes"] == image.stat().st_size
    assert [each.name for each in tmp_path.iterdir() if "part" in each.name] == []
    assert "no format 'w9'" in command("quantise", file, "-o", image, "--quant", "w9", code=2).err
    assert "is a folder" in command("quantise", file, "-o", tmp_path, code=2).err
    assert "cannot be written" in command("quantise", file, "-o", tmp_path / "no" / "f",
                                          code=2).err


def test_inspect_a_file(command, file):
    report = json.loads(command("inspect", file, "--json").out)
    assert report["architecture"] == "llama" and report["kind"] == "GGUF file"
    assert report["types"]["Q4_1"]["tensors"] == 15
    # 20 bytes for 32 values; the cache has 2 layers, 2 heads, and 18 bytes for 16 values.
    assert report["bits_per_weight"] == 5.0 and report["cache_bytes_per_token"] == 2 * 2 * 2 * 18
    weights = report["weight_bytes_per_token"]
    assert weights == 20 * (37 + 2 * (3 * 64 + 2 * 64 + 64)) * 64 // 32
    assert report["tokenizer"] == {"kind": "json", "tokens": 37, "chat_template": True}
    assert report["presets"]["tiny"]["largest_context"] == 80
    assert report["presets"]["tiny"]["chunk"] == 8
    w8 = json.loads(command("inspect", file, "--quant", "w8", "--json").out)
    assert w8["bits_per_weight"] == 8.5 and w8["matrices"][0]["origin"] == "quantised"
    table = command("inspect", file).out
    assert "bits per weight, machine" in table and "largest context" in table


def test_inspect_an_image(command, file, tmp_path):
    image = tmp_path / "image"
    command("quantise", file, "-o", image, "--config", "ecp5")
    found = json.loads(command("inspect", image, "--json").out)
    expected = json.loads(command("inspect", file, "--json").out)
    for key in ("parameters", "shape", "matrices", "tokenizer", "bits_per_weight",
                "weight_bytes_per_token", "cache_bytes_per_token"):
        assert found[key] == expected[key], key
    assert list(found["presets"]) == ["ecp5"] and found["kind"] == "image"
    assert "image" in command("inspect", image).out


def test_what_does_not_fit_is_said(command, tmp_path):
    """A width that the table SRAM of `tiny` does not take."""
    source = SyntheticCheckpoint(shape(dim=1056, heads=4, kv_heads=4, head_dim=128, layers=1,
                                       vocab=9, context=20_000))
    path = write_gguf(tmp_path / "m.gguf", source, tokens=[])
    report = json.loads(command("inspect", path, "--json").out)["presets"]
    assert report["tiny"]["largest_context"] == 0
    assert "a row of norm gains takes up 1056" in report["tiny"]["reason"]
    assert report["ecp5"]["largest_context"] == report["wide"]["largest_context"] == 20_000
    assert "no: the model does not fit configuration 'tiny'" in command("inspect", path).out
    # The smallest preset that takes all positions is chosen.
    assert "m on ecp5" in command("run", path, "--prompt-ids", "1", *GOLDEN).err


def test_memory_for_a_part_of_the_context(command, tmp_path):
    source = SyntheticCheckpoint(shape(context=1_000_000, layers=1))
    path = write_gguf(tmp_path / "m.gguf", source, tokens=[])
    report = json.loads(command("inspect", path, "--json").out)["presets"]
    most = report["tiny"]["largest_context"]
    assert 100_000 < most < 1_000_000
    text = command("run", path, "--prompt-ids", "1", *GOLDEN, "--config", "tiny", code=2).err
    assert f"take a larger configuration, or a context of up to {most:,}" in text
    run = ("run", path, "--prompt-ids", "1", *GOLDEN, "--config", "tiny", "--context")
    command(*run, most)
    command(*run, most + 1, code=2)


def test_model_that_fits_no_preset(command, tmp_path):
    source = SyntheticCheckpoint(shape(dim=64, heads=2, kv_heads=2, head_dim=512, layers=1,
                                       vocab=9))
    path = write_gguf(tmp_path / "m.gguf", source, tokens=[])
    assert "no preset fits" in command("run", path, "--prompt-ids", "1", *GOLDEN, code=2).err
    assert "a head (padded to 16) takes up 512" in command("inspect", path, code=2).err


def test_model_with_large_heads(command, tmp_path):
    """The presets end at heads of 128: those with larger ones are named."""
    source = SyntheticCheckpoint(shape(dim=64, heads=2, kv_heads=1, head_dim=250, layers=1,
                                       vocab=9, architecture="qwen3", qk_norm=True))
    path = write_gguf(tmp_path / "m.gguf", source, tokens=[])
    assert "takes up 256 elements" in command(
        "run", path, "--prompt-ids", "1", *GOLDEN, "--config", "wide", code=2).err
    assert "tiny-head256 (golden)" in command("run", path, "--prompt-ids", "1", *GOLDEN).err
    presets = json.loads(command("inspect", path, "--json").out)["presets"]
    assert presets["wide"]["largest_context"] == 0
    assert presets["tiny-head256"]["largest_context"] == source.shape.context


def test_inspection_of_features(command, tmp_path):
    rope = Rope(theta=5e5, kind="linear", factor=8.0)
    source = SyntheticCheckpoint(shape(architecture="gemma3", layers=7, ropes=(rope,), theta=5e5,
                                       qk_norm=True, post_norms=True, gain_offset=1.0,
                                       window_of=(20,) * 5 + (0, 20)))
    text = command("inspect", write_gguf(tmp_path / "m.gguf", source, tokens=[])).out
    lines = dict(line.split(maxsplit=1) for line in map(str.strip, text.splitlines())
                 if " " in line)
    assert lines["window_of"] == "5 x 20, 0, 20"
    assert lines["rope_of"] == "5 x 1, 0, 1"
    assert lines["ropes"] == "theta 500,000, linear by 8; theta 10,000"


def test_eval_of_a_file(command, file, tmp_path):
    """Blocks that are taken over are closer to the file than those that are rounded again."""
    (tmp_path / "ids").write_text(json.dumps(list(range(20))))
    found = {quant: json.loads(command("eval", file, "--ids", tmp_path / "ids", "--quant",
                                       quant, "--json").out)
             for quant in ("native", "w4")}
    assert found["native"]["positions"] == 20
    assert found["native"]["mean_difference"] < 0.5 * found["w4"]["mean_difference"]
    assert found["native"]["divergence"] < 0.5 * found["w4"]["divergence"]


def test_eval_against_another_file_in_windows(command, file, tmp_path):
    floats = write_gguf(tmp_path / "f.gguf", SyntheticCheckpoint(shape(dim=64, ffn=64)), Type.F32)
    (tmp_path / "text").write_text("the cat the the cat the " * 4)
    options = ("--text", tmp_path / "text", "--positions", "30", "--context", "16")
    other = json.loads(command("eval", file, *options, "--against", floats, "--json").out)
    own = json.loads(command("eval", file, *options, "--json").out)
    assert (own["windows"], own["window"], own["positions"]) == (2, 16, 30)
    # The machine is the same; the file's rounding to 4 bits is in one reference only.
    assert other["perplexity"] == own["perplexity"]
    assert other["divergence"] > 2 * own["divergence"] > 0
    table = command("eval", file, *options).out
    assert "KL divergence" in table and "2 of up to 16" in table
    for wrong, reason in ((("--context", "81"), "--context 81: expected 2 to 80"),
                          (("--against", "nowhere"), "nowhere"),
                          (("--ids", tmp_path / "text"), "either --text FILE or --ids")):
        assert reason in command("eval", file, *options, *wrong, code=2).err
    (tmp_path / "bad").write_bytes(b"\xff")
    assert "UTF-8" in command("eval", file, "--text", tmp_path / "bad", code=2).err


def test_run_draws_tokens(command, file, tmp_path):
    options = (file, "--prompt", "the cat", "--device", "golden", "--tokens", "12", "-q",
               "--temperature", "50", "--seed")
    report = tmp_path / "r.json"
    text = command("run", *options, "5", "--json", report).out
    assert text == command("run", *options, "5", "--passes-per-run", "4").out
    assert text != command("run", *options, "6").out
    figures = json.loads(report.read_text())
    assert figures["sampling"] == {"temperature": 50.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
                                   "repetition_penalty": 1.0, "seed": 5}
    new = figures["text"]
    assert text == f"the cat{new}\n" and len(new) > 3
    stopped = command("run", *options, "5", "--stop", new[2:4], "--stop", "#").out
    assert stopped == f"the cat{new[:new.index(new[2:4])]}\n"
    for wrong, reason in ((("--temperature", "0"), "a temperature of 0 takes the greatest"),
                          (("--min-p", "2"), "min_p is 2"), (("--stop", ""), "is empty")):
        assert reason in command("run", *options, "5", *wrong, code=2).err
    assert "--stop needs a tokenizer" in command(
        "run", write_llama2c(tmp_path / "m.bin", SyntheticCheckpoint(shape(dim=64))),
        "--prompt-ids", "1,2", *GOLDEN, "--stop", "a", code=2).err

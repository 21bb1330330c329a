"""Bad input on the command line: one clear message, exit code 2, never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from headrace.hw.config import PRESETS
from headrace.sim.device import SimDevice
from headrace.sim.dram import DRAMS
from headrace.sw.checkpoint import SyntheticCheckpoint
from headrace.sw.cli import main
from headrace.sw.cli import run as run_command
from headrace.sw.golden_device import GoldenDevice

from .machines import ODD, TINY, demo, shape, verilog


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 48,
          "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 37,
          "max_position_embeddings": 80, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": True}


@pytest.fixture
def model(tmp_path):
    """Folder of a good checkpoint without a tokenizer, to be damaged."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    source = SyntheticCheckpoint(shape())
    save_file({name: source.tensor(name) for name in source.shape.tensors()},
              folder / "model.safetensors")
    return folder


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused; return its message."""
    def call(*arguments: object) -> str:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert caught.value.code == 2, output.err
        message = [line for line in output.err.splitlines() if line.startswith("headrace: ")]
        assert len(message) == 1, output.err
        assert "Traceback" not in output.err
        # The message is the last thing, in one line.
        assert output.err.endswith(message[0] + "\n")
        return message[0]
    return call


IDS = ("--prompt-ids", "1,2,3", "--tokens", 2, "--device", "golden")


def test_good_input_is_not_refused(model, capsys):
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in ("run", model, *IDS, "--check")])
    assert caught.value.code == 0
    assert "check: bit-exact" in capsys.readouterr().err


def _config(folder: Path, **changes) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))


def _tensors(folder: Path, change) -> None:
    path = folder / "model.safetensors"
    # Copies: the file itself is written anew.
    tensors = {name: np.array(values) for name, values in load_file(path).items()}
    change(tensors)
    save_file(tensors, path)


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _set(tensors, name, value):
    tensors[name].reshape(-1)[7] = value


NAME = "model.layers.1.mlp.up_proj.weight"

DAMAGES = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ["no weights"]),
    "no config": (lambda f: (f / "config.json").unlink(), ["config.json", "cannot be read"]),
    "truncated": (_truncate, ["model.safetensors"]),
    "architecture": (lambda f: _config(f, architectures=["MambaForCausalLM"]),
                     ["unsupported architecture: MambaForCausalLM",
                      "supported: LlamaForCausalLM"]),
    "missing tensor": (lambda f: _tensors(f, lambda t: t.pop(NAME)), ["missing tensor", NAME]),
    "wrong shape": (lambda f: _tensors(f, lambda t: t.update({NAME: np.zeros((44, 47), "f4")})),
                    [NAME, "[44, 47]", "[44, 48]"]),
    "NaN": (lambda f: _tensors(f, lambda t: _set(t, NAME, np.nan)), [NAME, "nan", "[0, 7]"]),
    "infinity": (lambda f: _tensors(f, lambda t: _set(t, "model.norm.weight", -np.inf)),
                 ["model.norm.weight", "-inf"]),
    "vocabulary": (lambda f: _config(f, vocab_size=38), ["37 rows", "vocab_size", "38"]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_checkpoint(model, refused, name):
    damage, parts = DAMAGES[name]
    damage(model)
    message = refused("run", model, *IDS)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("arguments, parts", [
    (("nowhere", *IDS), ["model 'nowhere' does not exist"]),
    (("demo", "--prompt", "", "--device", "golden"), ["the prompt is empty"]),
    (("demo", "--prompt-ids", "", "--device", "golden"), ["the prompt is empty"]),
    (("demo", "--prompt-ids", "1,x"), ["--prompt-ids '1,x'"]),
    (("demo",), ["expected either --prompt TEXT or --prompt-ids"]),
    (("demo", "--prompt", "a", "--prompt-ids", "1"), ["expected either"]),
    (("demo", "--prompt-ids", "1,512", "--device", "golden"), ["512", "out of range", "511"]),
    (("demo", "--prompt-ids=-1", "--device", "golden"), ["-1", "out of range"]),
    (("demo", *IDS, "--tokens", 100000), ["exceed the context"]),
    (("demo", *IDS, "--tokens", 0), ["0 tokens to generate"]),
    (("demo", *IDS, "--context", 4, "--tokens", 2), ["exceed the context of 4"]),
    (("demo", *IDS, "--context", 0), ["context 0"]),
    (("demo", *IDS, "--chunk", 0), ["chunk is 0"]),
    (("demo", *IDS, "--chunk", 1000), ["chunk is 1000"]),
    (("demo", *IDS, "--passes-per-run", 0), ["passes_per_run is 0"]),
    (("demo", *IDS, "--device", "fpga"), ["no device 'fpga'", "golden, sim"]),
    (("demo", *IDS, "--config", "huge"), ["no configuration 'huge'", "tiny, ecp5, edge, wide"]),
    (("demo", *IDS, "--device", "sim", "--latency", 0), ["latency is 0"]),
    (("demo", *IDS, "--device", "sim", "--bandwidth", 0), ["bandwidth is 0"]),
    (("demo", *IDS, "--device", "sim", "--bandwidth", 1.5), ["bandwidth is 1.5"]),
    (("demo", *IDS, "--device", "sim", "--memory", "ddr9"), ["no DRAM 'ddr9'", *DRAMS]),
    (("demo", *IDS, "--device", "sim", "--memory", "hbm2-pc", "--latency", 9),
     ["latency is 9", "ideal memory"]),
    (("demo", *IDS, "--device", "sim", "--stall-seed=-1"), ["stall_seed is -1"]),
], ids=lambda value: " ".join(map(str, value[:6])) if isinstance(value, tuple) else "")
def test_bad_arguments(refused, arguments, parts):
    message = refused("run", *arguments)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("text, parts", [
    ("memory_bytes = 65536", ["larger than the memory", "65,536", "memory_bytes",
                              f"{demo(TINY).total_bytes:,} bytes are needed"]),
    ("x_bytes = 256", ["fp32 vectors", "there are 256", "x_bytes"]),
    ("a_bytes = 128", ["int8 activations", "there are 128", "a_bytes"]),
    ("table_elems = 32", ["norm gains", "there are 32", "table_elems"]),
    ("cols = 6\nlanes = 4", ["lanes must divide cols"]),
    ("rows = 0", ["rows must be between 1 and 64, not 0"]),
    ("rows = 2.5", ["rows must be a whole number, not 2.5"]),
    ("port_bits = 48", ["port_bits must be 32, 64, 128, 256 or 512, not 48"]),
    ("ring_bytes = 64", ["ring_bytes must be at least"]),
    ("colums = 8", ["unknown field 'colums'"]),
    ("rows = ", ["not a TOML file"]),
    ("preset = 'big'", ["no preset 'big'"]),
])
def test_impossible_configuration(refused, tmp_path, text, parts):
    path = tmp_path / "own.toml"
    path.write_text(text)
    message = refused("run", "demo", *IDS, "--config", path)
    for part in parts:
        assert part in message


def test_json_file_that_cannot_be_written(refused, tmp_path):
    message = refused("run", "demo", *IDS, "--json", tmp_path)
    assert message == f"headrace: --json {tmp_path}: is a folder: expected a file to write"
    (tmp_path / "file").touch()
    message = refused("run", "demo", *IDS, "--json", tmp_path / "file" / "out.json")
    assert f"cannot write to {tmp_path / 'file'}: " in message


class _Faulty(SimDevice):
    """A device whose memory answers part of the image with an error."""

    fault = (0, 0, "slverr", True)

    def open(self):
        super().open()
        begin, size, response, reads = self.fault
        self.simulation.memory.inject(begin, size, response, reads=reads, writes=not reads)

    def close(self):
        # It has been reset, and works again as soon as the memory does.
        self.simulation.memory.clear_errors()
        assert self.read_register("status") == 0
        type(self).good_again = self.run_again()
        super().close()

    def run_again(self) -> bool:
        self.write_register("passes", 1)
        self.run(3_000_000)
        return self.read_bits("status", "done") == 1 and not self.read_bits("status", "error")


@pytest.mark.parametrize("where", ["program", "layers.1.gate_up", "rope.0", "tokens", "cache"])
@pytest.mark.parametrize("response", ["slverr", "decerr"])
def test_error_response_of_the_memory(refused, monkeypatch, where, response):
    writes = where == "cache"

    def open_device(kind, image, **_):
        region = image.regions.get(where) or image.parts.get(where) or next(
            part for name, part in image.parts.items() if name.startswith("layers.1."))
        _Faulty.fault = (region.begin, region.size, response, not writes)
        _Faulty.region = region
        return _Faulty(TINY, verilog(TINY), memory_bytes=image.total_bytes)

    monkeypatch.setattr(run_command, "open_device", open_device)
    message = refused("run", "demo", "--prompt-ids", "1,2,3", "--tokens", 2)
    code = {"slverr": 1, "decerr": 2}[response] + 2 * writes
    assert f"error {code} at address 0x" in message and response.upper() in message
    address = int(message.split(" at address ")[1].split(":")[0], 16)
    assert _Faulty.region.begin <= address < _Faulty.region.end
    assert "the device has been reset" in message
    assert _Faulty.good_again


def test_fingerprint_of_another_device(refused, monkeypatch):
    monkeypatch.setattr(run_command, "open_device", lambda kind, image, **_: GoldenDevice(
        ODD, memory_bytes=image.total_bytes))
    message = refused("run", "demo", "--prompt-ids", "1,2,3", "--tokens", 2)
    assert f"fingerprint {ODD.fingerprint:08x}" in message
    assert f"{TINY.fingerprint:08x} ('tiny')" in message


def test_fingerprint_of_the_hardware():
    with SimDevice(TINY, verilog(TINY), memory_bytes=65536) as device:
        assert device.read_register("fingerprint") == TINY.fingerprint
    assert len({config.fingerprint for config in (ODD, *PRESETS.values())}) == 5


def _process(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-c", "from headrace.sw.cli import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment}, capture_output=True, text=True,
        timeout=300, check=False)


def test_no_compiler(tmp_path):
    """As a process of its own, which finds no program at all."""
    # The text is in the cache then, and no Yosys is needed.
    from headrace.sim.generation import device_verilog
    device_verilog(TINY)
    done = _process("run", "demo", "--prompt-ids", "1", "--tokens", "1", PATH=str(tmp_path), CXX="")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        "headrace: no C++ compiler: the simulator is compiled with g++ (or $CXX), which is not on "
        "PATH. Install it, for example with: apt-get install g++")
    assert "Traceback" not in done.stderr


def test_exit_code_of_a_process():
    done = _process("run", "nowhere", "--prompt-ids", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headrace: model 'nowhere' does not exist")
    assert done.stderr.count("\n") == 1

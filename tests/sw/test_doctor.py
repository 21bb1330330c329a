"""The self-test: environment, devices that work, and devices that do not."""

import json

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.regmap import REGISTERS
from headrace.sw.checkpoint import load_checkpoint
from headrace.sw.cli import main
from headrace.sw.compiler import compile_model
from headrace.sw.doctor import DeviceDoctor, environment, examine_environment, failed
from headrace.sw.doctor import test_memory as check_memory
from headrace.sw.doctor.memory_test import lfsr_words
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.links.board import MemoryTestResult

from .models import ODD


TINY = PRESETS["tiny"]
SIZE = 1 << 20


@pytest.fixture(scope="module")
def images():
    """The built-in model by configuration."""
    found = {}

    def image(config):
        if config not in found:
            found[config] = compile_model(load_checkpoint("demo"), config, context=64)
        return found[config]

    return image


def _run(*words):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    return ended.value.code or 0


def _checks(device, images, **options):
    with device:
        return {check.name: check for check in DeviceDoctor(device, images, **options).examine()}


class Broken(GoldenDevice):
    """Memory in which bit 7 of the byte at `at` is always 1."""
    at = 0x5002

    def read_memory(self, addr, size):
        data = super().read_memory(addr, size)
        if addr <= self.at < addr + size:
            data[self.at - addr] |= 0x80
        return data


class Aliased(GoldenDevice):
    """Memory half as large as it says."""

    def _range(self, addr, size):
        return super()._range(addr % (SIZE // 2), size)


class Wrong(GoldenDevice):
    """A device that chooses another token than it should."""

    def _pass(self, program, index):
        super()._pass(program, index)
        begin = self.tokens + 4 * (self._registers["position"] + self._registers["positions"])
        self.memory[begin] ^= 1


def test_the_pattern_never_repeats_a_word_and_is_the_boards():
    words = lfsr_words(0x1234_5678, 20000)
    assert len(set(words.tolist())) == 20000 and words[0] == 0x1234_5678
    assert words[1] == 0x091a_2b3c
    # A word with its lowest bit set meets the polynomial.
    at = next(index for index, word in enumerate(words) if word & 1)
    assert words[at + 1] == words[at] >> 1 ^ 0xEDB8_8320


def test_memory_without_faults():
    with GoldenDevice(TINY, memory_bytes=SIZE, memory_base=4096, fill=0x55) as device:
        seen = []
        result = check_memory(device, 8192, 300_000, progress=lambda *pair: seen.append(pair))
        assert (result.words, result.errors, result.bad_addr) == (75_000, 0, None)
        assert seen[-1] == (1_200_000, 1_200_000) and len(seen) > 8
        # Nothing outside is touched.
        assert set(device.read_memory(4096, 4096)) == {0x55}
        assert set(device.read_memory(8192 + 300_000, 1000)) == {0x55}


def test_memory_with_a_stuck_bit():
    with Broken(TINY, memory_bytes=SIZE) as device:
        result = check_memory(device, 0, 65536 + 4)
        assert (result.errors, result.bad_addr) == (1, 0x5000)
        assert check_memory(device, 0x5004, 4096).errors == 0


def test_memory_with_a_missing_address_line():
    with Aliased(TINY, memory_bytes=SIZE) as device:
        assert check_memory(device, 0, SIZE // 2).errors == 0
        result = check_memory(device, 0, SIZE)
        assert (result.errors, result.bad_addr) == (SIZE // 8, 0)


@pytest.mark.parametrize("addr, size", [(2, 8), (0, 6), (0, 0)])
def test_bad_range(addr, size):
    with GoldenDevice(TINY, memory_bytes=SIZE) as device, pytest.raises(
            HeadraceError, match=f"memory test of {size} bytes at {addr:#x}: expected multiples"):
        check_memory(device, addr, size)


@pytest.mark.parametrize("config", [TINY, ODD], ids=lambda config: config.name)
def test_a_sound_device(images, config):
    found = _checks(GoldenDevice(config, memory_bytes=SIZE, fill=0xff), images, config=config)
    assert {name: check.verdict for name, check in found.items()} == {
        "identification": "ok", "configuration": "ok", "memory": "ok", "known answer": "ok",
        "bandwidth": "skipped"}
    assert found["memory"].figures["bytes"] == SIZE and not failed(found.values())
    assert found["configuration"].figures["rows"] == config.rows
    assert found["known answer"].figures["text"].startswith("Once upon a time")


def test_an_unknown_configuration_is_still_tested(images):
    found = _checks(GoldenDevice(ODD, memory_bytes=SIZE), images)
    assert [check.verdict for check in found.values()] == ["ok", "skipped", "ok", "skipped",
                                                           "skipped"]
    assert "--config FILE.toml" in found["configuration"].text


def test_another_configuration(images):
    found = _checks(GoldenDevice(ODD, memory_bytes=SIZE), images, config=TINY)
    assert found["configuration"].verdict == "failed"
    assert f"expected {TINY.fingerprint:08x} (tiny)" in found["configuration"].text


def test_sizes_must_be_those_of_the_configuration(images):
    device = GoldenDevice(TINY, memory_bytes=SIZE)
    device._registers["size"] ^= 1 << REGISTERS["size"].bits["cols"][0]
    check = _checks(device, images)["configuration"]
    assert check.verdict == "failed" and "cols 9 instead of 8" in check.text


@pytest.mark.parametrize("register, text", [
    ("id", "register id reads 0x00000000: expected 0x43415248"),
    ("version", "version 0.0: expected 1.1 or a later 1.x")])
def test_no_device(images, register, text):
    device = GoldenDevice(TINY, memory_bytes=SIZE)
    device._registers[register] = 0
    found = _checks(device, images)
    assert list(found) == ["identification"] and text in found["identification"].text
    assert failed(found.values())


def test_broken_memory(images):
    check = _checks(Broken(TINY, memory_bytes=SIZE), images)["memory"]
    assert check.verdict == "failed" and "1 of 262,144 words are wrong, the first at 0x5000" in (
        check.text)


def test_a_wrong_answer(images):
    device = Wrong(TINY, memory_bytes=SIZE)
    device.tokens = images(TINY).regions["tokens"].begin
    found = _checks(device, images)
    assert found["memory"].verdict == "ok"
    assert found["known answer"].verdict == "failed"
    assert "first difference" in found["known answer"].text
    assert found["bandwidth"].verdict == "skipped"


def test_an_error_of_the_device_ends_the_examination(images):
    device = GoldenDevice(TINY, memory_bytes=SIZE)
    device._start = lambda: None
    device.wait_interrupt = lambda *_: False
    found = _checks(device, images)
    assert list(found)[-1] == "known answer" and found["known answer"].verdict == "failed"
    assert "did not end within" in found["known answer"].text


class SelfTesting(GoldenDevice):
    """A board that tests its memory by itself."""
    asked = None
    result = (0, None)

    def memory_test(self, addr=0, size=None):
        self.asked = addr, size
        return MemoryTestResult(size // 4, *self.result, 0.5)


def test_a_board_tests_its_own_memory(images):
    device = SelfTesting(TINY, memory_bytes=SIZE)
    check = _checks(device, images, memory_bytes=8192)["memory"]
    assert device.asked == (0, 8192) and check.verdict == "ok" and "by the board" in check.text
    device = SelfTesting(TINY, memory_bytes=2 * SIZE)
    device.result = 3, 0x44
    check = _checks(device, images)["memory"]
    assert device.asked == (0, 2 * SIZE) and check.verdict == "failed"
    assert check.figures["errors"] == 3 and check.figures["bad_addr"] == 0x44


# The command.

def test_command_examines_the_golden_device(capsys):
    assert _run("golden", "--json", "--memory", "4096") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and report["examined"] == "golden"
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["memory"]["figures"]["bytes"] == 4096
    assert checks["configuration"]["figures"]["config"] == "tiny"
    assert _run("golden") == 0
    assert "Once upon a time" in capsys.readouterr().out


@pytest.mark.parametrize("words, text", [
    (["nothing"], "no device 'nothing'"), (["golden", "--config", "huge"], "no configuration"),
    (["tcp://localhost:1"], "localhost"), (["uart:///dev/nothing"], "/dev/nothing")])
def test_what_cannot_be_opened(words, text, capsys):
    assert _run(*words) == 2
    captured = capsys.readouterr()
    assert text in captured.err and "Traceback" not in captured.err


def test_too_much_memory(capsys):
    assert _run("golden", "--memory", "400000000", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"] and "expected a multiple of 4 up to" in report["checks"][-1]["text"]


def test_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    # Their tests are elsewhere, and starting them takes time.
    monkeypatch.setattr(environment, "_TOOLS", (("no-such-tool", "nothing", "pip install it"),))
    checks = {check.name: check for check in examine_environment()}
    assert checks["amaranth"].verdict == checks["cache"].verdict == "ok"
    assert checks["C++ compiler"].verdict == checks["verilator"].verdict == "ok"
    assert checks["no-such-tool"].verdict == "missing"
    assert not failed(checks.values())
    assert checks["cache"].figures["entries"] == 0


def test_environment_without_what_it_needs(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(environment, "_TOOLS", ())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(environment.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(environment, "_PACKAGES", (("no-such-package", "all", None),
                                                   ("no-other", "little", "pip install it")))
    assert _run("--json") == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["make"]["verdict"] == checks["no-such-package"]["verdict"] == "failed"
    assert checks["no-other"]["verdict"] == "missing"
    assert "set HEADRACE_CACHE" in checks["cache"]["text"]


def test_version_of_a_tool(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n[ \"$1\" = -V ] && echo tool 7 && exit\nexit 1\n")
    tool.chmod(0o755)
    assert environment._version("tool", str(tool)) == "tool 7"
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert environment._version("tool", str(tool)) == "unknown version"
    assert np.all(lfsr_words(1, 2) == [1, 0xEDB8_8320])

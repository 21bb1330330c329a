"""Kept Verilog: generated once, and again whenever it may differ."""

import dataclasses

import pytest

import headrace.hw.verilog
from headrace.hw.config import PRESETS
from headrace.sim import cache, generation
from headrace.sim.generation import device_verilog


TINY = PRESETS["tiny"]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """An empty cache, sources of one file, and the arguments of every generation."""
    found = []

    def generate(config, fill=None, *, probe=False, activity=False):
        found.append((config, fill, probe, activity))
        return f"module headrace(); // {len(found)}\nendmodule\n"

    sources = tmp_path / "hw"
    sources.mkdir()
    (sources / "device.py").write_text("rows = 1\n")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(generation, "SOURCES", sources)
    monkeypatch.setattr(headrace.hw.verilog, "generate", generate)
    return found


def test_generated_once(calls):
    first = device_verilog(TINY)
    assert device_verilog(TINY) == first and calls == [(TINY, None, False, False)]
    entry, = cache.entries()
    assert (entry.kind, entry.label) == ("verilog", "tiny")


def test_what_is_around_the_hardware_does_not_count(calls):
    first = device_verilog(TINY)
    other = dataclasses.replace(TINY, name="other", clk_hz=1, memory="none", memory_bytes=1 << 20)
    assert device_verilog(other) == first and len(calls) == 1


@pytest.mark.parametrize("other", [
    {"config": dataclasses.replace(TINY, rows=5)}, {"fill": "ones"}, {"fill": 1},
    {"probe": True}, {"activity": True}], ids=str)
def test_generated_again(calls, other):
    first = device_verilog(TINY)
    assert device_verilog(**{"config": TINY, **other}) != first and len(calls) == 2
    assert device_verilog(TINY) == first and len(calls) == 2


def test_seed_and_text_are_different_fills(calls):
    assert device_verilog(TINY, 1) != device_verilog(TINY, "1")


def test_generated_again_after_a_change_of_a_source(calls):
    first = device_verilog(TINY)
    (generation.SOURCES / "device.py").write_text("rows = 2\n")
    second = device_verilog(TINY)
    assert second != first
    (generation.SOURCES / "sub").mkdir()
    (generation.SOURCES / "sub" / "more.py").touch()
    assert device_verilog(TINY) not in (first, second) and len(calls) == 3


def test_the_sources_are_those_of_the_hardware():
    assert (generation.SOURCES / "device.py").is_file()
    assert (generation.SOURCES / "matmul" / "matmul.py").is_file()

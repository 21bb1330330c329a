"""Tools of synthesis and of place and route: found, run in sight, and stopped with the run."""

import functools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from headrace.sw.errors import HeadraceError


__all__ = ["Progress", "ToolCrashed", "find_tool", "run_tool", "version"]


#: Called with the step that a tool has come to.
Progress = Callable[[str], None]


class ToolCrashed(HeadraceError):
    """A tool was ended by a signal: its own fault, and it may not happen again."""


def find_tool(name: str) -> str:
    """Command of a tool: from PATH, or from its wheel, which is called ``yowasp-`` and its name.

    Raises
    ------
    HeadraceError
        If there is none.
    """
    beside = Path(sys.executable).parent
    for command in (name, f"yowasp-{name}"):
        found = shutil.which(command) or shutil.which(command, path=str(beside))
        if found:
            return found
    raise HeadraceError(f"no {name}: neither {name} nor yowasp-{name} is installed. Install it, "
                        f"for example with: pip install 'headrace[synth]'")


@functools.cache
def version(command: str) -> str:
    """What a tool says of its version."""
    done = subprocess.run([command, "--version"], text=True, capture_output=True, check=False,
                          timeout=600)
    return (done.stdout + done.stderr).strip().splitlines()[0]


def run_tool(name: str, command: list[str], folder: Path, log: str, step: Callable[[str], str],
             *, progress: Progress = lambda text: None, limit_s: float = 6 * 3600) -> float:
    """Run a tool until it ends; returns the seconds that it took.

    Parameters
    ----------
    name : str
        Name for errors.
    command : list of str
        Command and arguments.
    folder : Path
        Where it runs.
    log : str
        File in `folder` that the tool writes what it does to.
    step : callable
        What to show for a line of that file, nothing for most.
    progress : callable
        Shows it.
    limit_s : float
        The tool is stopped after so many seconds.

    Raises
    ------
    ToolCrashed
        If it is ended by a signal.
    HeadraceError
        If it fails, with its last words, or takes too long.
    """
    start = time.monotonic()
    place = 0
    with open(folder / "output.txt", "w+") as output, subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            code = None
            while code is None:
                try:
                    code = process.wait(0.5)
                except subprocess.TimeoutExpired:
                    if time.monotonic() - start > limit_s:
                        raise HeadraceError(f"{name} has not ended within {limit_s:.0f} s: it "
                                            f"was stopped") from None
                if (folder / log).is_file():
                    with open(folder / log, errors="replace") as file:
                        file.seek(place)
                        for line in file.readlines():
                            if text := step(line):
                                progress(text)
                        place = file.tell()
        finally:
            process.kill()
        if code:
            output.seek(0)
            lines = [line.strip() for line in output if line.strip()]
            # Some tools go on to talk after they have said what is wrong.
            words = [line for line in lines if "ERROR" in line][-3:] or lines[-3:]
            said = " / ".join(words) or f"exit code {code}"
            # A shell gives a signal as 128 and its number.
            if code < 0 or code > 128:
                raise ToolCrashed(f"{name} crashed (exit code {code}): {said}")
            raise HeadraceError(f"{name} failed: {said}")
    return time.monotonic() - start

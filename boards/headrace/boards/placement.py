"""Place and route with nextpnr: how fast a netlist is, and what limits it."""

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.sw.errors import HeadraceError

from .families import FAMILIES
from .tools import Progress, find_tool, run_tool


__all__ = ["Timing", "load_timing", "place", "progress_of"]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Result of place and route.

    Parameters
    ----------
    goal_mhz, fmax_mhz : float
        Clock that was asked for, and the fastest one between registers.
    seed : int
        Seed of the placement.
    used, available : dict of str to int
        By kind of cell, as nextpnr counts.
    path : list of str
        Slowest path: the names of the cells that it passes, register to register.
    logic_ns, routing_ns : float
        Delay of its cells, set-up included, and of the wires between them.
    seconds : float
        Time that nextpnr took.
    """

    goal_mhz: float
    fmax_mhz: float
    seed: int
    used: dict[str, int]
    available: dict[str, int]
    path: list[str]
    logic_ns: float
    routing_ns: float
    seconds: float

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.fmax_mhz >= self.goal_mhz


def place(netlist: Path, folder: Path, *, family: str = "ecp5", clk_hz: int = 50_000_000,
          seed: int = 1, progress: Progress = lambda text: None) -> Timing:
    """Place and route a netlist, and keep ``timing.json`` in a folder.

    A clock that is missed is a result, not an error.

    Parameters
    ----------
    netlist : Path
        Netlist of Yosys, of a design with one clock.
    folder : Path
        Where files go.
    family : str
        One of :data:`FAMILIES` with parts that nextpnr knows.
    clk_hz : int
        Clock to aim at.
    seed : int
        Seed of the placement.
    progress : callable
        Shows what nextpnr does.

    Raises
    ------
    HeadraceError
        If there is no nextpnr for the family, or it fails: the part is too small, for example.
    """
    options = FAMILIES[family].places
    if not options:
        able = ", ".join(name for name, kind in FAMILIES.items() if kind.places)
        raise HeadraceError(f"no place and route for family {family!r}: expected one of {able}")
    command = [find_tool(f"nextpnr-{family}"), *options, "--json", "netlist.json", "--freq",
               f"{clk_hz / 1e6:g}", "--seed", str(seed), "--timing-allow-fail",
               "--lpf-allow-unconstrained", "--report", "report.json", "--log", "nextpnr.log"]
    # The tools from wheels see files below their folder only.
    if netlist.parent != folder:
        shutil.copyfile(netlist, folder / "netlist.json")
    seconds = run_tool("nextpnr", command, folder, "nextpnr.log", progress_of, progress=progress)
    timing = _read(json.loads((folder / "report.json").read_text(encoding="utf-8")), seed,
                   seconds)
    (folder / "netlist.json").unlink()
    (folder / "output.txt").unlink()
    (folder / "timing.json").write_text(json.dumps(asdict(timing), indent=1), encoding="utf-8")
    return timing


def load_timing(folder: Path) -> Timing:
    """The result that is kept in a folder."""
    return Timing(**json.loads((folder / "timing.json").read_text(encoding="utf-8")))


def _read(report: dict, seed: int, seconds: float) -> Timing:
    if len(report["fmax"]) != 1:
        raise HeadraceError(f"nextpnr reports {len(report['fmax'])} clocks: expected one, with a "
                            f"path from register to register")
    clock, = report["fmax"].values()
    # Paths from and to pins are reported too; they are nobody's here.
    longest = next(path["path"] for path in report["critical_paths"]
                   if path["from"] == path["to"] and "async" not in path["from"])
    names = [longest[0]["from"]["cell"], *(piece["to"]["cell"] for piece in longest)]
    routing = sum(piece["delay"] for piece in longest if piece["type"] == "routing")
    return Timing(
        goal_mhz=clock["constraint"], fmax_mhz=clock["achieved"], seed=seed,
        used={kind: count["used"] for kind, count in report["utilization"].items()
              if count["used"]},
        available={kind: count["available"] for kind, count in report["utilization"].items()
                   if count["used"]},
        path=[name for i, name in enumerate(names) if i == 0 or name != names[i - 1]],
        logic_ns=round(sum(piece["delay"] for piece in longest) - routing, 3),
        routing_ns=round(routing, 3), seconds=round(seconds, 1))


def progress_of(line: str) -> str:
    """What to show for a line of nextpnr's log, nothing for most."""
    found = re.match(r"Info: ((?:Packing|Placing|Creating initial|Running|Routing|Starting|"
                     r"Setting up|Promot).*?)\.*$", line)
    return f"nextpnr: {found[1]}" if found else ""

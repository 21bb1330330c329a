"""What nextpnr reports of a board's top: clocks against their goals, and what limits each."""

import json
from dataclasses import dataclass
from pathlib import Path

from headrace.sw.errors import HeadraceError


__all__ = ["Clock", "Crossing", "Routing", "load_routing", "read_report"]


#: Kinds of cells as nextpnr counts them, and our names.
_KINDS = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "MULT18X18D": "DSP 18x18",
          "DP16KD": "block RAM 18 Kb", "TRELLIS_IO": "pins", "EHXPLLL": "PLL",
          "DQSBUFM": "DQS buffer"}


@dataclass(frozen=True, kw_only=True)
class Clock:
    """One clock after place and route.

    Parameters
    ----------
    name : str
        Net of the clock.
    goal_mhz, fmax_mhz : float
        What was asked for, and the fastest between two of its registers.
    path : list of str
        Its slowest path: names of the cells that it passes, register to register.
    logic_ns, routing_ns : float
        Delay of these cells, set-up included, and of the wires between them.
    """

    name: str
    goal_mhz: float
    fmax_mhz: float
    path: list[str]
    logic_ns: float
    routing_ns: float

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.fmax_mhz >= self.goal_mhz


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Slowest path from registers of one clock to those of another.

    Clocks of a PLL are in phase, so the path must settle in a period of the faster one; paths of
    synchronisers are held to it, too.

    Parameters
    ----------
    start, end : str
        The clocks.
    delay_ns, limit_ns : float
        Its delay, and the shorter period.
    path : list of str
        Names of the cells that it passes.
    """

    start: str
    end: str
    delay_ns: float
    limit_ns: float
    path: list[str]

    @property
    def met(self) -> bool:
        """Whether it settles in time."""
        return self.delay_ns <= self.limit_ns


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Result of place and route.

    Parameters
    ----------
    clocks : list of Clock
        All clocks with a path from register to register.
    crossings : list of Crossing
        Between clocks.
    used, available : dict of str to int
        By kind of resource.
    seed : int
        Seed of the placement.
    seconds : float
        Time that nextpnr took.
    """

    clocks: list[Clock]
    crossings: list[Crossing]
    used: dict[str, int]
    available: dict[str, int]
    seed: int
    seconds: float

    @property
    def met(self) -> bool:
        """Whether every clock reaches its goal, and paths between clocks settle."""
        return all(item.met for item in (*self.clocks, *self.crossings))

    @property
    def missed(self) -> list[str]:
        """What does not, in words."""
        return [f"{clock.name}: {clock.fmax_mhz:.1f} MHz of {clock.goal_mhz:g}"
                for clock in self.clocks if not clock.met] + [
            f"{crossing.start} to {crossing.end}: {crossing.delay_ns:.1f} ns, at most "
            f"{crossing.limit_ns:.1f}" for crossing in self.crossings if not crossing.met]


def load_routing(path: Path) -> Routing:
    """The result that is kept in a file."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    return Routing(**{**facts, "clocks": [Clock(**clock) for clock in facts["clocks"]],
                      "crossings": [Crossing(**crossing) for crossing in facts["crossings"]]})


def read_report(report: dict, seed: int, seconds: float, other_mhz: float) -> Routing:
    """What nextpnr's report says.

    Parameters
    ----------
    report : dict
        The report.
    seed, seconds : int, float
        Of the run.
    other_mhz : float
        Goal of clocks that the report has none for, since they have no path of their own.

    Raises
    ------
    HeadraceError
        If there is no clock in it.
    """
    goals = {name: found["constraint"] for name, found in report["fmax"].items()}
    longest, crossings = {}, []
    for path in report["critical_paths"]:
        start, end = (path[side].partition(" ")[2] for side in ("from", "to"))
        # Pins have no clock.
        if "async" in path["from"] + path["to"]:
            continue
        if start == end:
            longest[start] = path["path"]
        else:
            cells, delay, _ = _cells(path["path"])
            fastest = max(goals.get(start, other_mhz), goals.get(end, other_mhz))
            crossings.append(Crossing(start=_short(start), end=_short(end), delay_ns=delay,
                                      limit_ns=round(1000 / fastest, 3), path=cells))
    clocks = []
    for name, found in sorted(report["fmax"].items()):
        cells, delay, routing = _cells(longest.get(name, []))
        clocks.append(Clock(
            name=_short(name), goal_mhz=round(found["constraint"], 3),
            fmax_mhz=round(found["achieved"], 3), path=cells,
            logic_ns=round(delay - routing, 3), routing_ns=routing))
    if not clocks:
        raise HeadraceError("nextpnr reports no clock: expected one, with a path from register to "
                            "register")
    counts = report["utilization"]
    kinds = [kind for kind in _KINDS if counts.get(kind, {}).get("used")]
    return Routing(clocks=clocks, crossings=crossings,
                   used={_KINDS[kind]: counts[kind]["used"] for kind in kinds},
                   available={_KINDS[kind]: counts[kind]["available"] for kind in kinds},
                   seed=seed, seconds=round(seconds, 1))


def _cells(path: list) -> tuple[list[str], float, float]:
    """Cells that a path passes, its delay, and that of its wires."""
    cells = [path[0]["from"]["cell"], *(piece["to"]["cell"] for piece in path)] if path else []
    return ([cell for i, cell in enumerate(cells) if i == 0 or cell != cells[i - 1]],
            round(sum(piece["delay"] for piece in path), 3),
            round(sum(piece["delay"] for piece in path if piece["type"] == "routing"), 3))


def _short(name: str) -> str:
    """Name of a clock's net without what nextpnr adds for global nets and buffers."""
    return name.removeprefix("$glbnet$").removesuffix("$TRELLIS_IO_IN")

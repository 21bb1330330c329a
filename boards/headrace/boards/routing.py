"""Place and route of a board's top: clocks against their goals, and what limits each."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.sw.errors import HeadraceError

from .catalogue import Board
from .placement import progress_of
from .tools import Progress, ToolCrashed, find_tool, run_tool


__all__ = ["Clock", "Crossing", "Routing", "load_routing", "options", "read_report", "route"]


#: Option of nextpnr by the beginning of a part's full name.
_PARTS = {"LFE5U-25F": "--25k", "LFE5U-45F": "--45k", "LFE5U-85F": "--85k",
          "LFE5UM5G-25F": "--um5g-25k", "LFE5UM5G-45F": "--um5g-45k",
          "LFE5UM5G-85F": "--um5g-85k"}

#: Kinds of cells as nextpnr counts them, and our names.
_KINDS = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "MULT18X18D": "DSP 18x18",
          "DP16KD": "block RAM 18 Kb", "TRELLIS_IO": "pins", "EHXPLLL": "PLL",
          "DQSBUFM": "DQS buffer"}

#: Runs of nextpnr until its crashes are given up on.
_ATTEMPTS = 5


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

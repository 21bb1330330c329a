"""From a board to its bitstream: Verilog, Yosys, nextpnr, ecppack."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.hw.config import Config
from headrace.sim.cache import content_key
from headrace.sw.errors import HeadraceError

from . import design
from .catalogue import Board
from .constraints import lpf, netlist_ports
from .families import FAMILIES
from .report import Routing, load_routing
from .routing import options, route
from .steps import Steps
from .synthesis import LEAST_HZ, LOGIC, Resources, load_resources, synthesise
from .tools import Progress, find_tool, run_tool, version


__all__ = ["Build", "TimingMissed", "build_bitstream"]


class TimingMissed(HeadraceError):
    """Place and route has ended and a clock misses its goal; there is no bitstream."""

    exit_code = 1

    def __init__(self, build: "Build"):
        self.build = build
        super().__init__(f"{build.board}: timing is not met ({', '.join(build.routing.missed)}). "
                         f"Try another --seed, or take the bitstream as it is with "
                         f"--allow-timing-failure")


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a build has made and found.

    Parameters
    ----------
    board, config : str
        Names.
    fingerprint : int
        Of the configuration: what the driver checks.
    resources : Resources
        Of the synthesis, with its units.
    routing : Routing
        Of place and route: the final counts, and clocks.
    tools : dict of str to str
        Version of each.
    seconds : dict of str to float
        Time of each step when it was last done.
    skipped : list of str
        Steps whose inputs had not changed.
    peak_bytes : int
        Memory of the largest process.
    bitstream : str
        Its file name; empty if timing is not met and that was not allowed.
    """

    board: str
    config: str
    fingerprint: int
    resources: Resources
    routing: Routing
    tools: dict[str, str]
    seconds: dict[str, float]
    skipped: list[str]
    peak_bytes: int
    bitstream: str

    def facts(self) -> dict:
        """Everything, as plain data for JSON."""
        found = asdict(self)
        found["routing"]["met"] = self.routing.met
        for kind in ("clocks", "crossings"):
            for item, plain in zip(getattr(self.routing, kind), found["routing"][kind]):
                plain["met"] = item.met
        return found


def build_bitstream(board: Board, config: Config, folder: Path, *, seed: int = 1,
                    allow_timing_failure: bool = False, verilog: str | None = None,
                    progress: Progress = lambda text: None) -> Build:
    """Build a board's bitstream in a folder; steps whose inputs have not changed are skipped.

    Files: ``top.v``, ``netlist.json``, ``board.lpf``, ``board.config``, ``nextpnr.log``,
    ``build.json`` with the result, and the bitstream, named for the board.

    Parameters
    ----------
    board : Board
        One whose part nextpnr knows.
    config : Config
        Of the accelerator.
    folder : Path
        Where files go.
    seed : int
        Seed of the placement.
    allow_timing_failure : bool
        Whether there is to be a bitstream even if a clock misses its goal.
    verilog : str or None
        Another top instead of the board's, of a module ``top``.
    progress : callable
        Shows what is done.

    Raises
    ------
    TimingMissed
        If a clock misses its goal and that is not allowed.
    HeadraceError
        If a tool is missing or fails, or ports and pins do not agree.
    """
    if board.vivado:
        raise HeadraceError(f"{board.name}: its part needs the vendor's tools")
    # Before the first step, some of which take long.
    tools = {name: find_tool(name) for name in ("yosys", "nextpnr-ecp5", "ecppack")}
    versions = {name: version(command) for name, command in tools.items()}
    name = f"{board.name}.bit"
    with Steps(folder) as steps:
        _write_rtl(steps, board, config, verilog, progress)
        _synthesise(steps, board, config, versions["yosys"], progress)
        _place(steps, board, config, seed, versions["nextpnr-ecp5"], progress)
        resources = load_resources(folder)
        routing = load_routing(folder / "routing.json")
        wanted = routing.met or allow_timing_failure
        if wanted:
            _pack(steps, board, name, tools["ecppack"], versions["ecppack"], progress)
        else:
            steps.forget("bitstream")
        done = [step for step in ("verilog", "synthesis", "routing", "bitstream") if step in steps]
        build = Build(
            board=board.name, config=config.name, fingerprint=config.fingerprint,
            resources=resources, routing=routing, tools=versions,
            seconds={step: steps[step].seconds for step in done}, skipped=steps.skipped,
            peak_bytes=max(steps[step].peak_bytes for step in done),
            bitstream=name if wanted else "")
        temporary = folder / ".build.json.new"
        temporary.write_text(json.dumps(build.facts(), indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / "build.json")
    if not wanted:
        raise TimingMissed(build)
    return build


def _write_rtl(steps: Steps, board: Board, config: Config, verilog: str | None,
               progress: Progress) -> None:
    def write(work: Path) -> None:
        progress("writing Verilog")
        text = design.top_verilog(board, config) if verilog is None else verilog
        (work / "top.v").write_text(text, encoding="utf-8")

    key = content_key(asdict(board), asdict(config), design.inputs() if verilog is None
                      else verilog)
    steps.run("verilog", key, ["top.v"], write)


def _synthesise(steps: Steps, board: Board, config: Config, tool: str,
                progress: Progress) -> None:
    kind = FAMILIES[board.family]
    clk_hz = max(config.clk_hz, LEAST_HZ)
    text = (steps.folder / "top.v").read_text(encoding="utf-8")

    def write(work: Path) -> None:
        synthesise(text, work, family=board.family, top="top", clk_hz=clk_hz, netlist=True,
                   progress=progress)

    key = content_key(text, kind.script, kind.lean, kind.cells, kind.parts, LOGIC, clk_hz,
                      tool)
    steps.run("synthesis", key, ["netlist.json", "resources.json"], write)


def _place(steps: Steps, board: Board, config: Config, seed: int, tool: str,
           progress: Progress) -> None:
    netlist = (steps.folder / "netlist.json").read_text(encoding="utf-8")
    constraints = lpf(board, netlist_ports(json.loads(netlist), "top"))

    def write(work: Path) -> None:
        # The tools from wheels see files below their folder only.
        shutil.copyfile(steps.folder / "netlist.json", work / "netlist.json")
        (work / "board.lpf").write_text(constraints, encoding="utf-8")
        route(board, work, clk_hz=config.clk_hz, seed=seed, progress=progress)

    key = content_key(steps["synthesis"].outputs["netlist.json"], constraints, options(board),
                      seed, config.clk_hz, tool)
    steps.run("routing", key, ["board.lpf", "board.config", "routing.json", "nextpnr.log"], write)


def _pack(steps: Steps, board: Board, name: str, tool: str, tool_version: str,
          progress: Progress) -> None:
    flags = ["--compress", *board.pack]

    def write(work: Path) -> None:
        progress("ecppack: writing the bitstream")
        shutil.copyfile(steps.folder / "board.config", work / "board.config")
        run_tool("ecppack", [tool, *flags, "--input", "board.config", "--bit", name], work,
                 "output.txt", lambda line: "", progress=progress)

    key = content_key(steps["routing"].outputs["board.config"], flags, name, tool_version)
    steps.run("bitstream", key, [name], write)

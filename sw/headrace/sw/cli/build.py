"""``headrace build``: a bitstream, or a project for the vendor's tools."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import load_config

from ..errors import HeadraceError


__all__ = ["build"]


def build(
    name: Annotated[str, typer.Argument(metavar="BOARD", help="Board: see `headrace boards`.")],
    output: Annotated[Path | None, typer.Option(
        "-o", "--output", metavar="DIR", help="Folder for all files; build/BOARD by default.")
    ] = None,
    config: Annotated[str | None, typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Another configuration than the board's; clock "
        "and memory stay the board's.")] = None,
    seed: Annotated[int, typer.Option(min=1, help="Seed of the placement.")] = 1,
    allow_timing_failure: Annotated[bool, typer.Option(
        "--allow-timing-failure", help="Write the bitstream even if a clock misses its goal.")
    ] = False,
    estimate: Annotated[bool, typer.Option(
        "--estimate", help="Boards of AMD: count resources with Yosys, which takes minutes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Build a board's bitstream with open tools: Verilog, Yosys, nextpnr, ecppack.

    Tools are those on PATH, or those from wheels: pip install 'headrace[boards,synth]'. Steps whose
    inputs have not changed are not run again, so a build that was broken off goes on where it
    was. For boards of AMD it writes RTL and Tcl, and a README with the two commands of Vivado.
    Exit code 1: timing is not met.

    Example: headrace build ulx3s -o build/ulx3s
    """
    from headrace.boards.catalogue import find_board
    board = find_board(name)
    folder = output or Path("build") / board.name
    chosen = board.config if config is None else board.fit(
        dataclasses.replace(load_config(config), name=f"{board.name}-{Path(config).stem}"))
    if board.vivado:
        if allow_timing_failure or seed != 1:
            raise HeadraceError(f"{board.name}: --seed and --allow-timing-failure are for boards "
                                f"that are placed and routed here; this one takes Vivado")
        _project(board, chosen, folder, estimate, as_json)
        return
    if estimate:
        raise HeadraceError(f"--estimate is for boards of AMD: {board.name} is synthesised, placed "
                            f"and routed here, and counted as built")
    from headrace.boards.bitstream import TimingMissed, build_bitstream
    notes = Console(stderr=True)
    try:
        with notes.status("") as status:
            result = build_bitstream(
                board, chosen, folder, seed=seed, allow_timing_failure=allow_timing_failure,
                progress=lambda text: status.update(f"{board.name}: {text}"))
        missed = None
    except TimingMissed as error:
        result, missed = error.build, error
    if as_json:
        print(json.dumps(result.facts(), indent=1))
    else:
        _print(result, folder)
    if missed is not None:
        raise missed


def _print(result, folder: Path) -> None:
    console = Console(width=max(100, Console().width))
    routing = result.routing
    table = Table(result.board, "used", "available", "", box=None, header_style="bold")
    for kind, count in routing.used.items():
        available = routing.available[kind]
        table.add_row(kind, f"{count:,}", f"{available:,}", f"{100 * count / available:.0f} %")
    console.print(table)
    clocks = Table("clock", "goal, MHz", "reached, MHz", "", box=None, header_style="bold")
    for clock in routing.clocks:
        clocks.add_row(clock.name, f"{clock.goal_mhz:g}", f"{clock.fmax_mhz:.1f}",
                       "met" if clock.met else "missed")
    console.print("", clocks)
    for crossing in routing.crossings:
        console.print(f"{crossing.start} to {crossing.end}: {crossing.delay_ns:.1f} ns, at most "
                      f"{crossing.limit_ns:.1f}: {'met' if crossing.met else 'missed'}",
                      highlight=False, markup=False)
    for clock in routing.clocks:
        console.print(f"\nSlowest path of {clock.name}, {clock.logic_ns:.1f} ns in cells and "
                      f"{clock.routing_ns:.1f} ns between them:", highlight=False, markup=False)
        for cell in clock.path:
            console.print(f"  {cell}", highlight=False, markup=False)
    times = ", ".join(f"{step} {seconds:,.0f} s" + (" (earlier)" if step in result.skipped else "")
                      for step, seconds in result.seconds.items())
    console.print(f"\n{times}; memory {result.peak_bytes / 1e9:.1f} GB, seed {routing.seed}; "
                  f"{', '.join(result.tools.values())}", highlight=False, soft_wrap=True)
    if result.bitstream:
        console.print(f"{folder / result.bitstream}", highlight=False, soft_wrap=True)


def _project(board, config, folder: Path, estimate: bool, as_json: bool) -> None:
    from headrace.boards.vivado import project_files

    from .verilog import write_files
    notes = Console(stderr=True)
    resources = None
    with notes.status("writing Verilog") as status:
        if estimate:
            from headrace.boards.area import measure
            resources = measure(config, board.family, progress=status.update)
        files = project_files(board, config, resources)
    write_files(folder, files)
    if as_json:
        print(json.dumps({
            "board": board.name, "config": config.name, "fingerprint": config.fingerprint,
            "files": [str(folder / file) for file in files],
            "resources": None if resources is None else {
                **dataclasses.asdict(resources), "excess": resources.excess(board.part)},
        }, indent=1))
        return
    for file in files:
        print(folder / file)
    if resources is not None:
        from headrace.boards.families import FAMILIES
        available = FAMILIES[board.family].parts[board.part]
        table = Table(f"{board.part}, estimated", "used", "available", "", box=None,
                      header_style="bold")
        for kind, count in resources.used.items():
            table.add_row(kind, f"{count:,.0f}", f"{available[kind]:,}",
                          f"{100 * count / available[kind]:.0f} %")
        Console().print(table)

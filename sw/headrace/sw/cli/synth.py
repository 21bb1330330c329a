"""``headrace synth``: what the accelerator takes of a part, and how fast it is there."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import load_config

from ..errors import HeadraceError
from .verilog import write_files


__all__ = ["synth"]


def synth(
    config: Annotated[str, typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Configuration.")] = "tiny",
    family: Annotated[str, typer.Option(
        metavar="ecp5|xcup|xc7", help="Family of parts: ECP5, UltraScale+ or 7-series (these two "
        "without --place).")
    ] = "ecp5",
    place: Annotated[bool, typer.Option(
        "--place", help="Place and route as well, for the clock: takes a quarter of an hour and "
        "more.")] = False,
    seed: Annotated[int, typer.Option(min=1, help="Seed of the placement.")] = 1,
    array: Annotated[bool, typer.Option(
        "--array", help="Synthesise the systolic array alone, for its LUT4 per MAC on ECP5.")
    ] = False,
    page: Annotated[Path | None, typer.Option(
        "--page", metavar="FILE.md", help="Measure all presets, place and route those for ECP5, "
        "and write a page of tables; the other options are not looked at.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Synthesise the accelerator: LUTs, DSPs, block RAM, and with --place the clock.

    Tools are Yosys and nextpnr, from PATH or from their wheels: pip install 'headrace[synth]'.
    Results are kept in the cache of builds by content: what was measured before is shown at once,
    and a run that was broken off goes on where it was. Exit code 1: it fits none of the
    family's parts, or misses the configuration's clock.

    Example: headrace synth --config ecp5 --place
    """
    from headrace.boards.area import array_area, device_timing, measure
    from headrace.boards.families import FAMILIES
    notes = Console(stderr=True)
    if page is not None:
        from headrace.boards.area_page import area_page
        if page.is_dir():
            raise HeadraceError(f"--page {page}: is a folder: expected a file to write")
        with notes.status("") as status:
            text = area_page(status.update)
        write_files(page.parent, {page.name: text})
        return
    chosen = load_config(config)
    if family not in FAMILIES:
        raise HeadraceError(f"no family {family!r}: expected one of {', '.join(FAMILIES)}")
    if place and not FAMILIES[family].places:
        raise HeadraceError(f"--place: nextpnr has no family {family!r}: leave --place out, or "
                            f"take --family ecp5")
    with notes.status("") as status:
        if array:
            alone = array_area(chosen, progress=status.update)
            facts = {"config": chosen.name, **asdict(alone), "luts_per_mac": alone.luts_per_mac}
            print(json.dumps(facts, indent=1) if as_json else
                  f"{chosen.name}: array of {alone.rows} x {alone.cols}, {alone.luts:,.0f} LUT4, "
                  f"{alone.luts_per_mac:.1f} per MAC")
            return
        result = measure(chosen, family, progress=status.update)
        timing = None
        if place and result.fits:
            timing = device_timing(chosen, family, seed=seed, progress=status.update)
    if as_json:
        print(json.dumps({
            "config": chosen.name, **asdict(result), "fits": result.fits,
            "parts": {part: {"available": available, "fits": not result.excess(part)}
                      for part, available in FAMILIES[family].parts.items()},
            "timing": asdict(timing) if timing else None}, indent=1))
    else:
        _print(chosen.name, result, timing)
    if not result.fits or (timing is not None and not timing.met):
        raise typer.Exit(1)


def _print(name, result, timing):
    from headrace.boards.families import FAMILIES
    parts = FAMILIES[result.family].parts
    table = Table(name, "used", *parts, box=None, header_style="bold")
    for kind, count in result.used.items():
        table.add_row(kind, f"{count:,.0f}", *(
            f"{100 * count / available[kind]:.0f} % of {available[kind]:,}"
            for available in parts.values()))
    console = Console(width=max(100, Console().width))
    console.print(table)
    console.print("", _units(result))
    for part in parts:
        excess = ", ".join(f"{kind} {count:,.0f} too many"
                           for kind, count in result.excess(part).items())
        console.print(f"{part}: {excess or 'fits'}", highlight=False)
    if timing is not None:
        console.print(f"{timing.fmax_mhz:.1f} MHz, {timing.goal_mhz:g} MHz asked for: "
                      f"{'met' if timing.met else 'missed'} (seed {timing.seed}). Slowest path, "
                      f"{timing.logic_ns:.1f} ns in cells and {timing.routing_ns:.1f} ns between "
                      f"them:", highlight=False)
        for cell in timing.path:
            console.print(f"  {cell}", highlight=False, markup=False)


def _units(result):
    kinds = list(result.used)
    table = Table("unit", *kinds, box=None, header_style="bold")
    for unit, counts in result.units.items():
        depth = unit.count(".")
        if depth and (depth == 1 or counts.get(kinds[0], 0) >= 0.02 * result.used[kinds[0]]):
            table.add_row("  " * (depth - 1) + unit.rpartition(".")[2],
                          *(f"{counts.get(kind, 0):,.0f}" for kind in kinds))
    return table

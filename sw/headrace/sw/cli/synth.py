"""``headrace synth``: what the accelerator takes of a part."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import load_config

from ..errors import HeadraceError


__all__ = ["synth"]


def synth(
    config: Annotated[str, typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Configuration.")] = "tiny",
    family: Annotated[str, typer.Option(
        metavar="ecp5", help="Family of parts.")] = "ecp5",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Synthesise the accelerator with Yosys, and count LUTs, DSPs and block RAM.

    These are the figures of synthesis, before place and route. Takes some minutes.
    """
    from headrace.boards.synthesis import FAMILIES, synthesise
    from headrace.hw.verilog import generate
    chosen = load_config(config)
    if family not in FAMILIES:
        raise HeadraceError(f"no family {family!r}: expected one of {', '.join(FAMILIES)}")
    notes = Console(stderr=True)
    with notes.status(f"synthesising {chosen.name} for {family}"):
        result = synthesise(generate(chosen), family=family, clk_hz=chosen.clk_hz)
    if as_json:
        print(json.dumps({"config": chosen.name, **asdict(result), "fits": result.fits}, indent=1))
        return
    table = Table(f"{chosen.name} on {result.part}", "used", "available", "", box=None,
                  header_style="bold")
    for name, count in result.used.items():
        table.add_row(name, f"{count:,.0f}", f"{result.available[name]:,}",
                      f"{100 * count / result.available[name]:.0f} %")
    Console().print(table)
    notes.print(f"synthesised in {result.seconds:.0f} s; it "
                f"{'fits' if result.fits else 'does not fit'}", highlight=False)

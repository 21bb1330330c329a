"""``headrace speed``: how fast configurations are simulated on this machine."""

import contextlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import load_config

from ..errors import HeadraceError
from .verilog import write_files


__all__ = ["speed"]


def speed(
    config: Annotated[list[str] | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration; may be given more than once, `edge` by "
        "default.")] = None,
    repeat: Annotated[int, typer.Option(
        min=1, help="Repetitions, of which the median counts.")] = 5,
    tokens: Annotated[int, typer.Option(
        min=1, help="Tokens of the built-in model in each repetition.")] = 8,
    cocotb: Annotated[bool, typer.Option(
        "--cocotb/--no-cocotb", help="Measure the bench under cocotb, too.")] = True,
    fresh: Annotated[bool, typer.Option(
        "--fresh", help="Build everything anew, in an empty cache: so the time of the build is "
        "that of this machine now.")] = False,
    json_file: Annotated[Path | None, typer.Option(
        "--json", metavar="FILE", help="Write all rows to a file.")] = None,
):
    """Measure the simulation of the built-in model, against the array alone.

    In turns: a bare loop over the array with random data in every cycle, the whole device with its
    memory in the compiled loop, and the same under cocotb. Speeds are cycles per second of
    processor time, so that other work on the machine counts little.

    Example: headrace speed --config edge --fresh --json speed.json
    """
    # The simulator only here.
    from headrace.sim.speed import fresh_cache, measure

    if json_file is not None and json_file.is_dir():
        raise HeadraceError(f"--json {json_file}: is a folder: expected a file to write")
    chosen = [load_config(name) for name in config or ("edge",)]
    notes = Console(stderr=True)
    rows = []
    with fresh_cache() if fresh else contextlib.nullcontext():
        for one in chosen:
            with notes.status("") as status:
                rows.append(measure(one, tokens=tokens, repeat=repeat, cocotb=cocotb,
                                    progress=status.update))
            if json_file is not None:
                # After each configuration: what is broken off leaves what it found.
                write_files(json_file.parent, {json_file.name: json.dumps(rows, indent=1) + "\n"})
    Console(width=max(110, Console().width)).print(_table(rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("configuration", "array kHz", "device kHz", "of array", "cocotb kHz",
                 "of device", "RTL s", "build s", "build CPU s"):
        table.add_column(name, justify="left" if name == "configuration" else "right")
    for row in rows:
        table.add_row(
            row["config"], _number(row["array_khz"]), _number(row["device_khz"]),
            _number(row["device_ratio"], 2), _number(row["cocotb_khz"]),
            _number(row["cocotb_ratio"], 2), _number(row["generate_seconds"]),
            _number(row["build_seconds"]), _number(row["build_cpu_seconds"]))
    return table


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

"""``headrace boards``: the boards that the project knows."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


__all__ = ["boards"]


def boards(
    name: Annotated[str | None, typer.Argument(
        metavar="[NAME]", help="Board; all of them if none is named.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Show the boards: part, preset, clock, memory and link; of one board everything.

    Example: headrace boards ulx3s
    """
    from headrace.boards.catalogue import BOARDS, find_board
    if as_json:
        found = [find_board(name)] if name else list(BOARDS.values())
        facts = [{**asdict(board), "fingerprint": board.config.fingerprint,
                  "peak_bytes_per_second": board.memory.peak_bytes} for board in found]
        print(json.dumps(facts[0] if name else facts, indent=1))
        return
    console = Console(width=max(120, Console().width))
    if name is None:
        table = Table("", "board", "part", "preset", "clock", "memory", "link", box=None,
                      header_style="bold")
        for board in BOARDS.values():
            table.add_row(board.name, board.title, board.order, board.preset,
                          f"{board.clk_hz / 1e6:g} MHz", board.memory.title, board.link.title)
        console.print(table)
        return
    board = find_board(name)
    table = Table("", "", box=None, show_header=False)
    for key, value in (
            ("board", board.title), ("part", board.order),
            ("preset", ", ".join(board.presets or (board.preset,))),
            ("clock", f"{board.clk_hz / 1e6:g} MHz"
                      + (f" from {board.input_hz / 1e6:g} MHz" if board.input_hz else "")),
            ("memory", f"{board.memory.title}; at most {board.memory.peak_bytes / 1e6:,.0f} MB/s"),
            ("link", board.link.title), ("device", board.link.url),
            ("pins from", board.source), *(("note", note) for note in board.notes)):
        table.add_row(key, value)
    console.print(table)
    if board.pins:
        pins = Table("port", "", "standard", "balls, bit 0 first", box=None, header_style="bold")
        for port in board.pins:
            level = "" if port.level is None else f", always {port.level}"
            pins.add_row(port.port, port.direction + level, port.io_type, port.balls)
        console.print("", pins)

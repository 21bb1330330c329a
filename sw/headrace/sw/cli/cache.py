"""``headrace cache``: the simulator builds that are kept."""

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


__all__ = ["cache"]


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove the entries.")] = False,
    days: Annotated[float, typer.Option(
        "--older-than", metavar="DAYS", min=0.0,
        help="With --clear: only those not used for so many days.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Show the cache of simulator builds, or clear it.

    Verilog and builds are kept by content: the same configuration and tools are built once. The
    environment variable HEADRACE_CACHE moves the cache.
    """
    from headrace.sim import cache as builds
    if clear:
        freed = builds.clear(days)
        print(json.dumps({"freed_bytes": freed}) if as_json else f"freed {freed / 1e6:.1f} MB")
        return
    found = builds.entries()
    if as_json:
        print(json.dumps({"folder": str(builds.folder()),
                          "entries": [asdict(entry) for entry in found]}, indent=1))
        return
    table = Table("what", "kind", "MB", "built in, s", "last used", box=None, header_style="bold")
    for entry in found:
        table.add_row(entry.label, entry.kind, f"{entry.size_bytes / 1e6:.1f}",
                      f"{entry.seconds:.1f}",
                      time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used)))
    console = Console()
    console.print(f"{builds.folder()}: {len(found)} entries, "
                  f"{sum(entry.size_bytes for entry in found) / 1e6:.1f} MB")
    if found:
        console.print(table)

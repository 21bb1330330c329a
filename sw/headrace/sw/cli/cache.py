"""``headrace cache``: the simulator builds and models that are kept."""

import json
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..fetch import clear_models, fetched_models, model_folder


__all__ = ["cache"]


def _clear(builds: Any, days: float, models: bool) -> dict[str, int]:
    freed = {"freed_bytes": builds.clear(days)}
    if models:
        freed["freed_model_bytes"] = clear_models(days)
    return freed


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove the entries.")] = False,
    days: Annotated[float, typer.Option(
        "--older-than", metavar="DAYS", min=0.0,
        help="With --clear: only those not used for so many days; models: not fetched since "
        "then.")] = 0.0,
    models: Annotated[bool, typer.Option(
        "--models", help="With --clear: the models of `headrace fetch`, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Show the cache of simulator builds and fetched models, or clear it.

    Verilog and builds are kept by content: the same configuration and tools are built once. Models
    are kept when builds are cleared, unless --models says otherwise. The environment variable
    HEADRACE_CACHE moves the cache.

    Example: headrace cache --clear --models --older-than 30
    """
    from headrace.sim import cache as builds
    if clear:
        freed = _clear(builds, days, models)
        print(json.dumps(freed) if as_json else f"freed {sum(freed.values()) / 1e6:.1f} MB")
        return
    found, fetched = builds.entries(), fetched_models()
    sizes = {name: file.stat().st_size for name, file in fetched.items()}
    if as_json:
        print(json.dumps({"folder": str(builds.folder()),
                          "entries": [asdict(entry) for entry in found],
                          "models": [{"name": name, "file": str(file), "size_bytes": sizes[name]}
                                     for name, file in fetched.items()]}, indent=1))
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
    if fetched:
        console.print(f"\n{model_folder()}: {len(fetched)} models, "
                      f"{sum(sizes.values()) / 1e6:.1f} MB")
        for name, file in fetched.items():
            console.print(f"{name}: {file.name}, {sizes[name] / 1e6:.1f} MB", highlight=False,
                          markup=False)

"""``headrace configs``: the presets with all their figures."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import PRESETS, Config, load_config


__all__ = ["configs", "figures"]


def figures(config: Config) -> dict:
    """All fields of a configuration, and what follows from them."""
    return {
        **asdict(config),
        "port_bytes_per_second": config.port_bytes * config.clk_hz,
        "macs_per_second": config.rows * config.cols * config.clk_hz,
        "sram_bytes": config.sram_bytes,
        "stream_waste": config.stream_waste,
        "fingerprint": f"{config.fingerprint:08x}",
    }


def configs(
    names: Annotated[list[str] | None, typer.Argument(
        metavar="[NAME|FILE.toml]...", help="Configurations to show; all presets by default.",
        show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Show configurations: the presets, or TOML files with the same fields.

    A TOML file holds any of the fields shown here; `preset = "tiny"` starts it from a preset.
    stream_waste is the part of the weight stream that is lost where cols is no power of two.
    """
    shown = [figures(load_config(name)) for name in names or PRESETS]
    if as_json:
        print(json.dumps({each["name"]: each for each in shown}, indent=1))
        return
    table = Table("", *(each["name"] for each in shown), box=None, header_style="bold")
    for key in shown[0]:
        if key != "name":
            table.add_row(key, *(_text(each[key]) for each in shown))
    Console().print(table)


def _text(value) -> str:
    if isinstance(value, float):
        return f"{100 * value:.1f} %"
    return f"{value:,}" if isinstance(value, int) else str(value)

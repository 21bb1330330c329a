"""``headrace inspect``: what a model is, and where it fits."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..checkpoint import find_model, load_checkpoint
from ..compiler import is_image, load_image
from ..inspection import inspect_checkpoint, inspect_image
from ..policies import parse_policy
from .model import MODEL_HELP, QUANT_HELP


__all__ = ["inspect"]


def _runs(values: Sequence[int]) -> str:
    """Values of all layers, each with the number of layers that follow each other: ``5 x 512, 0``
    is 512 in five layers and 0 in the sixth."""
    runs = [(value, len(list(group))) for value, group in groupby(values)]
    return ", ".join(f"{count} x {value:,}" if count > 1 else f"{value:,}"
                     for value, count in runs)


def _ropes(ropes: Sequence[dict]) -> str:
    """Rotary embeddings by their kinds and bases."""
    def one(rope: dict) -> str:
        if rope["kind"] == "none":
            return "none"
        scaled = "" if rope["factor"] == 1 else f" by {rope['factor']:g}"
        kind = "" if rope["kind"] == "default" else f", {rope['kind']}{scaled}"
        return f"theta {rope['theta']:,.0f}{kind}"

    return "; ".join(map(one, ropes))


_SUMMARIES = {"ropes": _ropes, "rope_of": _runs, "window_of": _runs}


def _table(report: dict) -> Table:
    table = Table("", "", box=None, show_header=False)
    tokenizer = report["tokenizer"]
    for key in ("name", "kind", "architecture", "parameters", "file_bytes"):
        if report.get(key) is not None:
            table.add_row(key.replace("_", " "), _text(report[key]))
    for key, value in report["shape"].items():
        table.add_row(key, _SUMMARIES.get(key, _text)(value))
    table.add_row("tokenizer", tokenizer.get("missing") or
                  f"{tokenizer['kind']}, {tokenizer['tokens']:,} tokens"
                  + (", with a chat template" if tokenizer["chat_template"] else ""))
    for name, found in report.get("types", {}).items():
        table.add_row(f"in the file: {name}", f"{found['tensors']} tensors, "
                                              f"{found['bytes']:,} bytes")
    if report.get("file_bits_per_weight"):
        table.add_row("bits per weight, file", _text(report["file_bits_per_weight"]))
    for each in report["matrices"]:
        table.add_row(f"on the machine: {each['format']}", f"{each['count']} matrices, "
                                                           f"{each['origin']}")
    table.add_row("bits per weight, machine", _text(report["bits_per_weight"]))
    table.add_row("bytes of weights per token", _text(report["weight_bytes_per_token"]))
    table.add_row("bytes of cache per token", _text(report["cache_bytes_per_token"]))
    return table


def _fits(report: dict) -> Table:
    table = Table("preset", "memory", "image without cache", "largest context", "chunk", box=None,
                  header_style="bold")
    for name, found in report["presets"].items():
        if found["reason"] and not found["largest_context"]:
            table.add_row(name, f"{found['memory_bytes']:,}", "", f"no: {found['reason']}", "")
        else:
            table.add_row(name, f"{found['memory_bytes']:,}", f"{found['image_bytes']:,}",
                          f"{found['largest_context']:,}", str(found["chunk"]))
    return table


def _text(value) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Show what a model is, what its weights become, and which presets' memory it fits at which
    context. No weight is read.

    Example: headrace inspect model.gguf --quant w4,head=w8
    """
    path = find_model(model)
    if path.is_file() and is_image(path):
        report = inspect_image(load_image(path), Path(path))
    else:
        report = inspect_checkpoint(load_checkpoint(model), parse_policy(quant))
    if as_json:
        print(json.dumps(report, indent=1))
        return
    console = Console(width=max(110, Console().width))
    console.print(_table(report), highlight=False, markup=False)
    console.print()
    console.print(_fits(report), highlight=False, markup=False)

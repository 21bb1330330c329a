"""``headrace quantise``: a model becomes an image file."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.hw.config import load_config

from ..checkpoint import load_checkpoint
from ..compiler import compile_model, plan_model
from ..errors import HeadraceError
from ..policies import parse_policy
from .model import QUANT_HELP, choose_config


__all__ = ["quantise"]


def quantise(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="A checkpoint: name, folder or file as of `headrace run`.")],
    output: Annotated[Path, typer.Option(
        "-o", "--output", metavar="IMAGE", help="File to write.")],
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    config: Annotated[str | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration that will run it; the smallest preset that "
        "the model fits by default.")] = None,
    context: Annotated[int | None, typer.Option(
        metavar="N", help="Positions of the cache; what the model allows by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Quantise and compile a model to an image, a file that `headrace run` runs at once.

    Integers of a file are taken over wherever the format holds them; the rest is rounded. Formats
    by kind: --quant w4,head=w8,attn=native. In a TOML file: default = "w4", head = "w8", and a
    table [tensors] of single matrices, "layers.0.down" = "w8".

    Example: headrace quantise smollm2-135m -o smollm2.image --config wide --context 2048
    """
    notes = Console(stderr=True)
    if output.is_dir():
        raise HeadraceError(f"-o {output}: is a folder: expected a file to write")
    policy = parse_policy(quant)
    checkpoint = load_checkpoint(model)
    chosen = (choose_config(checkpoint, policy, context) if config is None
              else load_config(config))
    plan = plan_model(checkpoint, chosen, policy=policy)
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                  console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("compiling", total=len(plan.specs))

        def tell(name: str) -> None:
            bar.update(task, description=f"compiling {name}",
                       advance=1 if name in plan.specs else 0)

        image = compile_model(checkpoint, chosen, policy=policy, context=context, progress=tell)
        bar.update(task, description=f"writing {output}")
        image.save(output)
    kinds = Counter((plan.specs[name].fmt.name, origin) for name, origin in image.origins.items())
    report = {
        "image": str(output), "model": image.model, "config": chosen.name,
        "context": image.context, "file_bytes": output.stat().st_size,
        "memory_bytes": image.total_bytes,
        "bits_per_weight": round(8 * plan.weight_bytes / plan.weights, 3),
        "matrices": [{"format": fmt.lower(), "origin": origin, "count": count}
                     for (fmt, origin), count in sorted(kinds.items())],
    }
    if as_json:
        print(json.dumps(report, indent=1))
        return
    print(f"{output}: {image.model} for {chosen.name}, context {image.context:,}, "
          f"{report['file_bytes']:,} bytes, {report['bits_per_weight']} bits per weight")
    for (fmt, origin), count in sorted(kinds.items()):
        print(f"  {count} matrices {fmt.lower()}, {origin}")

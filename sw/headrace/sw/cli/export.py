"""``headrace export``: a model in the flat form that the C driver loads."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..errors import HeadraceError
from ..flat_image import save_flat
from .model import MODEL_HELP, QUANT_HELP, open_model


__all__ = ["export"]


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    output: Annotated[Path, typer.Option(
        "-o", "--output", metavar="FILE", help="File to write.")],
    config: Annotated[str | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration that will run it; the smallest preset that "
        "the model fits by default.")] = None,
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    context: Annotated[int | None, typer.Option(
        metavar="N", help="Positions of the cache; what the model allows by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Write a model as a flat image for the C driver: a header of 256 bytes, then memory.

    headrace_image.h, which `headrace verilog` writes beside the driver, says where each word of
    the header stands. Text becomes tokens, and tokens text, on the host that embeds the driver.

    Example: headrace export demo -o demo.flat --config tiny
    """
    if output.is_dir():
        raise HeadraceError(f"-o {output}: is a folder: expected a file to write")
    image = open_model(model, config=config, quant=quant, context=context,
                       notes=Console(stderr=True)).image
    size = save_flat(image, output)
    report = {"file": str(output), "model": image.model, "config": image.config.name,
              "fingerprint": f"{image.fingerprint:08x}", "context": image.context,
              "file_bytes": size, "memory_bytes": image.total_bytes}
    if as_json:
        print(json.dumps(report, indent=1))
        return
    print(f"{output}: {image.model} for {image.config.name} ({image.fingerprint:08x}), context "
          f"{image.context:,}, {size:,} bytes; needs {image.total_bytes:,} bytes of memory")

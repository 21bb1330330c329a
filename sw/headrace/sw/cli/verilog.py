"""``headrace verilog``: the accelerator for a synthesis flow."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headrace.hw.config import load_config

from ..errors import HeadraceError


__all__ = ["verilog", "write_files"]


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files into a folder, each to a temporary name first: none is ever half there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            try:
                with open(handle, "wb") as file:
                    file.write(text.encode() if isinstance(text, str) else text)
                os.chmod(temporary, 0o644)
                os.replace(temporary, folder / name)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        raise HeadraceError(f"cannot write to {folder}: {error.strerror}: expected a folder that "
                            f"can be written") from error


def verilog(
    config: Annotated[str, typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Configuration.")] = "tiny",
    output: Annotated[Path, typer.Option(
        "-o", "--output", metavar="DIR", help="Folder for the files.")] = Path("verilog"),
):
    """Write the accelerator as one Verilog file, with a description and a C header.

    headrace.v has the module `headrace`: an AXI4 memory port, an AXI4-Lite control port and an
    interrupt. headrace.json describes ports, configuration, registers and fingerprint.
    """
    from headrace.hw import verilog as generator
    chosen = load_config(config)
    files = {
        "headrace.v": generator.generate(chosen),
        "headrace.json": json.dumps(generator.describe(chosen), indent=1) + "\n",
        "headrace.h": generator.c_header(),
    }
    write_files(output, files)
    for name in files:
        print(output / name)

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


def _address(text: str) -> int:
    """The address of the control port, a number with or without 0x."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value % 4096 or not 0 <= value < 1 << 32:
        raise HeadraceError(f"--base {text}: expected a multiple of 4096 below 2**32, such as "
                            f"0x90000000: the control port takes 4 KiB")
    return value


def verilog(
    config: Annotated[str, typer.Option(
        "--config", metavar="NAME|FILE.toml", help="Configuration.")] = "tiny",
    output: Annotated[Path, typer.Option(
        "-o", "--output", metavar="DIR", help="Folder for the files.")] = Path("verilog"),
    base: Annotated[str, typer.Option(
        "--base", metavar="ADDR", help="Address of the control port in your "
        "system, for csr.json and csr.csv.")] = "0",
    only: Annotated[str | None, typer.Option(
        metavar="KIND,...", help="Descriptions to write beside Verilog and headrace.json: some of "
        "c, fusesoc, rdl, litex, ipxact, vivado, template, or none; all by default.")] = None,
):
    """Write the accelerator as one Verilog file, with descriptions for other tools.

    headrace.v has the module `headrace`: an AXI4 memory port, an AXI4-Lite control port and an
    interrupt. headrace.json describes ports, configuration, registers and fingerprint.
    Instantiation template (headrace_instance.vh), FuseSoC core, SystemRDL, LiteX's csr.json and
    csr.csv, IP-XACT (headrace.xml), Tcl that packages an IP for Vivado (package_ip.tcl), C headers
    and the C driver are beside it: docs/integration.md.

    Example: headrace verilog --config ecp5 --only c,fusesoc -o cores/headrace
    """
    from headrace.hw import verilog as generator
    from headrace.hw.outputs import KINDS, descriptions

    from ..c import driver_files
    chosen = load_config(config)
    kinds = KINDS if only is None else () if only == "none" else only.split(",")
    # What is refused is refused before the Verilog is generated.
    described = descriptions(chosen, generator.NAME, _address(base), kinds)
    files = {
        "headrace.v": generator.generate(chosen),
        "headrace.json": json.dumps(generator.describe(chosen), indent=1) + "\n",
        **described,
        **(driver_files() if "c" in kinds else {}),
    }
    write_files(output, files)
    for name in files:
        print(output / name)

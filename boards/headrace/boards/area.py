"""What a configuration takes of a part and how fast it is: measured once, kept by content."""

import functools
from dataclasses import dataclass
from pathlib import Path

from headrace.hw.config import Config
from headrace.hw.device import Headrace
from headrace.hw.emission import to_verilog
from headrace.hw.matmul.array import SystolicArray
from headrace.sim import cache

from .families import FAMILIES
from .harness import Harness
from .placement import Timing, load_timing, place
from .synthesis import LOGIC, Resources, load_resources, synthesise
from .tools import Progress, find_tool, version


__all__ = ["ArrayArea", "array_area", "device_timing", "harnessed", "measure"]


@dataclass(frozen=True, kw_only=True)
class ArrayArea:
    """Size of the systolic array alone, on ECP5.

    Parameters
    ----------
    rows, cols : int
        Its size.
    luts : float
        LUT4, a CCU2C counted as two.
    cells : dict of str to int
        Its cells by type.
    """

    rows: int
    cols: int
    luts: float
    cells: dict[str, int]

    @property
    def luts_per_mac(self) -> float:
        """LUT4 per multiply-accumulate unit."""
        return self.luts / (self.rows * self.cols)


def harnessed(unit) -> str:
    """Verilog of a component in its harness; the top module is ``harness``."""
    return to_verilog(Harness(unit), "harness")


@functools.lru_cache(maxsize=1)
def _device(config: Config) -> str:
    return harnessed(Headrace(config))


def measure(config: Config, family: str = "ecp5", *,
            progress: Progress = lambda text: None) -> Resources:
    """Resources of the whole accelerator; of sources and tools that were met before, at once.

    Raises
    ------
    HeadraceError
        If Yosys is missing or fails.
    """
    progress("writing Verilog")
    return load_resources(_synthesis(_device(config), "harness", config, family, config.name,
                                     progress))


def device_timing(config: Config, family: str = "ecp5", *, seed: int = 1,
                  progress: Progress = lambda text: None) -> Timing:
    """Place and route of the whole accelerator in its harness; kept like :func:`measure`.

    Raises
    ------
    HeadraceError
        If a tool is missing or fails, or nextpnr does not know the family.
    """
    # Before the synthesis, which takes long.
    tool = find_tool(f"nextpnr-{family}") if FAMILIES[family].places else ""
    progress("writing Verilog")
    source = _synthesis(_device(config), "harness", config, family, config.name,
                        progress)
    key = cache.content_key(source.name, FAMILIES[family].places, config.clk_hz, seed,
                            version(tool) if tool else "")

    def build(work: Path) -> None:
        place(source / "netlist.json", work, family=family, clk_hz=config.clk_hz, seed=seed,
              progress=progress)

    return load_timing(cache.obtain("placements", key, f"{config.name}, {family}, seed {seed}",
                                    build))


def array_area(config: Config, *, progress: Progress = lambda text: None) -> ArrayArea:
    """Size of the systolic array alone: no queues, no memory, on ECP5."""
    text = to_verilog(SystolicArray(config), "array")
    result = load_resources(_synthesis(text, "array", config, "ecp5",
                                       f"array of {config.name}", progress))
    return ArrayArea(rows=config.rows, cols=config.cols, luts=result.used["LUT4"],
                     cells=result.cells)


def _synthesis(text: str, top: str, config: Config, family: str, label: str,
               progress: Progress) -> Path:
    kind = FAMILIES[family]
    netlist = bool(kind.places) and top == "harness"
    key = cache.content_key(text, kind.script, kind.lean, kind.cells, LOGIC, config.clk_hz,
                            netlist,
                            version(find_tool("yosys")))

    def build(work: Path) -> None:
        synthesise(text, work, family=family, top=top, clk_hz=config.clk_hz, netlist=netlist,
                   progress=progress)

    return cache.obtain("synthesis", key, f"{label}, {family}", build)

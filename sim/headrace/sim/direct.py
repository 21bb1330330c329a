"""The accelerator on a board's DRAM controller, in the compiled loop, with the chip at the pins.

The host's side is as that of :class:`headrace.sim.device.SimDevice`: registers through the control
port, memory by the chip's content. What is real is everything between accelerator and chip.
"""

import ctypes
from pathlib import Path

import numpy as np

from headrace.boards.dram import ControllerSpec, GeneratedController, generate_controller
from headrace.hw.config import Config

from . import cache
from .board_top import wrap_board
from .device import SimDevice
from .gating import gate
from .generation import SOURCES
from .native import declare
from .sdr import SDR_SOURCES, SdrChip, SdrTimings, find_chip
from .simulation import Simulation
from .tops import TOP
from .verilator import Design, build


__all__ = ["DirectDevice", "DirectSimulation", "build_direct", "direct_verilog"]


#: Cycles in which a DRAM is started.
START_CYCLES = 25_000


def direct_verilog(config: Config, generated: GeneratedController,
                   fill: str | int | None = None) -> str:
    """As :func:`headrace.boards.direct.direct_verilog`, but generated once and kept."""
    import headrace.boards.direct

    boards = Path(headrace.boards.direct.__file__).parent
    own = [boards / "direct.py", *sorted((boards / "dram").glob("*.py"))]
    sources = [path.read_text(encoding="utf-8")
               for path in [*sorted(SOURCES.rglob("*.py")), *own]]

    def write(work: Path) -> None:
        text = headrace.boards.direct.direct_verilog(config, generated, fill)
        (work / "headrace.v").write_text(text, encoding="utf-8")

    key = cache.content_key(sources, config.fingerprint, generated.facts, generated.spec.facts,
                            config.outstanding, config.burst_beats, repr(fill))
    place = cache.obtain("verilog", key, f"{config.name} on its DRAM controller", write)
    return (place / "headrace.v").read_text(encoding="utf-8")


def build_direct(verilog: str, generated: GeneratedController, *, trace: bool = False) -> Path:
    """The shared library of a design with the pins of an SDR SDRAM, unless the cache has it."""
    wrapper, _ = wrap_board(verilog, ratio=generated.facts["ratio"])
    return build(Design(
        top=TOP, cpp=SDR_SOURCES, driver="loop.cpp", output="simulation.so", trace=trace,
        sources={"device.v": gate(verilog), "litedram.v": generated.verilog, "top.sv": wrapper},
        label="compiled loop with a DRAM controller"))


class DirectSimulation(Simulation):
    """A design with a control port, an interrupt and the pins of an SDR SDRAM.

    Parameters
    ----------
    verilog : str
        The design, as module ``headrace``.
    generated : GeneratedController
        The controller in it.
    storage : numpy.ndarray, uint8
        Content of the chip.
    chip : SdrTimings, optional
        The chip; the one that the controller is made for by default.
    trace : pathlib.Path, optional
        VCD file of all signals.
    """

    def __init__(self, verilog: str, generated: GeneratedController, storage: np.ndarray, *,
                 chip: SdrTimings | None = None, trace: Path | None = None):
        spec = generated.spec
        library = declare(ctypes.CDLL(str(build_direct(verilog, generated,
                                                       trace=trace is not None))))
        self._begin(library, SdrChip(library, storage, chip or find_chip(spec.module),
                                     spec.dram_hz, spec.ratio), trace)


class DirectDevice(SimDevice):
    """The accelerator on a controller, behind the driver's interface.

    Parameters
    ----------
    config : Config
        Configuration of the accelerator.
    spec : ControllerSpec
        Its memory controller.
    chip : SdrTimings, optional
        The chip; the one that the controller is made for by default.
    fill : int or numpy.random.Generator
        What the chip holds at first; it must not matter.
    """

    name = "sim"

    def __init__(self, config: Config, spec: ControllerSpec, *, chip: SdrTimings | None = None,
                 fill: int | np.random.Generator = 0, trace: Path | None = None):
        self._generated = generate_controller(spec)
        self._chip = chip or find_chip(spec.module)
        super().__init__(config, direct_verilog(config, self._generated),
                         memory_bytes=self._chip.size_bytes, fill=fill, trace=trace)

    def open(self) -> None:
        if self._simulation is None:
            self._simulation = DirectSimulation(self._verilog, self._generated, self.memory,
                                                chip=self._chip, trace=self._trace)

    def await_memory(self) -> None:
        """Let the device start its DRAM, before which it takes no request: about 20,000 cycles."""
        self.simulation.run(START_CYCLES, until_irq=False)

    @property
    def dram_statistics(self) -> dict[str, int] | None:
        return self.simulation.statistics

    def replica(self) -> None:
        """There is none: a check compares memories only."""
        return

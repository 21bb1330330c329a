"""A whole board in the compiled loop: its top from the UART's wires to the DRAM chip's pins."""

import ctypes
from pathlib import Path

import numpy as np

from headrace.boards.catalogue import Board
from headrace.boards.dram import GeneratedController, controller_spec, generate_controller
from headrace.hw.config import Config

from . import cache
from .board_top import wrap_board
from .gating import gate
from .generation import SOURCES
from .memory import fill_storage
from .native import declare
from .sdr import SDR_SOURCES, SdrChip, find_chip
from .tops import TOP
from .uart_loop import BIT_CYCLES, UartLoop
from .verilator import Design, build


__all__ = ["BoardSimulation", "board_verilog", "build_board", "build_simulator"]


def board_verilog(board: Board, config: Config, generated: GeneratedController,
                  fill: str | int | None = None) -> str:
    """As :func:`headrace.boards.top.simulated_verilog`, but generated once and kept."""
    import headrace.boards.top

    folder = Path(headrace.boards.top.__file__).parent
    own = [folder / "top.py", folder / "direct.py", *sorted((folder / "dram").glob("*.py"))]
    sources = [path.read_text(encoding="utf-8")
               for path in [*sorted(SOURCES.rglob("*.py")), *own]]

    def write(work: Path) -> None:
        text = headrace.boards.top.simulated_verilog(board, config, generated,
                                                     board.clk_hz // BIT_CYCLES, fill)
        (work / "headrace.v").write_text(text, encoding="utf-8")

    key = cache.content_key(sources, generated.facts, generated.spec.facts, repr(config),
                            board.clk_hz, board.memory.size_bytes, repr(fill))
    place = cache.obtain("verilog", key, f"{config.name} on board {board.name}", write)
    return (place / "headrace.v").read_text(encoding="utf-8")


def build_board(verilog: str, generated: GeneratedController, *, trace: bool = False) -> Path:
    """The shared library of a board, built unless the cache has it."""
    sdr = generated.spec.kind == "SDR"
    wrapper, _ = wrap_board(verilog, ratio=generated.facts["ratio"], chip=sdr)
    return build(Design(
        top=TOP, cpp=SDR_SOURCES if sdr else (), driver="board_loop.cpp", output="board.so",
        trace=trace,
        sources={"device.v": gate(verilog), "litedram.v": generated.verilog, "top.sv": wrapper},
        label="a board with its DRAM controller"))


def build_simulator(board: Board, config: Config, *, trace: bool = False
                    ) -> tuple[GeneratedController, Path]:
    """The controller of a board, and the shared library of the whole board.

    Raises
    ------
    HeadraceError
        The board's memory has no controller of ours.
    """
    generated = generate_controller(controller_spec(board, model=board.memory.kind == "DDR3"))
    return generated, build_board(board_verilog(board, config, generated), generated, trace=trace)


class BoardSimulation(UartLoop):
    """A board with its DRAM, on the wires of its UART.

    Parameters
    ----------
    board : Board
        A board with SDR SDRAM, which has a chip at its pins, or with DDR3: then LiteDRAM's model
        takes the place of PHY and chip, with 32 MB, and the host must start it.
    config : Config, optional
        Configuration of the accelerator; the board's by default.
    fill : int or numpy.random.Generator
        What the DRAM holds at first; it must not matter.
    trace : pathlib.Path, optional
        VCD file of all signals; a simulation with it is much slower.

    Attributes
    ----------
    generated : GeneratedController
        The controller.
    chip : SdrChip or None
        The SDR SDRAM, with its rules and statistics.
    storage : numpy.ndarray, uint8
        Its content; of DDR3 it is empty.
    """

    def __init__(self, board: Board, config: Config | None = None, *,
                 fill: int | np.random.Generator = 0, trace: Path | None = None):
        self.board, self.config = board, config or board.config
        generated, path = build_simulator(board, self.config, trace=trace is not None)
        self.generated, spec = generated, generated.spec
        library = declare(ctypes.CDLL(str(path)))
        self.chip, self.storage = None, np.zeros(0, np.uint8)
        if spec.kind == "SDR":
            timings = find_chip(board.memory.module)
            self.storage = np.zeros(timings.size_bytes, np.uint8)
            fill_storage(self.storage, fill)
            self.chip = SdrChip(library, self.storage, timings, spec.dram_hz, spec.ratio)
        super().__init__(library, (self.chip and self.chip.handle) or 0,
                         None if trace is None else str(trace))
        self.reset()

    def _clear(self) -> None:
        if self.chip is not None:
            self.chip.clear_violation()

    def _check(self) -> None:
        if self.chip is not None:
            self.chip.check()

    def _free(self) -> None:
        if self.chip is not None:
            self.chip.close()

    @property
    def memory_bytes(self) -> int:
        """Size of the simulated DRAM."""
        return self.generated.facts["size_bytes"]

    @property
    def ready(self) -> bool:
        """Whether the DRAM has been started."""
        return bool(self._library.headrace_board_ready(self._loop))

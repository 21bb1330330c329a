"""A whole board in the compiled loop: its top from the UART's wires to the DRAM chip's pins."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headrace.boards.catalogue import Board
from headrace.boards.dram import GeneratedController, controller_spec, generate_controller
from headrace.hw.config import Config

from . import cache
from .board_top import wrap_board
from .gating import gate
from .generation import SOURCES
from .native import declare
from .sdr import SDR_SOURCES, SdrChip, find_chip
from .tops import TOP
from .verilator import Design, build


__all__ = ["BIT_CYCLES", "BoardSimulation", "board_verilog", "build_board",
           "build_simulator"]


#: Cycles of a bit on the simulated UART: as few as the receiver takes.
BIT_CYCLES = 4

#: Cycles between two returns to Python, so that a long run can be interrupted and shows progress.
SLICE = 1 << 18

#: Why the compiled loop came back; ``cpp/board_loop.cpp`` holds the same numbers.
_CYCLES, _RECEIVED, _VIOLATION = range(3)


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


class BoardSimulation:
    """A board that runs while it is listened to: bytes go in and out over the wires of its UART.

    Between calls the clock stands still.

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
        self._library = library
        self.chip, self.storage = None, np.zeros(0, np.uint8)
        if spec.kind == "SDR":
            timings = find_chip(board.memory.module)
            self.storage = np.zeros(timings.size_bytes, np.uint8)
            if isinstance(fill, np.random.Generator):
                self.storage[:] = fill.integers(0, 256, timings.size_bytes, np.uint8)
            elif fill:
                self.storage[:] = fill
            self.chip = SdrChip(library, self.storage, timings, spec.dram_hz, spec.ratio)
        self._loop: int | None = library.headrace_board_new(
            (self.chip and self.chip.handle) or 0, BIT_CYCLES,
            None if trace is None else str(trace).encode())
        self._seconds, self._ran = 0.0, 0
        self.reset()

    def reset(self, cycles: int = 4) -> None:
        """Press the board's reset: what is on its way over the UART is lost, the DRAM stays."""
        if self.chip is not None:
            self.chip.clear_violation()
        self._library.headrace_board_reset(self._loop, cycles)

    @property
    def cycles(self) -> int:
        """Clock cycles so far, resets included."""
        return self._library.headrace_board_cycles(self._loop)

    @property
    def memory_bytes(self) -> int:
        """Size of the simulated DRAM."""
        return self.generated.facts["size_bytes"]

    @property
    def ready(self) -> bool:
        """Whether the DRAM has been started."""
        return bool(self._library.headrace_board_ready(self._loop))

    @property
    def simulated_hz(self) -> float:
        """Cycles per second of wall-clock time."""
        return self._ran / self._seconds if self._seconds else 0.0

    def write(self, data: bytes) -> None:
        """Let bytes go to the board, while it runs."""
        self._library.headrace_board_send(self._loop, bytes(data), len(data))

    @property
    def unsent(self) -> int:
        """Bytes that have not arrived at the board."""
        return self._library.headrace_board_unsent(self._loop)

    @property
    def received(self) -> int:
        """Bytes from the board that wait to be read."""
        return self._library.headrace_board_received(self._loop)

    def run(self, max_cycles: int, received: int = 0,
            progress: Callable[[int], None] | None = None) -> bool:
        """Run for so many cycles, or until so many bytes wait to be read; whether they do.

        Raises
        ------
        ProtocolViolation
            The controller broke a rule of the DRAM.
        """
        start, first, stop = time.perf_counter(), self.cycles, _CYCLES
        try:
            while stop == _CYCLES and (left := first + max_cycles - self.cycles) > 0:
                stop = self._library.headrace_board_run(self._loop, min(left, SLICE), received)
                if progress is not None:
                    progress(self.cycles - first)
        finally:
            self._seconds += time.perf_counter() - start
            self._ran += self.cycles - first
        if self.chip is not None:
            self.chip.check()
        return stop == _RECEIVED

    def settle(self, cycles: int, received: int = 0) -> None:
        """Run until what was written has arrived, and for so many cycles more; but not on once so
        many bytes wait to be read."""
        while self.unsent and not (received and self.received >= received):
            self.run(10 * BIT_CYCLES * self.unsent, received=received)
        if cycles:
            self.run(cycles)

    def read(self, size: int, max_cycles: int) -> bytes:
        """Bytes from the board: `size` of them, or those that came within `max_cycles`."""
        if self.received < size and max_cycles:
            self.run(max_cycles, received=size)
        buffer = (ctypes.c_uint8 * size)()
        count = self._library.headrace_board_take(self._loop, buffer, size)
        return bytes(buffer[:count])

    def close(self) -> None:
        """Free the compiled design and its DRAM."""
        if self._loop is not None:
            self._library.headrace_board_delete(self._loop)
            self._loop = None
            if self.chip is not None:
                self.chip.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

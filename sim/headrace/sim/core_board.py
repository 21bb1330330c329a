"""A board without its DRAM controller: BoardCore with the compiled AXI memory."""

import ctypes
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from headrace.hw.config import CLASSES, Config

from . import cache
from .gating import gate
from .generation import SOURCES
from .memory import MEMORY_SOURCES, Memory, MemoryOptions
from .native import declare
from .ports import read_ports
from .tops import DEVICE, TOP, wrap
from .verilator import Design, build


__all__ = ["BIT_CYCLES", "CLK_HZ", "CoreBoard", "core_verilog"]


#: Cycles of a bit on the simulated UART: as few as the receiver takes.
BIT_CYCLES = 4

#: Clock that the board believes to have: its timeouts are counted in it.
CLK_HZ = 1_000_000

SLICE = 1 << 18

#: Why the compiled loop came back; ``cpp/board_loop.cpp`` holds the same numbers.
_CYCLES, _RECEIVED, _VIOLATION = range(3)


def core_verilog(config: Config, memory_bytes: int, fill: str | int | None = None) -> str:
    """Verilog of the board as module ``headrace``, generated once and kept."""
    def write(work):
        from amaranth.back import verilog

        from headrace.hw.emission import fill_memories
        from headrace.hw.link.core import BoardCore

        core = BoardCore(config, clk_hz=CLK_HZ, uart_baud=CLK_HZ // BIT_CYCLES,
                         memory_bytes=memory_bytes, dram_control=False)
        text = verilog.convert(core, name=DEVICE, strip_internal_attrs=True, emit_src=False)
        (work / "headrace.v").write_text(fill_memories(text, fill), encoding="utf-8")

    sources = [path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py"))]
    key = cache.content_key("core board", sources, repr(config), memory_bytes, repr(fill),
                            CLK_HZ, BIT_CYCLES)
    place = cache.obtain("verilog", key, f"{config.name} with a link", write)
    return (place / "headrace.v").read_text(encoding="utf-8")


class CoreBoard:
    """A board that runs while it is listened to: bytes go in and out over the wires of its UART.

    It has the methods of :class:`headrace.sim.board.BoardSimulation`. Between calls the clock
    stands still.

    Parameters
    ----------
    config : Config
        The accelerator.
    memory_bytes : int
        Size of the memory.
    options : MemoryOptions, optional
        How the memory answers.
    fill : int or numpy.random.Generator
        What it holds at first; it must not matter.

    Attributes
    ----------
    storage : numpy.ndarray, uint8
        Its content.
    memory : Memory
        The memory, with its statistics and error injection.
    """

    def __init__(self, config: Config, memory_bytes: int, options: MemoryOptions | None = None, *,
                 fill: int | np.random.Generator = 0):
        self.config = config
        verilog = core_verilog(config, memory_bytes)
        wrapper, _ = wrap(verilog)
        path = build(Design(top=TOP, sources={"device.v": gate(verilog), "top.sv": wrapper},
                            cpp=MEMORY_SOURCES, driver="board_loop.cpp", output="board.so",
                            label=f"{config.name} with a link"))
        self._library = declare(ctypes.CDLL(str(path)))
        self.storage = np.zeros(memory_bytes, np.uint8)
        if isinstance(fill, np.random.Generator):
            self.storage[:] = fill.integers(0, 256, memory_bytes, np.uint8)
        elif fill:
            self.storage[:] = fill
        bus_bytes = read_ports(verilog, DEVICE)["axi__rdata"].width // 8
        # The window and the memory test have IDs of their own.
        options = replace(options or MemoryOptions(), classes=len(CLASSES) + 2)
        self.memory = Memory(self._library, self.storage, bus_bytes, options)
        self._loop: int | None = self._library.headrace_board_new(self.memory.handle, BIT_CYCLES,
                                                                  None)
        self._seconds, self._ran = 0.0, 0
        self.set_ready(True)
        self.reset()

    def set_ready(self, ready: bool) -> None:
        """Say whether memory can be used."""
        self._library.headrace_board_memory_ready(self._loop, ready)

    def reset(self, cycles: int = 4) -> None:
        """Press the board's reset: what is on its way over the UART is lost, memory stays."""
        self.memory.clear_violation()
        self._library.headrace_board_reset(self._loop, cycles)

    @property
    def cycles(self) -> int:
        """Clock cycles so far, resets included."""
        return self.memory.cycles

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

    def run(self, max_cycles: int, received: int = 0,
            progress: Callable[[int], None] | None = None) -> bool:
        """Run for so many cycles, or until so many bytes wait to be read; whether they do.

        Raises
        ------
        ProtocolViolation
            The board broke a rule of its AXI port.
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
        self.memory.check()
        return stop == _RECEIVED

    def read(self, size: int, max_cycles: int) -> bytes:
        """Bytes from the board: `size` of them, or those that came within `max_cycles`."""
        if self._library.headrace_board_received(self._loop) < size:
            self.run(max_cycles, received=size)
        buffer = (ctypes.c_uint8 * size)()
        count = self._library.headrace_board_take(self._loop, buffer, size)
        return bytes(buffer[:count])

    def close(self) -> None:
        """Free the compiled design and its memory."""
        if self._loop is not None:
            self._library.headrace_board_delete(self._loop)
            self._loop = None
            self.memory.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

"""A board without its DRAM controller: BoardCore with the compiled AXI memory."""

import ctypes
from dataclasses import replace

import numpy as np

from headrace.hw.config import CLASSES, Config

from . import cache
from .gating import gate
from .generation import SOURCES
from .memory import MEMORY_SOURCES, Memory, MemoryOptions, fill_storage
from .native import declare
from .ports import read_ports
from .tops import DEVICE, TOP, wrap
from .uart_loop import BIT_CYCLES, UartLoop
from .verilator import Design, build


__all__ = ["CLK_HZ", "CoreBoard", "core_verilog"]


#: Clock that the board believes to have: its timeouts are counted in it.
CLK_HZ = 1_000_000


def core_verilog(config: Config, memory_bytes: int, fill: str | int | None = None) -> str:
    """Verilog of the board as module ``headrace``, generated once and kept."""
    def write(work):
        from headrace.hw.emission import to_verilog
        from headrace.hw.link.core import BoardCore

        core = BoardCore(config, clk_hz=CLK_HZ, uart_baud=CLK_HZ // BIT_CYCLES,
                         memory_bytes=memory_bytes, dram_control=False)
        (work / "headrace.v").write_text(to_verilog(core, DEVICE, fill), encoding="utf-8")

    sources = [path.read_text(encoding="utf-8") for path in sorted(SOURCES.rglob("*.py"))]
    key = cache.content_key("core board", sources, repr(config), memory_bytes, repr(fill),
                            CLK_HZ, BIT_CYCLES)
    place = cache.obtain("verilog", key, f"{config.name} with a link", write)
    return (place / "headrace.v").read_text(encoding="utf-8")


class CoreBoard(UartLoop):
    """A board with the compiled memory, on the wires of its UART.

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
        library = declare(ctypes.CDLL(str(path)))
        self.storage = np.zeros(memory_bytes, np.uint8)
        fill_storage(self.storage, fill)
        bus_bytes = read_ports(verilog, DEVICE)["axi__rdata"].width // 8
        # The window and the memory test have IDs of their own.
        options = replace(options or MemoryOptions(), classes=len(CLASSES) + 2)
        self.memory = Memory(library, self.storage, bus_bytes, options)
        super().__init__(library, self.memory.handle)
        self.set_ready(True)
        self.reset()

    def set_ready(self, ready: bool) -> None:
        """Say whether memory can be used."""
        self._library.headrace_board_memory_ready(self._loop, ready)

    def _clear(self) -> None:
        self.memory.clear_violation()

    def _check(self) -> None:
        self.memory.check()

    def _free(self) -> None:
        self.memory.close()

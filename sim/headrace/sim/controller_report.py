"""The real DRAM controller of a board beside its timing model.

``python -m headrace.sim.controller_report`` prints the table of docs/dram.md.

A model runs on the board's accelerator four times: on LiteDRAM's controller (SDR SDRAM at its
pins, DDR3 with LiteDRAM's model of PHY and chip), on the timing model that the board names, on the
same chip behind the timing model's own controller, and on ideal memory.
"""

import argparse
import dataclasses
from dataclasses import dataclass

from headrace.boards.catalogue import BOARDS, Board, find_board
from headrace.boards.dram import controller_spec
from headrace.sw.checkpoint import ModelShape, SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import Image, compile_model
from headrace.sw.device import Device
from headrace.sw.driver import Session

from .board_device import SimulatedBoard
from .device import SimDevice
from .direct import DirectDevice
from .dram import Dram, find_dram
from .generation import device_verilog
from .memory import MemoryOptions


__all__ = ["Measured", "compare", "measure", "table"]


#: Prompt and decode passes of a measurement.
PROMPT, TOKENS = (1, 454, 30, 2, 5, 17, 80, 33), 8


@dataclass(frozen=True)
class Measured:
    """Cycles of a memory: of the prompt's pass, of a decode pass, and of the port in the latter.

    `busy` is the share of cycles in which data moved over the port.
    """

    name: str
    prefill: int
    decode: float
    busy: float


def measure(name: str, device: Device, image: Image, *, tokens: int = TOKENS) -> Measured:
    """Run a prompt, and as many decode passes as `tokens` says."""
    with device:
        if isinstance(device, DirectDevice):
            device.await_memory()
        session = Session(device, image)
        session.prefill(PROMPT)
        first = session.report()["totals"]
        session.decode(tokens)
        both = session.report()["totals"]
    cycles = both["cycles"] - first["cycles"]
    return Measured(name, first["cycles"], cycles / tokens,
                    (both["busy"]["port"] - first["busy"]["port"]) / cycles)


def _image(board: Board) -> Image:
    """The built-in model, or for DDR3, which is filled over the UART, a smaller one."""
    if board.memory.kind == "SDR":
        return compile_model(load_checkpoint("demo"), board.config)
    shape = ModelShape(dim=128, ffn=256, layers=1, vocab=256, heads=4, kv_heads=2, head_dim=32,
                       context=96, eps=1e-5, theta=10000.0, tied=True)
    return compile_model(SyntheticCheckpoint(shape, seed=0), board.config)


def compare(board: Board, *, tokens: int = TOKENS) -> list[Measured]:
    """LiteDRAM, the board's timing model, that chip behind an ideal scheduler, ideal memory."""
    config, dram, image = board.config, find_dram(board.memory.dram), _image(board)
    verilog = device_verilog(config)

    def timed(chosen: Dram | None) -> SimDevice:
        return SimDevice(config, verilog, MemoryOptions(dram=chosen, clk_hz=config.clk_hz),
                         memory_bytes=32 << 20)

    real: Device = (DirectDevice(config, controller_spec(board)) if board.memory.kind == "SDR"
                    else SimulatedBoard(board))
    # The same chip, with everything in flight at once and its own times.
    free = dataclasses.replace(dram, name="free", serial=0, read_queue=64, write_queue=64,
                               write_high=48, write_low=16, read_buffer=128, idle=32,
                               rcd=dram.rp, fold=True)
    return [measure(name, device, image, tokens=tokens) for name, device in (
        ("LiteDRAM", real), (f"timing model `{dram.name}`", timed(dram)),
        ("the chip, accesses in any order", timed(free)), ("ideal memory", timed(None)))]


def table(board: Board, found: list[Measured]) -> str:
    """The measurements in Markdown, decode beside that of the controller."""
    lines = [f"| `{board.name}` | prompt of {len(PROMPT)}, cycles | decode, cycles per token | "
             f"of LiteDRAM's | port busy |", "|---|---|---|---|---|"]
    lines += [f"| {each.name} | {each.prefill:,} | {each.decode:,.0f} | "
              f"{100 * each.decode / found[0].decode:.1f} % | {100 * each.busy:.1f} % |"
              for each in found]
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="ulx3s", choices=sorted(BOARDS),
                        help="a board with a DRAM on its pins")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="decode passes")
    chosen = parser.parse_args()
    board = find_board(chosen.board)
    print(table(board, compare(board, tokens=chosen.tokens)))


if __name__ == "__main__":
    main()

"""Starting and training a DDR3 chip over the registers of its controller, by the host."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sw.errors import HeadraceError

from ..catalogue import Board
from .generated import generate_controller
from .spec import controller_spec


if TYPE_CHECKING:
    from headrace.sw.links.board_registers import BoardRegisters


__all__ = ["Ddr3Host", "Lane", "start_memory"]


#: Bits of a command of a phase, and of the pins that all phases share.
_COMMAND = {"cs": 1, "we": 2, "cas": 4, "ras": 8, "write": 16, "read": 32}
_CONTROL = {"sel": 1, "cke": 2, "odt": 4, "reset_n": 8}

#: Test patterns per setting.
_PATTERNS = 4


@dataclass(frozen=True)
class Lane:
    """How one byte of the bus is read: the setting that was chosen, and how many delays work."""

    bitslip: int
    delay: int
    window: int


class Ddr3Host:
    """Starts the chip, finds for each byte of the bus when reads are good, and lets memory be used.

    Each byte of the data bus has a position of words (`bitslip`) and a delay of its strobe. For all
    of them patterns are written and read back; the middle of the longest run of delays that work
    is taken. Refresh rests meanwhile, so nothing that memory held is kept.

    Parameters
    ----------
    facts : mapping
        Facts of the generated controller.
    clk_hz : int
        Its clock.
    read, write : callable
        Read and write a 32-bit register by its address in the controller's region.
    sleep : callable
        Wait for so many seconds.
    """

    def __init__(self, facts: Mapping, clk_hz: int, read: Callable[[int], int],
                 write: Callable[[int, int], None], sleep: Callable[[float], None] = time.sleep):
        self._facts, self._clk_hz = facts, clk_hz
        self._read_address, self._write_address, self._sleep = read, write, sleep
        self._registers = facts["registers"]

    def prepare(self, *, train: bool = True) -> list[Lane]:
        """Start the chip; with `train` also find the settings of its reads.

        Raises
        ------
        HeadraceError
            No setting works for a byte of the bus.
        """
        self._write("control_init_done0", 0)
        self._write("control_init_error0", 0)
        self._start()
        try:
            lanes = [self._train(lane) for lane in range(self._facts["modules"])] if train else []
        except HeadraceError:
            self._write("control_init_error0", 1)
            raise
        # The controller takes over.
        self._write("sdram_dfii_control0", _CONTROL["sel"])
        self._write("control_init_done0", 1)
        return lanes

    def _write(self, name: str, value: int) -> None:
        self._write_address(self._registers[name], value)

    def _command(self, phase: int, command: str, *, a: int = 0, ba: int = 0) -> None:
        prefix = f"sdram_dfii_pi{phase}"
        self._write(f"{prefix}_address0", a)
        self._write(f"{prefix}_baddress0", ba)
        self._write(f"{prefix}_command0", sum(_COMMAND[bit] for bit in command.split()))
        self._write(f"{prefix}_command_issue", 1)

    def _start(self) -> None:
        """LiteDRAM's commands after power-up."""
        for step in self._facts["start"]:
            if step["control"]:
                self._write("sdram_dfii_control0", sum(_CONTROL[bit] for bit in step["control"]))
            if not step["cs_n"]:
                bits = [bit for bit in ("ras", "cas", "we") if not step[f"{bit}_n"]]
                self._command(0, " ".join(["cs", *bits]), a=step["a"], ba=step["ba"])
            self._sleep(step["wait"] / self._clk_hz)

    def _train(self, lane: int) -> Lane:
        best = Lane(0, 0, 0)
        self._adjust(lane, "rdly_dq_bitslip_rst")
        for bitslip in range(self._facts["bitslips"]):
            if bitslip:
                self._adjust(lane, "rdly_dq_bitslip")
            works = []
            self._adjust(lane, "rdly_dq_rst")
            for delay in range(self._facts["delays"]):
                if delay:
                    self._adjust(lane, "rdly_dq_inc")
                works.append(all(self._try(lane, seed) for seed in range(_PATTERNS)))
            begin, window = _longest(works)
            if window > best.window:
                best = Lane(bitslip, begin + (window - 1) // 2, window)
        if not best.window:
            raise HeadraceError(f"DDR3: no setting reads byte {lane} of the data bus: expected a "
                                f"delay and a bitslip at which patterns come back; look at the "
                                f"chip's supply, its soldering, and the clock")
        self._adjust(lane, "rdly_dq_bitslip_rst")
        for _ in range(best.bitslip):
            self._adjust(lane, "rdly_dq_bitslip")
        self._adjust(lane, "rdly_dq_rst")
        for _ in range(best.delay):
            self._adjust(lane, "rdly_dq_inc")
        return best

    def _adjust(self, lane: int, register: str) -> None:
        self._write("ddrphy_dly_sel0", 1 << lane)
        self._write(f"ddrphy_{register}", 1)
        self._write("ddrphy_dly_sel0", 0)
        # Selected all together and released, the strobes' pointers start in step again.
        self._write("ddrphy_dly_sel0", (1 << self._facts["modules"]) - 1)
        self._write("ddrphy_dly_sel0", 0)

    def _try(self, lane: int, seed: int) -> bool:
        """Whether a pattern comes back on one byte of the bus, with its strobe seen."""
        facts, rng = self._facts, random.Random(seed)
        bits, phases = facts["dfi_bits"], range(facts["phases"])
        patterns = [rng.getrandbits(bits) for _ in phases]
        self._command(0, "cs ras")
        for phase, pattern in enumerate(patterns):
            for word in range(bits // 32):
                self._write(f"sdram_dfii_pi{phase}_wrdata{word}", pattern >> 32 * word & 0xffffffff)
        self._command(facts["wrphase"], "cs cas we write")
        self._write("ddrphy_burstdet_clr", 1)
        self._command(facts["rdphase"], "cs cas read")
        self._command(0, "cs ras we")
        seen = self._read_address(self._registers["ddrphy_burstdet_seen"])
        mask = sum(0xff << 8 * (facts["modules"] * beat + lane)
                   for beat in range(bits // 8 // facts["modules"]))
        found = [sum(self._read_address(self._registers[f"sdram_dfii_pi{phase}_rddata{word}"])
                     << 32 * word for word in range(bits // 32)) for phase in phases]
        return bool(seen >> lane & 1) and all(
            (one ^ other) & mask == 0 for one, other in zip(found, patterns))


def start_memory(board: Board, *, model: bool = False,
                 sleep: Callable[[float], None] = time.sleep
                 ) -> "Callable[[BoardRegisters], None] | None":
    """What the driver does when the board says that its memory is not ready, or None for nothing.

    Parameters
    ----------
    board : Board
    model : bool
        The controller has LiteDRAM's model of PHY and chip, whose reads need no training.
    sleep : callable
        Wait for so many seconds.

    Raises
    ------
    HeadraceError
        LiteDRAM is not installed; its generator knows the registers.
    """
    if board.memory.kind != "DDR3":
        return None
    facts = generate_controller(controller_spec(board, model=model)).facts

    def start(device: "BoardRegisters") -> None:
        host = Ddr3Host(facts, board.clk_hz, device.read_dram, device.write_dram, sleep)
        host.prepare(train=not model)

    return start


def _longest(works: list[bool]) -> tuple[int, int]:
    """First index and length of the longest run of true values."""
    best, begin = (0, 0), 0
    for index, good in enumerate([*works, False]):
        if not good:
            best = max(best, (begin, index - begin), key=lambda run: run[1])
            begin = index + 1
    return best

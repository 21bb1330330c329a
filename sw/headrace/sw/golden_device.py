"""The golden machine behind the interface of a device."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import Config
from headrace.hw.isa import INSTRUCTION_BYTES, Op, decode
from headrace.hw.regmap import COUNTERS, ID, RECORD_BYTES, REGISTERS, VERSION

from .compiler.traffic import instruction_traffic, program_traffic
from .device import Device
from .errors import HeadraceError
from .golden import BusError, GoldenMachine


__all__ = ["GoldenDevice"]


class GoldenDevice(Device):
    """The golden machine behind the register map.

    It has no time: the run is over when `start` has been written, `cycles` and all waits stay 0.
    Bytes are counted as the hardware counts them.

    Parameters
    ----------
    config : Config
        The machine.
    memory_bytes : int, optional
        Capacity of its memory; that of the configuration by default.
    memory_base : int
        First byte of the memory on the bus.
    fill : int
        Byte that memory and SRAM are filled with; their content must not matter.
    """

    name = "golden"
    has_cycles = False

    def __init__(self, config: Config, *, memory_bytes: int | None = None, memory_base: int = 0,
                 fill: int = 0):
        self.config = config
        self.memory_base = memory_base
        self.memory_bytes = memory_bytes or config.memory_bytes
        # Zeros are not touched until used; a full memory of gigabytes would be.
        self.memory = (np.full(self.memory_bytes, fill, np.uint8) if fill
                       else np.zeros(self.memory_bytes, np.uint8))
        self.machine = GoldenMachine(config, self.memory, fill=fill)
        self._program: list[dict[str, int]] = []
        self._program_bytes = b""
        self._registers = dict.fromkeys(REGISTERS, 0)
        self._registers |= {
            "id": ID, "version": VERSION, "fingerprint": config.fingerprint,
            "size": config.rows | config.cols << 8 | config.port_bytes << 16
            | config.lanes << 24,
            "limits": config.chunk_positions | config.streams << 16,
        }
        self._counters = dict.fromkeys(COUNTERS, 0)

    def read_register(self, name: str) -> int:
        return self._registers[name]

    def write_register(self, name: str, value: int) -> None:
        access = REGISTERS[name].access
        if access == "rw":
            self._registers[name] = value & 0xffff_ffff
        elif name == "irq":
            self._registers["irq"] &= ~value
        elif name == "control":
            bits = REGISTERS["control"].bits
            if value >> bits["reset"][0] & 1:
                self._registers |= dict.fromkeys(
                    ("status", "irq", "error_code", "error_addr_lo", "error_addr_hi"), 0)
            elif value >> bits["start"][0] & 1:
                self._start()

    def read_counter(self, name: str) -> int:
        return self._counters[name]

    def _range(self, addr: int, size: int) -> slice:
        begin = addr - self.memory_base
        if not 0 <= begin <= begin + size <= self.memory_bytes:
            raise HeadraceError(f"golden: {size} bytes at {addr:#x} are outside the memory: "
                                f"expected {self.memory_base:#x} to "
                                f"{self.memory_base + self.memory_bytes:#x}")
        return slice(begin, begin + size)

    def read_memory(self, addr: int, size: int) -> NDArray[np.uint8]:
        return self.memory[self._range(addr, size)].copy()

    def write_memory(self, addr: int, data: NDArray[np.uint8]) -> None:
        # Prompts are short; whatever is longer may hold weights.
        if data.size > 4 * self.config.chunk_positions:
            self.machine.forget_weights()
        self.memory[self._range(addr, data.size)] = data

    def wait_interrupt(self, max_cycles: int, progress: Callable[[int], None] | None = None
                       ) -> bool:
        return bool(self._registers["irq"])

    def _status(self, **values: int) -> None:
        bits = REGISTERS["status"].bits
        self._registers["status"] = sum(value << bits[name][0] for name, value in values.items())

    def _start(self) -> None:
        """Execute a run; it ends at once."""
        regs = self._registers
        regs |= {"passes_done": 0, "error_code": 0, "error_addr_lo": 0, "error_addr_hi": 0}
        self._counters = dict.fromkeys(COUNTERS, 0)
        self.machine.state.base = (regs["base_lo"] | regs["base_hi"] << 32) - self.memory_base
        try:
            program = self._fetch()
            for index in range(regs["passes"]):
                self._pass(program, index)
                regs["passes_done"] = index + 1
            self._status(done=1)
        except BusError as error:
            address = error.address + self.memory_base
            regs |= {"error_code": error.code, "error_addr_lo": address & 0xffff_ffff,
                     "error_addr_hi": address >> 32}
            self._status(error=1)
        regs["irq"] = 1

    def _fetch(self) -> list[dict[str, int]]:
        """Decode the program, unless it is the one that was decoded last."""
        regs, state = self._registers, self.machine.state
        raw = state.read(regs["program"], INSTRUCTION_BYTES * regs["instructions"]).tobytes()
        if raw != self._program_bytes:
            program = []
            for at in range(0, len(raw), INSTRUCTION_BYTES):
                try:
                    program.append(decode(raw[at:at + INSTRUCTION_BYTES]))
                except ValueError as error:
                    raise BusError(5, state.base + 64 * regs["program"] + at) from error
            self._program, self._program_bytes = program, raw
        return self._program

    def all_logits(self, position: int, positions: int) -> NDArray[np.float32]:
        """Make a prefill pass that has the output layer for every position.

        Registers of the image must be set, and the tokens be in memory. Nothing is counted.

        Returns
        -------
        float32 array, shape (positions, tokens of the vocabulary)
            Logits after each position, with the bits of passes of one position each.
        """
        return self.machine.all_logits(self._fetch(), position=position, positions=positions)

    def _pass(self, program: list[dict[str, int]], index: int) -> None:
        regs = self._registers
        flags = REGISTERS["flags"].bits
        head = index > 0 or bool(regs["flags"] >> flags["head"][0] & 1)
        logits = bool(regs["flags"] >> flags["logits"][0] & 1)
        positions = 1 if index else regs["positions"]
        position = regs["position"] + (regs["positions"] + index - 1 if index else 0)
        token = self.machine.run_pass(program, position=position, positions=positions, head=head,
                                      logits=logits)
        self._count(program_traffic(self.config, len(program)).counters())
        for code in program:
            if code["head"] and not head:
                continue
            if code["op"] == Op.END:
                self._record(code["addr"], index)
            self._count(instruction_traffic(
                self.config, code, position=position, positions=positions, logits=logits,
                kv_base=regs["kv_base"], kv_pinned=regs["kv_pinned"]).counters())
        if token is not None:
            regs["token"] = token

    def _count(self, values: dict[str, int]) -> None:
        for name, value in values.items():
            self._counters[name] += value

    def _record(self, addr: int, index: int) -> None:
        record = np.zeros(RECORD_BYTES // 8, "<u8")
        record[:len(COUNTERS)] = [self._counters[name] for name in COUNTERS]
        target = self.machine.state.read(addr, RECORD_BYTES, offset=RECORD_BYTES * index)
        size = 8 * len(COUNTERS)
        target[:size] = record.view(np.uint8)[:size]

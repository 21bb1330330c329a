"""Address map of a board, and its own registers, written once.

The gateware, the driver, the documents and the C header read these tables.
"""

from dataclasses import dataclass

from ..regmap import Register


__all__ = ["ACCELERATOR", "BOARD", "BOARD_ID", "BOARD_REGISTERS", "BOARD_VERSION", "CRC_POLYNOMIAL",
           "DRAM", "OPERATIONS", "REGIONS", "Region", "TIMEOUT_SECONDS", "WINDOW", "board_address"]


@dataclass(frozen=True)
class Region:
    """Addresses ``base ... base + size`` of the link; `size` is a power of two."""

    name: str
    base: int
    size: int
    doc: str

    @property
    def addr_bits(self) -> int:
        """Width of addresses inside the region."""
        return self.size.bit_length() - 1


REGIONS = {region.name: region for region in (
    Region("accelerator", 0x0000_0000, 1 << 12, "Control port of the accelerator."),
    Region("board", 0x0000_1000, 1 << 12, "Registers of the board."),
    Region("dram", 0x0001_0000, 1 << 16, "Registers of the DRAM controller, where it has some."),
    Region("window", 0x4000_0000, 1 << 30, "Memory, from its first byte on."),
)}

ACCELERATOR, BOARD, DRAM, WINDOW = REGIONS.values()

#: "HRBD", little-endian.
BOARD_ID = int.from_bytes(b"HRBD", "little")

#: Version of this map: major 16 bits, minor 16 bits.
BOARD_VERSION = 0x0001_0000

#: Seconds without a byte after which the link forgets an unfinished command.
TIMEOUT_SECONDS = 0.1

#: CRC-32 of zlib, reflected; bytes in the order of their addresses.
CRC_POLYNOMIAL = 0xEDB8_8320

#: Operations of the memory test, by the value of `test_control.operation`.
OPERATIONS = {"fill": 1, "check": 2, "crc": 3}

BOARD_REGISTERS = {register.name: register for register in (
    Register("id", 0x000, "ro", "Identification: the text HRBD."),
    Register("version", 0x004, "ro", "Version of the address map and of these registers."),
    Register("clk_hz", 0x008, "ro", "Clock of the accelerator and of the link, in Hz."),
    Register("uart_baud", 0x00c, "ro", "Bits per second of the UART."),
    Register("memory_kib", 0x010, "ro", "Size of the memory, in KiB."),
    Register("status", 0x014, "ro", "State. `stuck`: the memory owes the window an answer. "
             "`failed`: memory answered the last operation of the memory test with an error.",
             {"memory_ready": (0, 1), "stuck": (1, 1), "irq": (2, 1), "busy": (3, 1),
              "failed": (4, 1)}),
    Register("link_errors", 0x018, "ro", "Errors of the link since the reset, each count up to "
             "15: bytes without a stop bit, bytes that came too early, commands that were "
             "forgotten, accesses that were answered with an error.",
             {"framing": (0, 4), "overrun": (4, 4), "timeout": (8, 4), "bus": (12, 4)}),
    Register("test_control", 0x020, "w1", "Start an operation on memory; ignored while one lasts. "
             "1 fills, 2 checks, 3 computes a CRC-32. The pattern: with `lfsr` each word follows "
             "from the one before, otherwise all are `test_seed`.",
             {"operation": (0, 2), "lfsr": (2, 1)}),
    Register("test_addr", 0x024, "rw", "First byte of memory, a multiple of 4. It, `test_words` "
             "and `test_seed` go along with the operation, and must not be written meanwhile."),
    Register("test_words", 0x028, "rw", "Words of 4 bytes that are left to do."),
    Register("test_seed", 0x02c, "rw", "Next word of the pattern; for an LFSR not 0."),
    Register("test_result", 0x030, "ro", "Of a CRC: CRC-32 of the range, as zlib computes it. Of a "
             "check: words that were different."),
    Register("test_bad_addr", 0x034, "ro", "Address of the first of them."),
)}


def board_address(name: str) -> int:
    """Address of a register of the board."""
    return BOARD.base + BOARD_REGISTERS[name].offset

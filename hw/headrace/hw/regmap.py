"""Register map of the control port and layout of the counters, written once.

The RTL, the driver, the golden device, the documents and the C header read these tables.
"""

from dataclasses import dataclass, field

from .config import CLASSES


__all__ = ["COUNTERS", "COUNTER_BASE", "ERRORS", "ID", "RECORD_BYTES", "REGISTERS", "VERSION",
           "Register", "is_compatible", "offset"]


#: "HRAC", little-endian.
ID = int.from_bytes(b"HRAC", "little")

#: Version of the register map and of the instruction set: major 16 bits, minor 16 bits. A minor one
#: adds to what was there (1: activations of 16 bits).
VERSION = 0x0001_0001


@dataclass(frozen=True)
class Register:
    """A 32-bit register: `access` is "ro", "rw", "w1" (each bit acts when 1 is written) or "w1c"
    (writing 1 clears a bit)."""

    name: str
    offset: int
    access: str
    doc: str
    bits: dict[str, tuple[int, int]] = field(default_factory=dict)    # name: (lsb, width)


REGISTERS = {register.name: register for register in (
    Register("id", 0x000, "ro", "Identification: the text HRAC."),
    Register("version", 0x004, "ro", "Version of register map and instruction set."),
    Register("fingerprint", 0x008, "ro", "Fingerprint of the configuration."),
    Register("size", 0x00c, "ro", "Capabilities: sizes of the array and of the port.",
             {"rows": (0, 8), "cols": (8, 8), "port_bytes": (16, 8), "lanes": (24, 8)}),
    Register("limits", 0x010, "ro", "Capabilities: positions in a pass, attention streams.",
             {"chunk_positions": (0, 16), "streams": (16, 16)}),
    Register("control", 0x020, "w1", "Start a run; reset the engines; both act at once.",
             {"start": (0, 1), "reset": (1, 1)}),
    Register("status", 0x024, "ro", "State of the device. `resetting` is set while reads and "
             "writes that were owed at a reset are drained.",
             {"busy": (0, 1), "done": (1, 1), "error": (2, 1), "resetting": (3, 1)}),
    Register("irq", 0x028, "w1c", "Interrupt pending: a run ended, well or not. Write 1 to clear.",
             {"pending": (0, 1)}),
    Register("irq_enable", 0x02c, "rw", "Interrupt line enabled.", {"enable": (0, 1)}),
    Register("error_code", 0x030, "ro", "What ended the run, see the error codes."),
    Register("error_addr_lo", 0x034, "ro", "Address of the error, low half."),
    Register("error_addr_hi", 0x038, "ro", "Address of the error, high half."),
    Register("base_lo", 0x040, "rw", "Address of the image in memory, a multiple of 4096, low."),
    Register("base_hi", 0x044, "rw", "Address of the image in memory, high half."),
    Register("program", 0x048, "rw", "Address of the first instruction, in 64-byte units."),
    Register("instructions", 0x06c, "rw", "Instructions in the program of a pass, END included."),
    Register("position", 0x04c, "rw", "Position of the first token of the first pass."),
    Register("positions", 0x050, "rw", "Positions in the first pass; each later pass has one."),
    Register("passes", 0x054, "rw", "Passes to run."),
    Register("flags", 0x058, "rw", "`head`: the first pass computes logits and the next token "
             "(later passes always do). `logits`: logits are written to memory.",
             {"head": (0, 1), "logits": (1, 1)}),
    Register("kv_base", 0x05c, "rw", "Address of the cache, in 64-byte units."),
    Register("kv_pinned", 0x060, "rw", "64-byte units of the cache, from its beginning, that are "
             "held in the KV buffer."),
    Register("passes_done", 0x064, "ro", "Passes completed since the start."),
    Register("token", 0x068, "ro", "Token that the last pass chose."),
)}


#: Error codes of `error_code`.
ERRORS = {
    0: "none",
    1: "the memory answered a read with SLVERR",
    2: "the memory answered a read with DECERR",
    3: "the memory answered a write with SLVERR",
    4: "the memory answered a write with DECERR",
    5: "unknown instruction",
    6: "the memory answered reads of different IDs out of order",
}


#: Counters, each 64 bits, in the order of the registers and of the records in memory.
COUNTERS = (
    "cycles",
    # What the read port did in each cycle: these five add up to `cycles`.
    "port_busy", "port_wait_memory", "port_buffer_full", "port_wait_dependency",
    "port_wait_sequencer",
    *(f"read_{name}" for name in CLASSES),                   # bytes
    "written_kv", "written_activations",                     # bytes
    "kv_hits", "kv_misses",                                  # bytes of cache read
    "macs",
    # What the matmul unit did in each cycle: these six add up to `cycles`.
    "matmul_busy", "matmul_wait_weights", "matmul_wait_activations", "matmul_wait_softmax",
    "matmul_wait_accumulator", "matmul_idle",
    # What the vector unit did in each cycle: these five add up to `cycles`.
    "vector_busy", "vector_wait_matmul", "vector_wait_memory", "vector_wait_write", "vector_idle",
    # What the softmax pipeline did in each cycle: these two add up to `cycles`.
    "softmax_busy", "softmax_idle",
)

#: Offset of the first counter register: low half, then high half. Reading a low half holds the
#: high half that belongs to it.
COUNTER_BASE = 0x200

#: Bytes of the record of all counters that END writes for each pass.
RECORD_BYTES = 256


def is_compatible(version: int) -> bool:
    """Whether a device of a version does all that this one has: its major, no lower minor."""
    return version >> 16 == VERSION >> 16 and version & 0xffff >= VERSION & 0xffff


def offset(name: str) -> int:
    """Offset of a register in bytes."""
    return REGISTERS[name].offset

"""C headers of the register maps: offsets, masks and shifts of fields, counters, errors."""

from collections.abc import Iterable

from ..config import Config
from ..link.map import BOARD_ID, BOARD_REGISTERS, BOARD_VERSION, OPERATIONS, REGIONS
from ..regmap import (
    COUNTER_BASE,
    COUNTERS,
    ERRORS,
    ID,
    RECORD_BYTES,
    REGISTERS,
    VERSION,
    Register,
)


__all__ = ["board_header", "c_header"]


def _registers(prefix: str, registers: Iterable[Register]) -> list[str]:
    lines = []
    for register in registers:
        macro = f"{prefix}_{register.name.upper()}"
        # The identification and the version have their expected value under the bare name.
        lines += ["", f"/* {register.access}: {register.doc} */",
                  f"#define {macro}_OFFSET 0x{register.offset:03x}u"]
        for field, (lsb, width) in register.bits.items():
            lines += [f"#define {macro}_{field.upper()}_SHIFT {lsb}",
                      f"#define {macro}_{field.upper()}_MASK 0x{((1 << width) - 1) << lsb:08x}u"]
    return lines


def _strings(macro: str, texts: Iterable[str]) -> list[str]:
    """An initialiser of an array of strings."""
    return [f"#define {macro} {{ \\", *(f'    "{text}", \\' for text in texts), "}"]


def _configuration(config: Config) -> list[str]:
    values = {"fingerprint": f"0x{config.fingerprint:08x}u"}
    values |= {name: f"{getattr(config, name)}u" for name in (
        "rows", "cols", "lanes", "port_bits", "addr_bits", "chunk_positions", "streams", "clk_hz")}
    return ["", f"/* Configuration {config.name}. */",
            *(f"#define HEADRACE_CONFIG_{name.upper()} {value}"
              for name, value in values.items())]


def c_header(config: Config | None = None) -> str:
    """Header of the accelerator's control port; with a `config` also its sizes."""
    lines = ["/* Register map of headrace: byte offsets from the control port's base. */",
             "#ifndef HEADRACE_REGS_H", "#define HEADRACE_REGS_H", "",
             f"#define HEADRACE_ID 0x{ID:08x}u", f"#define HEADRACE_VERSION 0x{VERSION:08x}u", "",
             "/* HEADRACE_GET(word, STATUS_BUSY): the field of that name of a word. */",
             "#define HEADRACE_GET(word, field) \\",
             "    (((word) & HEADRACE_##field##_MASK) >> HEADRACE_##field##_SHIFT)",
             "/* HEADRACE_PUT(value, CONTROL_START): a value in its place. */",
             "#define HEADRACE_PUT(value, field) \\",
             "    (((value) << HEADRACE_##field##_SHIFT) & HEADRACE_##field##_MASK)"]
    lines += _registers("HEADRACE", REGISTERS.values())
    lines += ["", "/* Counters: 64 bits, low half first; reading it holds the high half. */"]
    lines += [f"#define HEADRACE_COUNTER_{name.upper()}_OFFSET 0x{COUNTER_BASE + 8 * index:03x}u"
              for index, name in enumerate(COUNTERS)]
    lines += ["", "/* Places of counters in a record of a pass, in units of 8 bytes. */"]
    lines += [f"#define HEADRACE_COUNTER_{name.upper()} {index}"
              for index, name in enumerate(COUNTERS)]
    lines += [f"#define HEADRACE_COUNTERS {len(COUNTERS)}",
              f"#define HEADRACE_COUNTER_BASE 0x{COUNTER_BASE:03x}u",
              f"#define HEADRACE_RECORD_BYTES {RECORD_BYTES}",
              *_strings("HEADRACE_COUNTER_NAMES", COUNTERS), "", "/* Error codes. */"]
    lines += [f"#define HEADRACE_ERROR_{code} {code} /* {text} */"
              for code, text in ERRORS.items()]
    lines += [f"#define HEADRACE_ERRORS {len(ERRORS)}",
              *_strings("HEADRACE_ERROR_TEXTS", (ERRORS[code] for code in range(len(ERRORS))))]
    lines += [] if config is None else _configuration(config)
    return "\n".join([*lines, "", "#endif", ""])


def board_header() -> str:
    """Header of a board's address map and of its own registers, as its link reaches them."""
    lines = ["/* Address map of a board of headrace, and its own registers. */",
             "#ifndef HEADRACE_BOARD_H", "#define HEADRACE_BOARD_H", "",
             f"#define HEADRACE_BOARD_ID 0x{BOARD_ID:08x}u",
             f"#define HEADRACE_BOARD_VERSION 0x{BOARD_VERSION:08x}u"]
    for region in REGIONS.values():
        macro = f"HEADRACE_REGION_{region.name.upper()}"
        lines += ["", f"/* {region.doc} */", f"#define {macro}_BASE 0x{region.base:08x}u",
                  f"#define {macro}_SIZE 0x{region.size:08x}u"]
    lines += _registers("HEADRACE_BOARD", BOARD_REGISTERS.values())
    lines += ["", "/* Operations of the memory test. */"]
    lines += [f"#define HEADRACE_BOARD_OPERATION_{name.upper()} {value}"
              for name, value in OPERATIONS.items()]
    return "\n".join([*lines, "", "#endif", ""])

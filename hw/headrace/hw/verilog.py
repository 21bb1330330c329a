"""Verilog of the accelerator, and its description."""

import re
from dataclasses import asdict

from .config import Config
from .control.control import ADDR_BITS
from .device import Headrace
from .emission import to_verilog
from .outputs.c_header import c_header
from .regmap import COUNTER_BASE, COUNTERS, ERRORS, RECORD_BYTES, REGISTERS, VERSION


__all__ = ["NAME", "c_header", "describe", "generate", "memories"]


#: Name of the Verilog module.
NAME = "headrace"


def generate(config: Config, fill: str | int | None = None, *, probe: bool = False,
             activity: bool = False) -> str:
    """Verilog of the device, in one text: module `headrace`, clock ``clk``, reset ``rst``.

    Parameters
    ----------
    config : Config
        Sizes.
    fill : None, "ones" or int
        What memories hold at first, which no result depends on: nothing is said, ones, or random
        bits from this seed. Tables of constants stay as they are.
    probe : bool
        With the port that shows what instructions write, see `docs/check.md`.
    activity : bool
        With the port that shows what the engines do, see `docs/report.md`.

    Raises
    ------
    ValueError
        For another `fill`.
    """
    if fill is not None and fill != "ones" and (isinstance(fill, bool)
                                                or not isinstance(fill, int)):
        raise ValueError(f"fill must be None, 'ones' or a seed, not {fill!r}")
    return to_verilog(Headrace(config, probe=probe, activity=activity), NAME, fill)


def memories(text: str) -> list[tuple[str, int, int]]:
    """Name, width and depth of each memory and table in a Verilog text."""
    found = re.findall(r"^  reg (?:\[(\d+):0\] )?(\\\S+|\w+) +\[(\d+):0\];", text, re.MULTILINE)
    return [(name.removeprefix("\\"), int(high or 0) + 1, int(last) + 1)
            for high, name, last in found]


def describe(config: Config) -> dict:
    """Ports, configuration, register map and fingerprint, as plain data for JSON."""
    return {
        "module": NAME,
        "ports": {
            "clk": "clock", "rst": "reset, synchronous, active high",
            "irq": "interrupt, a level",
            "axi": {"protocol": "AXI4", "role": "manager", "prefix": "axi__",
                    "addr_bits": config.addr_bits, "data_bits": config.port_bits},
            "ctrl": {"protocol": "AXI4-Lite", "role": "subordinate", "prefix": "ctrl__",
                     "addr_bits": ADDR_BITS, "data_bits": 32},
        },
        "config": asdict(config),
        "fingerprint": config.fingerprint,
        "version": VERSION,
        "registers": {
            name: {"offset": register.offset, "access": register.access, "doc": register.doc,
                   "bits": {field: list(span) for field, span in register.bits.items()}}
            for name, register in REGISTERS.items()
        },
        "counters": {name: COUNTER_BASE + 8 * index for index, name in enumerate(COUNTERS)},
        "record_bytes": RECORD_BYTES,
        "errors": {str(code): text for code, text in ERRORS.items()},
    }

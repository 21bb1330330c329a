"""Register map as LiteX writes it for its own registers: ``csr.json`` and ``csr.csv``."""

import json
from typing import Any

from ..config import Config
from ..control.control import ADDR_BITS
from ..regmap import COUNTER_BASE, COUNTERS, REGISTERS


__all__ = ["csr_csv", "csr_json"]


def _description(config: Config, name: str, base: int) -> dict[str, Any]:
    """The four tables of LiteX's files.

    LiteX takes the first word of a register of several for the highest, and a counter begins with
    its low half: so a counter is two registers.
    """
    places = {each.name: (each.offset, "ro" if each.access == "ro" else "rw")
              for each in REGISTERS.values()}
    for index, counter in enumerate(COUNTERS):
        for half, suffix in enumerate(("lo", "hi")):
            places[f"counter_{counter}_{suffix}"] = COUNTER_BASE + 8 * index + 4 * half, "ro"
    return {
        "csr_bases": {name: base},
        "csr_registers": {f"{name}_{each}": {"addr": base + offset, "size": 1, "type": kind}
                          for each, (offset, kind) in
                          sorted(places.items(), key=lambda pair: pair[1])},
        "constants": {
            "config_csr_data_width": 32, "config_csr_alignment": 32,
            "config_bus_address_width": 32, "config_bus_data_width": 32,
            f"{name}_fingerprint": config.fingerprint, f"{name}_clk_hz": config.clk_hz,
            f"{name}_addr_bits": config.addr_bits, f"{name}_port_bits": config.port_bits,
        },
        "memories": {name: {"base": base, "size": 1 << ADDR_BITS, "type": "io"}},
    }


def csr_json(config: Config, name: str, base: int = 0) -> str:
    """Text of ``csr.json``; `base` is the address of the control port in the SoC."""
    return json.dumps(_description(config, name, base), indent=4) + "\n"


def csr_csv(config: Config, name: str, base: int = 0) -> str:
    """Text of ``csr.csv``, which LiteX's remote client reads."""
    tables = _description(config, name, base)
    lines = [f"# Registers of {name}, configuration {config.name}."]
    lines += [f"csr_base,{key},{value:#010x},," for key, value in tables["csr_bases"].items()]
    lines += [f"csr_register,{key},{value['addr']:#010x},{value['size']},{value['type']}"
              for key, value in tables["csr_registers"].items()]
    lines += [f"constant,{key},{value},," for key, value in tables["constants"].items()]
    lines += [f"memory_region,{key},{value['base']:#010x},{value['size']},{value['type']}"
              for key, value in tables["memories"].items()]
    return "\n".join([*lines, ""])

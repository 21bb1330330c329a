"""Registers and fields as descriptions of register maps want them: every bit in a field."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..config import Config
from ..regmap import COUNTER_BASE, COUNTERS, ID, REGISTERS, VERSION, Register


__all__ = ["Field", "constants", "counter_offsets", "fields"]


@dataclass(frozen=True)
class Field:
    """Bits ``lsb ... lsb + width - 1`` of a register; `constant` is what they always read."""

    name: str
    lsb: int
    width: int
    constant: int | None


def constants(config: Config) -> dict[str, int]:
    """Registers that read the same value for ever."""
    return {
        "id": ID, "version": VERSION, "fingerprint": config.fingerprint,
        "size": config.rows | config.cols << 8 | config.port_bytes << 16 | config.lanes << 24,
        "limits": config.chunk_positions | config.streams << 16,
    }


def fields(register: Register, config: Config) -> Iterator[Field]:
    """Fields of a register; one without fields has a single one, ``value``."""
    known = constants(config).get(register.name)
    for name, (lsb, width) in (register.bits or {"value": (0, 32)}).items():
        yield Field(name, lsb, width,
                    None if known is None else known >> lsb & (1 << width) - 1)


def counter_offsets() -> dict[str, int]:
    """Offset of each counter, of 64 bits."""
    return {name: COUNTER_BASE + 8 * index for index, name in enumerate(COUNTERS)}


# A name that descriptions put before a counter's keeps it apart from a register's.
assert not any(f"counter_{name}" in REGISTERS for name in COUNTERS)

"""Efficiency of the DRAMs: ``python -m headrace.sim.dram_report`` prints the table of the docs.

Bursts go straight into the compiled memory, through the AXI port that the device would have. The
port is as fast as the DRAM, so each figure is a share of either's peak.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dram import DRAMS, Dram
from .memory import MemoryOptions
from .traffic import Traffic


__all__ = ["PATTERNS", "PORTS", "Efficiency", "measure", "table"]


#: Address space of the measurements.
SPACE = 256 << 20

#: Bytes that one measurement moves: a millisecond's worth, so a hundred refreshes and more, but at
#: most this.
VOLUME = 8 << 20

#: Bytes of a burst, except of random blocks.
BURST = 1024

#: Port of each DRAM: width in bytes and clock in Hz.
PORTS = {"ddr3-1600-x16": (16, 200_000_000), "ddr4-2400-x64": (64, 300_000_000),
         "lpddr4-2400-x16": (16, 300_000_000), "hbm2-pc": (64, 250_000_000),
         "sdr-133-x16": (4, 66_666_667), "litedram-sdr-100-x16": (4, 50_000_000),
         "litedram-sdr-65-x16": (4, 32_500_000), "litedram-ddr3-300-x16": (8, 75_000_000)}


Bursts = tuple[int, NDArray[np.uint64], NDArray[np.bool_]]


def _alternating(count: int) -> Callable[[int], Bursts]:
    """Bursts in turn from `count` places at equal distances, a power of two."""
    def bursts(volume: int) -> Bursts:
        index = np.arange(volume // BURST, dtype=np.uint64)
        addrs = index % count * np.uint64(SPACE // count) + index // count * BURST
        return BURST, addrs, np.zeros(addrs.size, bool)
    return bursts


def _random(volume: int) -> Bursts:
    size = 256
    addrs = np.random.default_rng(0).integers(0, SPACE // size, volume // size, np.uint64) * size
    return size, addrs, np.zeros(addrs.size, bool)


def _writes(volume: int) -> Bursts:
    """Sequential reads; 3 of 25 bursts write, to another stream."""
    index = np.arange(volume // BURST)
    writes = index * 3 % 25 < 3
    addrs = np.where(writes, SPACE // 2 + (np.cumsum(writes) - 1) * BURST,
                     (np.cumsum(~writes) - 1) * BURST)
    return BURST, addrs.astype(np.uint64), writes


#: Access patterns by name.
PATTERNS: dict[str, Callable[[int], Bursts]] = {
    "sequential reads": _alternating(1),
    "random 256-byte blocks": _random,
    "two alternating streams": _alternating(2),
    "eight alternating streams": _alternating(8),
    "12 % writes": _writes,
}


@dataclass(frozen=True)
class Efficiency:
    """What a pattern reached.

    Attributes
    ----------
    fraction : float
        Bytes per time, of the most that the DRAM can move.
    statistics : dict
        Of the DRAM, see :attr:`headrace.sim.memory.Memory.statistics`.
    """

    fraction: float
    statistics: dict[str, Any]


def measure(dram: Dram, pattern: str, *, port: tuple[int, int] | None = None,
            outstanding: int = 32) -> Efficiency:
    """Efficiency of a pattern through a port (by default that of :data:`PORTS`)."""
    bus_bytes, clk_hz = port or PORTS[dram.name]
    size, addrs, writes = PATTERNS[pattern](min(VOLUME, int(dram.peak) // 1000))
    # Untouched pages of it take no space.
    storage = np.zeros(SPACE, np.uint8)
    with Traffic(storage, bus_bytes, MemoryOptions(dram=dram, clk_hz=clk_hz)) as traffic:
        ends = traffic.run(addrs, writes=writes, beats=size // bus_bytes, outstanding=outstanding)
        found = traffic.memory.statistics["dram"]
    seconds = int(ends.max()) / clk_hz
    return Efficiency(addrs.size * size / seconds / float(dram.peak), found)


def table() -> str:
    """All patterns with all presets, in Markdown."""
    lines = ["| | peak GB/s | " + " | ".join(PATTERNS) + " |", "|---" * (2 + len(PATTERNS)) + "|"]
    for dram in DRAMS.values():
        cells = [f"{100 * measure(dram, pattern).fraction:.1f} %" for pattern in PATTERNS]
        lines.append(f"| `{dram.name}` | {float(dram.peak) / 1e9:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())

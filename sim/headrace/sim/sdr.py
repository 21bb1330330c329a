"""A simulated SDR SDRAM at its pins."""

import ctypes
import functools
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from headrace.sw.errors import HeadraceError

from . import cache
from .memory import ProtocolViolation
from .native import declare
from .toolchain import find_compiler
from .verilator import CPP, compile_library


__all__ = ["CHIPS", "SDR_SOURCES", "SdrChip", "SdrTimings", "find_chip", "sdr_library"]


#: C++ files of the chip.
SDR_SOURCES = ("sdr_api.cpp", "sdr_chip.cpp")


@dataclass(frozen=True, kw_only=True)
class SdrTimings:
    """An SDR SDRAM as its data sheet describes it: geometry, and times in nanoseconds.

    Written apart from what the controller is generated from, so that one checks the other.
    """

    name: str
    banks: int = 4
    rows: int = 8192
    columns: int = 512
    bus_bytes: int = 2
    rcd: float = 20
    rp: float = 20
    ras: float = 45
    rc: float = 66
    rfc: float = 66
    rrd: float = 15
    wr: float = 15
    power_up: float = 100_000
    refresh_ms: int = 64
    #: Shortest clock, in nanoseconds, at each CAS latency.
    clock: tuple[tuple[int, float], ...] = ((2, 10.0), (3, 7.5))

    @property
    def size_bytes(self) -> int:
        """Capacity."""
        return self.banks * self.rows * self.columns * self.bus_bytes

    def native(self, clock_hz: int, ratio: int) -> dict[str, int]:
        """Options of the compiled chip at a clock, which is `ratio` times that of the design.

        Raises
        ------
        HeadraceError
            The chip is too slow for the clock.
        """
        period = Fraction(10**9, clock_hz)
        latencies = [cl for cl, shortest in self.clock if Fraction(str(shortest)) <= period]
        if not latencies:
            raise HeadraceError(f"SDR SDRAM {self.name}: a clock of {clock_hz / 1e6:g} MHz: the "
                                f"chip goes up to {1000 / self.clock[-1][1]:g} MHz")
        values = {name: -(-Fraction(str(getattr(self, name))) // period)
                  for name in ("rcd", "rp", "ras", "rc", "rfc", "rrd", "wr", "power_up")}
        refi = Fraction(self.refresh_ms * 10**6, self.rows) / period
        values |= {name: getattr(self, name) for name in ("banks", "rows", "columns", "bus_bytes")}
        return {**{name: int(value) for name, value in values.items()}, "mrd": 2,
                "cl_min": min(latencies), "ratio": ratio, "refi_num": refi.numerator,
                "refi_den": refi.denominator}


#: Chips by LiteDRAM's names of their classes: the slowest of the grades that boards carry.
CHIPS = {chip.name: chip for chip in (
    SdrTimings(name="IS42S16160"), SdrTimings(name="MT48LC16M16"),
    SdrTimings(name="AS4C32M16", columns=1024), SdrTimings(name="IS42S16320", columns=1024))}


def find_chip(name: str) -> SdrTimings:
    """The chip of that name.

    Raises
    ------
    HeadraceError
        There is none.
    """
    if name not in CHIPS:
        raise HeadraceError(f"no simulated SDR SDRAM {name!r}: expected one of {', '.join(CHIPS)}")
    return CHIPS[name]


@functools.cache
def sdr_library() -> ctypes.CDLL:
    """The chip without a design."""
    compiler = find_compiler()
    sources = {path.name: path.read_text() for path in [*(CPP / name for name in SDR_SOURCES),
                                                        CPP / "sdr_chip.h"]}
    place = cache.obtain("builds", cache.content_key("sdr", sources, compiler),
                         "SDR SDRAM without a design", lambda work: compile_library(
                             compiler, [CPP / name for name in SDR_SOURCES], work / "sdr.so"))
    return declare(ctypes.CDLL(str(place / "sdr.so")))


class SdrChip:
    """The compiled chip of one simulation.

    Parameters
    ----------
    library : ctypes.CDLL
        A build with :data:`SDR_SOURCES`.
    storage : numpy.ndarray, uint8
        Its content, byte 0 first as the controller's port sees it.
    timings : SdrTimings
    clock_hz, ratio : int
        Clock of the chip, and its clocks in one of the design.
    """

    def __init__(self, library: ctypes.CDLL, storage: np.ndarray, timings: SdrTimings,
                 clock_hz: int, ratio: int):
        if storage.size < timings.size_bytes:
            raise HeadraceError(f"SDR SDRAM {timings.name}: {storage.size} bytes of storage: "
                                f"expected {timings.size_bytes}")
        self._library, self._storage, self._timings = library, storage, timings
        self.handle: int | None = library.headrace_sdr_new(storage.ctypes.data, storage.size)
        for name, value in timings.native(clock_hz, ratio).items():
            if library.headrace_sdr_set(self.handle, name.encode(), value):
                raise HeadraceError(f"SDR SDRAM: the compiled chip has no option {name!r}")

    @property
    def cycles(self) -> int:
        """Rising edges of the design's clock so far."""
        return self._library.headrace_sdr_cycles(self.handle)

    @property
    def statistics(self) -> dict[str, Any]:
        """`clocks` of the chip; `reads`, `writes`, `activates`, `precharges` (commands; not those
        that come with an access), `refreshes`; `words` that moved."""
        return json.loads(self._library.headrace_sdr_statistics(self.handle))

    def tick(self, command: int, a: int = 0, ba: int = 0, dm: int = 0, dq: int | None = None
             ) -> int:
        """One rising edge, with CKE, CS#, RAS#, CAS#, WE# from bit 4 of `command` down; what the
        bus holds at the next edge. Data is driven where `dq` is given."""
        bus, broken = ctypes.c_uint64(), ctypes.c_uint8()
        self._library.headrace_sdr_tick(self.handle, command, a, ba, dm, dq or 0,
                                        0 if dq is None else (1 << 64) - 1, bus, broken)
        return bus.value & (1 << 8 * self._timings.bus_bytes) - 1

    def reset_statistics(self) -> None:
        """Count from zero."""
        self._library.headrace_sdr_reset_statistics(self.handle)

    @property
    def violation(self) -> str | None:
        """The rule of the data sheet that was broken first, or None."""
        return self._library.headrace_sdr_violation(self.handle).decode() or None

    def check(self) -> None:
        """Raise :exc:`ProtocolViolation` if a rule is broken."""
        if text := self.violation:
            raise ProtocolViolation(text)

    def clear_violation(self) -> None:
        """Forget a violation."""
        self._library.headrace_sdr_clear_violation(self.handle)

    def close(self) -> None:
        """Free the compiled chip. The design must not run any more."""
        if self.handle is not None:
            self._library.headrace_sdr_delete(self.handle)
            self.handle = None

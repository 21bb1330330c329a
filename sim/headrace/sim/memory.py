"""The compiled AXI memory, seen from Python."""

import ctypes
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import CLASSES
from headrace.sw.errors import HeadraceError

from .dram import Dram, find_dram
from .native import declare


__all__ = ["MEMORY_SOURCES", "Memory", "MemoryOptions", "ProtocolViolation", "RESPONSES",
           "fill_storage"]


#: The compiled model: what a build adds to the Verilated design.
MEMORY_SOURCES = ("axi_checker.cpp", "axi_memory.cpp", "axi_memory_reads.cpp",
                  "axi_memory_writes.cpp", "axi_statistics.cpp", "dram_banks.cpp",
                  "dram_controller.cpp", "dram_timing.cpp", "memory_api.cpp", "probe.cpp",
                  "activity.cpp")


#: Error responses by name.
RESPONSES = {"slverr": 2, "decerr": 3}

_REORDER = {"none": 0, "bursts": 1, "beats": 2}


class ProtocolViolation(HeadraceError):
    """The device broke a rule of its AXI port: a fault of the hardware, not of its input.

    The message starts with the rule: ``stability``, ``boundary``, ``burst_length``, ``burst_type``,
    ``size``, ``alignment``, ``id``, ``unmapped``, ``wlast``, ``write_order``, ``outstanding`` or
    ``valid_in_reset``; it ends with cycle and address.
    """


def fill_storage(storage: NDArray[np.uint8], fill: int | np.random.Generator) -> None:
    """Give zeroed memory its first content, a byte or random ones, which must not matter."""
    if isinstance(fill, np.random.Generator):
        storage[:] = fill.integers(0, 256, storage.size, np.uint8)
    elif fill:          # zeros that are not touched take no room
        storage[:] = fill


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """How the memory answers, and which limits of the device its checker enforces.

    Parameters
    ----------
    latency : int
        Cycles from the acceptance of a read address to its first beat, at least 1.
    write_latency : int, optional
        Cycles from the last of address and data to the write response, `latency` by default.
    bandwidth : float
        Most beats per cycle, above 0 and up to 1; reads and writes each have that much.
    stall_seed : int, optional
        Seed of random stalls on all five channels; without it there are none.
    stall_probability : float
        Chance that a transfer waits, and then that it waits a cycle longer; up to 0.95.
    reorder : {"none", "bursts", "beats"}
        Whether transactions of different IDs may overtake each other at random: whole bursts, or
        single beats (read data of several IDs interleaved). One ID always stays in order.
    depth : int
        Bursts of each direction that the memory accepts before it answers the first.
    max_burst_beats, max_reads, max_writes : int
        Limits that the device promises: longest burst, and most bursts in flight (0: no limit).
    classes : int
        IDs that there are, up to 8: those of the traffic classes by default.
    dram : str or Dram, optional
        A preset of :data:`headrace.sim.dram.DRAMS`, or another DRAM, whose timing decides in place
        of `latency`, `write_latency` and `bandwidth`, which then keep their defaults.
    clk_hz : int, optional
        Clock of the port; a DRAM needs it.
    """

    latency: int = 60
    write_latency: int | None = None
    bandwidth: float = 1.0
    stall_seed: int | None = None
    stall_probability: float = 0.25
    reorder: str = "none"
    depth: int = 64
    max_burst_beats: int = 256
    max_reads: int = 0
    max_writes: int = 0
    classes: int = len(CLASSES)
    dram: str | Dram | None = None
    clk_hz: int | None = None

    def __post_init__(self):
        for name, low, high in (("latency", 1, 10**6), ("write_latency", 1, 10**6),
                                ("stall_seed", 0, 2**48), ("stall_probability", 0, 0.95),
                                ("depth", 1, 4096), ("max_burst_beats", 1, 256),
                                ("max_reads", 0, 4096), ("max_writes", 0, 4096),
                                ("classes", 1, 8), ("clk_hz", 1, 10**10)):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise HeadraceError(f"memory option {name} is {value}, must be from {low} to "
                                    f"{high}")
        if not 0 < self.bandwidth <= 1:
            raise HeadraceError(f"memory option bandwidth is {self.bandwidth}, must be above 0 and "
                                f"at most 1 (a fraction of one beat per cycle)")
        if self.reorder not in _REORDER:
            raise HeadraceError(f"memory option reorder is {self.reorder!r}, must be one of "
                                f"{', '.join(_REORDER)}")
        if self.dram is not None:
            self._check_dram()

    def _check_dram(self) -> None:
        if isinstance(self.dram, str):
            find_dram(self.dram)
        if self.clk_hz is None:
            raise HeadraceError("memory option clk_hz is missing: the timing of a DRAM needs the "
                                "clock of the port")
        for name in ("latency", "write_latency", "bandwidth"):
            if getattr(self, name) != getattr(type(self), name):
                raise HeadraceError(f"memory option {name} is {getattr(self, name)}, but belongs "
                                    f"to the ideal memory: a DRAM has its own timing")

    @property
    def native(self) -> dict[str, float]:
        """The options of the compiled memory, by its names."""
        dram = find_dram(self.dram) if isinstance(self.dram, str) else self.dram
        timing = {} if dram is None else dram.native(self.clk_hz or 1)
        return {
            **timing, "dram_enabled": int(dram is not None),
            "read_latency": self.latency,
            "write_latency": self.write_latency or self.latency,
            "bandwidth": self.bandwidth,
            "stall_seed": self.stall_seed or 0,
            "stall_probability": 0.0 if self.stall_seed is None else self.stall_probability,
            "reorder": _REORDER[self.reorder],
            "depth": self.depth,
            "classes": self.classes,
            "max_burst_beats": self.max_burst_beats,
            "max_reads": self.max_reads,
            "max_writes": self.max_writes,
        }


class Memory:
    """One memory port of the compiled model.

    Parameters
    ----------
    library : ctypes.CDLL
        The object that holds the compiled model.
    array : numpy.ndarray
        The storage: uint8, one-dimensional, contiguous, writable; a file mapping does well. It is
        shared, not copied, and both sides see each other's changes at once.
    bus_bytes : int
        Width of the port.
    options : MemoryOptions
        How it answers.
    base : int
        Address of the array's first byte.
    """

    def __init__(self, library: ctypes.CDLL, array: np.ndarray, bus_bytes: int,
                 options: MemoryOptions | None = None, base: int = 0):
        if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
            raise HeadraceError(f"memory must be a contiguous one-dimensional array of uint8, not "
                                f"{array.ndim}-dimensional {array.dtype}")
        if not array.flags.writeable:
            raise HeadraceError("memory is a read-only array: map its file with mode 'r+' or 'w+'")
        self._library = declare(library)
        self._array = array  # the compiled side holds its address only
        self.handle: int | None = self._library.headrace_memory_new(
            array.ctypes.data, base, array.nbytes, bus_bytes)
        self.configure(options or MemoryOptions())

    def configure(self, options: MemoryOptions) -> None:
        """Change all options; takes effect in the next cycle, and restarts the random stalls."""
        self.options = options
        for name, value in options.native.items():
            if not self._library.headrace_memory_set(self.handle, name.encode(), float(value)):
                raise KeyError(name)

    def inject(self, first: int, size: int, response: str, *, reads: bool = True,
               writes: bool = True) -> None:
        """Let ``[first, first + size)`` answer ``"slverr"`` or ``"decerr"`` until cleared.

        The range may lie outside the memory. Reads get garbage with the error, writes change
        nothing, beat by beat.
        """
        if response not in RESPONSES:
            raise HeadraceError(f"error response {response!r} is none of {', '.join(RESPONSES)}")
        self._library.headrace_memory_inject(self.handle, first, size, RESPONSES[response], reads,
                                             writes)

    def clear_errors(self) -> None:
        """Remove all error ranges."""
        self._library.headrace_memory_clear_errors(self.handle)

    @property
    def statistics(self) -> dict[str, Any]:
        """Traffic since the start or the last :meth:`reset_statistics`.

        ``cycles`` out of reset, and under ``read`` and ``write``: ``bytes`` and ``bursts`` by
        traffic class (bytes written are those whose strobe was set), ``beats``, ``stalls`` (data
        channel, VALID without READY) and ``idle``, which add up to ``cycles``; ``address_stalls``,
        ``errors`` (responses other than OKAY), ``outstanding`` bursts now and ``max_outstanding``.
        With a DRAM also ``dram``: ``clocks`` of it, ``reads`` and ``writes``, which divide into
        ``hits`` (row open), ``misses`` (bank closed) and ``conflicts`` (another row open),
        ``activates``, ``precharges``, ``refreshes``, ``turnarounds`` of the data bus, and accesses
        without a command: reads ``forwarded`` from a waiting write, writes ``merged`` into one.
        """
        found = json.loads(self._library.headrace_memory_statistics(self.handle))
        for traffic in (found["read"], found["write"]):
            for name in ("bytes", "bursts"):
                traffic[name] = dict(zip(CLASSES, traffic[name]))
        return found

    def reset_statistics(self) -> None:
        """Count from zero."""
        self._library.headrace_memory_reset_statistics(self.handle)

    @property
    def cycles(self) -> int:
        """Rising clock edges so far, resets included."""
        return self._library.headrace_memory_cycles(self.handle)

    @property
    def violation(self) -> str | None:
        """The protocol rule that the device broke, with the details, or None."""
        return self._library.headrace_memory_violation(self.handle).decode() or None

    def check(self) -> None:
        """Raise :exc:`ProtocolViolation` if a rule is broken."""
        if text := self.violation:
            raise ProtocolViolation(text)

    def clear_violation(self) -> None:
        """Forget a violation; the device must be reset next."""
        self._library.headrace_memory_clear_violation(self.handle)

    def close(self) -> None:
        """Free the compiled memory. The design must not run any more."""
        if self.handle is not None:
            self._library.headrace_memory_delete(self.handle)
            self.handle = None

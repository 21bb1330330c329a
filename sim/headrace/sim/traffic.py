"""Bursts straight into the compiled memory, without any RTL."""

import ctypes
import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.sw.errors import HeadraceError

from . import cache
from .memory import MEMORY_SOURCES, Memory, MemoryOptions
from .native import declare
from .toolchain import find_compiler
from .verilator import CPP, compile_library


__all__ = ["COMMANDS", "Command", "Traffic", "sequential_read"]


#: Commands by their number in ``cpp/dram_banks.h``.
COMMANDS = ("activate", "precharge", "precharge_all", "read", "write", "refresh")

#: The logs belong to a design.
_SOURCES = (*(name for name in MEMORY_SOURCES if name not in ("probe.cpp", "activity.cpp")),
            "traffic.cpp")


class Command(NamedTuple):
    """A command that the controller gave the DRAM; bank group in the low bits of the bank."""

    clock: int
    name: str
    bank: int
    row: int


@functools.cache
def _library() -> ctypes.CDLL:
    compiler = find_compiler()
    sources = {path.name: path.read_text()
               for path in [*(CPP / name for name in _SOURCES), *sorted(CPP.glob("*.h"))]}
    place = cache.obtain("builds", cache.content_key("traffic", sources, compiler),
                         "memory without a design", lambda work: compile_library(
                             compiler, [CPP / name for name in _SOURCES], work / "traffic.so"))
    return declare(ctypes.CDLL(str(place / "traffic.so")))


class Traffic:
    """A master that issues bursts as fast as the memory takes them.

    Parameters
    ----------
    storage : numpy.ndarray
        What the memory holds, from address 0, see :class:`headrace.sim.memory.Memory`.
    bus_bytes : int
        Width of the port.
    options : MemoryOptions
        How the memory answers.

    Attributes
    ----------
    memory : Memory
        The memory, with its statistics.
    """

    def __init__(self, storage: NDArray[np.uint8], bus_bytes: int, options: MemoryOptions):
        self._library = _library()
        self._bus_bytes = bus_bytes
        self.memory = Memory(self._library, storage, bus_bytes, options)
        self.reset()

    def reset(self) -> None:
        """Let time start over: all banks closed, a whole refresh period ahead, counts zero."""
        self._library.headrace_traffic_reset(self.memory.handle)
        self.memory.reset_statistics()

    def run(self, addrs: ArrayLike, *, writes: ArrayLike = False, beats: int = 1,
            outstanding: int = 32, idle: int = 0, data: NDArray[np.uint8] | None = None,
            max_cycles: int = 10**9) -> NDArray[np.uint64]:
        """Cycles, from the first on, in which the bursts to `addrs` ended.

        Parameters
        ----------
        addrs : array of int
            Where they begin, in the order in which they are issued.
        writes : bool or array of bool
            Which of them write.
        beats : int
            Length of each.
        outstanding : int
            Most bursts of each direction in flight.
        idle : int
            Cycles to go on after the last.
        data : array of uint8 ``[burst, byte]``, optional
            What the writes write; rows of reads get what was read.
        max_cycles : int
            Cycles after which there is an error.

        Raises
        ------
        ProtocolViolation
            If a burst is none that the protocol allows.
        HeadraceError
            If `data` has a wrong shape, or the cycles are not enough.
        """
        places = np.ascontiguousarray(addrs, np.uint64)
        kinds = np.ascontiguousarray(np.broadcast_to(writes, places.shape), np.uint8)
        shape = (places.size, beats * self._bus_bytes)
        if data is not None and (data.shape != shape or data.dtype != np.uint8
                                 or not data.flags.c_contiguous):
            raise HeadraceError(f"data of the bursts is {data.shape} {data.dtype}, must be a "
                                f"contiguous array of {shape} uint8")
        ends = np.zeros(places.size, np.uint64)
        last = self._library.headrace_traffic_run(
            self.memory.handle, places.size, places.ctypes.data, kinds.ctypes.data, beats,
            outstanding, idle, max_cycles, None if data is None else data.ctypes.data,
            ends.ctypes.data)
        self.memory.check()
        if places.size and not last:
            raise HeadraceError(f"the bursts did not end within {max_cycles} cycles")
        return ends

    def record(self) -> None:
        """Record the commands of the DRAM from now on; forgets those recorded before."""
        self._library.headrace_traffic_record(self.memory.handle, 1)

    @property
    def commands(self) -> list[Command]:
        """The recorded commands, in the order of issue."""
        count = ctypes.c_uint64()
        records = self._library.headrace_traffic_records(self.memory.handle, count)
        return [Command(records[i], COMMANDS[records[i + 1]], records[i + 2], records[i + 3])
                for i in range(0, 4 * count.value, 4)]

    def close(self) -> None:
        """Free the memory."""
        self.memory.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sequential_read(options: MemoryOptions, size: int, *, bus_bytes: int, burst_bytes: int,
                    outstanding: int) -> int:
    """Cycles in which a memory gives `size` bytes to a master that reads them in sequence.

    Parameters
    ----------
    options : MemoryOptions
        How the memory answers.
    size : int
        Bytes, rounded up to whole bursts.
    bus_bytes, burst_bytes, outstanding : int
        Port and bursts of the master; it asks as early as it may.
    """
    count = -(-size // burst_bytes)
    # Untouched pages take no space.
    storage = np.zeros(max(1, count) * burst_bytes, np.uint8)
    with Traffic(storage, bus_bytes, options) as traffic:
        ends = traffic.run(np.arange(count, dtype=np.uint64) * burst_bytes,
                           beats=burst_bytes // bus_bytes, outstanding=outstanding)
    return int(ends.max(initial=0))

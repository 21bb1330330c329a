"""Recording of what the engines do, from the activity port of a simulated device."""

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from headrace.hw.activity import AMOUNTS, STATES, TRACKS
from headrace.sw.trace import Activity


__all__ = ["ActivityRecorder"]


#: Most intervals: memory and files stay small however long a run is.
MAX_INTERVALS = 2048

#: Most instructions of each track that are kept with their times.
MAX_MARKS = 1 << 18


class ActivityRecorder:
    """The log behind the activity port of a simulation; it records from the beginning.

    Parameters
    ----------
    library : ctypes.CDLL
        The compiled design.
    memory : int
        Handle of its memory.
    """

    def __init__(self, library: ctypes.CDLL, memory: int):
        self._library, self._memory = library, memory
        bits = [f"{engine}_{state}" for engine, states in STATES.items() for state in states]
        layout = [len(bits), len(AMOUNTS), *map(bits.index, (
            "port_busy", "matmul_busy", "vector_idle", "sequencer_busy", "sequencer_idle"))]
        self._columns = (*bits, *AMOUNTS)
        library.headrace_activity_begin(memory, (ctypes.c_uint * len(layout))(*layout),
                                        MAX_INTERVALS, MAX_MARKS)

    def plan(self, beats: Mapping[str, Sequence[int]]) -> None:
        """Say how many beats each instruction of the next run reads, by track."""
        for name, counts in beats.items():
            values = np.array(counts, np.uint64)
            self._library.headrace_activity_plan(
                self._memory, TRACKS.index(name),
                values.ctypes.data_as(ctypes.POINTER(ctypes.c_uint64)), values.size)

    def settle(self) -> int:
        """End a run; return the cycles so far."""
        self._library.headrace_activity_settle(self._memory)
        return self._library.headrace_activity_cycles(self._memory)

    def read(self) -> Activity:
        """Everything so far."""
        width, count = ctypes.c_uint64(), ctypes.c_uint64()
        data = self._library.headrace_activity_sums(self._memory, width, count)
        shape = (count.value, len(self._columns))
        sums = (np.ctypeslib.as_array(data, shape).astype(np.int64) if count.value
                else np.zeros(shape, np.int64))
        marks, dropped = {}, 0
        for index, name in enumerate(TRACKS):
            strays, lost = ctypes.c_uint64(), ctypes.c_uint64()
            data = self._library.headrace_activity_marks(self._memory, index, count, strays, lost)
            marks[name] = (np.ctypeslib.as_array(data, (count.value, 2)).astype(np.int64)
                           if count.value else np.zeros((0, 2), np.int64))
            assert not strays.value, f"{strays.value} beats of no instruction of {name}"
            dropped += lost.value
        return Activity(columns=self._columns, width=width.value, sums=sums, marks=marks,
                        cycles=self._library.headrace_activity_cycles(self._memory),
                        dropped=dropped)

    def close(self) -> None:
        """Forget everything."""
        self._library.headrace_activity_end(self._memory)

"""Recording of what instructions write, from the probe port of a simulated device."""

import ctypes

import numpy as np

from headrace.hw.config import Config
from headrace.hw.observation import sources
from headrace.sw.recording import Recording


__all__ = ["Probe"]


class Probe:
    """The log behind the probe port of a simulation.

    Parameters
    ----------
    library : ctypes.CDLL
        The compiled design.
    memory : int
        Handle of its memory.
    config : Config
        What the design was generated from.
    """

    def __init__(self, library: ctypes.CDLL, memory: int, config: Config):
        self._library, self._memory = library, memory
        self._sources = sources(config)

    def begin(self) -> None:
        """Record from now on, from nothing."""
        sizes = [sum(fields.values()) for fields in self._sources.values()]
        self._library.headrace_probe_begin(self._memory, (ctypes.c_uint * len(sizes))(*sizes),
                                           len(sizes))

    def end(self) -> Recording:
        """Stop; return what was recorded."""
        records = {}
        for index, (name, fields) in enumerate(self._sources.items()):
            count = ctypes.c_uint64()
            data = self._library.headrace_probe_records(self._memory, index, count)
            flat = (np.ctypeslib.as_array(data, (count.value,)).copy() if count.value
                    else np.zeros(0, np.uint32))
            records[name] = flat.reshape(-1, 1 + sum(fields.values()))
        self._library.headrace_probe_end(self._memory)
        return Recording(self._sources, records)

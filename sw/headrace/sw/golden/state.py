"""Memories of the golden machine, addressed as the hardware addresses them."""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import Config

from ..numerics import low_scale


__all__ = ["BusError", "Results", "State"]


class BusError(Exception):
    """An access outside the memory.

    Attributes
    ----------
    code : int
        Error code of the register map.
    address : int
        Byte address of the access.
    """

    def __init__(self, code: int, address: int):
        super().__init__(f"error {code} at {address:#x}")
        self.code, self.address = code, address


class Results:
    """Results of one MATMUL or ATTN on their way to the vector unit.

    Attributes
    ----------
    values : float32 array
        ``[stream, column]`` of MATMUL; ``[head, stream, element]`` of ATTN.
    row_scale : float32 array or None
        ``[head, stream]`` of ATTN.
    steps : dict of str to array
        What ATTN computed on the way, ``[head, block, stream]`` or ``[head, block, stream,
        token]``: `scores` as they leave the accumulator, with `keep` where they count; `p`, the
        quantised probabilities, their scales `p_scale`, and `rescale`.
    """

    def __init__(self, values: NDArray[np.float32], row_scale: NDArray[np.float32] | None = None,
                 steps: dict[str, NDArray] | None = None):
        self.values, self.row_scale, self.steps = values, row_scale, steps or {}


class State:
    """External memory, SRAM and the queue of results.

    Parameters
    ----------
    config : Config
        The machine.
    memory : uint8 array
        External memory; shared, not copied.
    base : int
        Byte of `memory` that addresses of instructions count from.
    fill : int
        Byte that SRAM is filled with at first; its content must not matter.
    """

    def __init__(self, config: Config, memory: NDArray[np.uint8], *, base: int = 0,
                 fill: int = 0xff):
        self.config = config
        self.memory = memory
        self.base = base
        self.x = np.full(config.x_bytes, fill, np.uint8).view(np.float32)
        self.a = np.full(config.a_words * config.a_word_bytes, fill, np.uint8).view(np.int8)
        self.s = np.full(4 * config.s_words, fill, np.uint8).view(np.float32)
        self.rope = np.empty((0, 0, 2), np.float32)
        self.results: deque[Results] = deque()

    def span(self, unit: int, size: int, *, offset: int = 0, write: bool = False) -> int:
        """Return the first byte of an access at a 64-byte unit, checked against the memory.

        Raises
        ------
        BusError
            If the access does not lie in the memory.
        """
        begin = self.base + 64 * unit + offset
        if begin + size > self.memory.size:
            raise BusError(4 if write else 2, max(begin, self.memory.size))
        return begin

    def read(self, unit: int, size: int, *, offset: int = 0) -> NDArray[np.uint8]:
        """View of memory at a 64-byte unit."""
        begin = self.span(unit, size, offset=offset)
        return self.memory[begin:begin + size]

    def floats(self, unit: int, count: int, *, offset: int = 0) -> NDArray[np.float32]:
        """Copy of fp32 values in memory."""
        return np.frombuffer(self.read(unit, 4 * count, offset=offset).tobytes(), "<f4")

    def vectors(self, code: Mapping[str, int], count: int, elems: int) -> NDArray[np.float32]:
        """View ``[position, element]`` of X for `count` positions."""
        lanes = self.config.lanes
        return np.ndarray((count, elems), np.float32, self.x, 4 * lanes * code["x_base"],
                          (4 * lanes * code["x_stride"], 4))

    def _sets(self, code: Mapping[str, int], streams: int, elems: int, index: int, half: int,
              halves: int) -> NDArray[np.int8]:
        """View ``[row set, word, row, lane]`` of one of the halves in A; `index` is the set of a
        K/V head."""
        rows, lanes = self.config.rows, self.config.lanes
        sets = -(-streams // rows)
        word = rows * lanes
        begin = code["a_base"] + (index * sets * halves + half) * code["a_stride"]
        return np.ndarray((sets, elems // lanes, rows, lanes), np.int8, self.a, word * begin,
                          (word * halves * code["a_stride"], word, lanes, 1))

    def _scales(self, code: Mapping[str, int], streams: int, groups: int, index: int
                ) -> NDArray[np.float32]:
        begin = code["s_base"] + index * streams * code["s_stride"]
        return np.ndarray((streams, groups), np.float32, self.s, 4 * begin,
                          (4 * code["s_stride"], 4))

    def put_activations(self, code: Mapping[str, int], halves: Sequence[NDArray[np.int8]],
                        scales: NDArray[np.float32], index: int = 0) -> None:
        """Write streams ``q[stream, k]``, or their high and low halves, and
        ``scales[stream, group]``; `index` is the set of a K/V head."""
        rows, lanes = self.config.rows, self.config.lanes
        for half, q in enumerate(halves):
            streams, elems = q.shape
            words = self._sets(code, streams, elems, index, half, len(halves))
            full, rest = divmod(streams, rows)
            values = q.reshape(streams, elems // lanes, lanes)
            if full:
                words[:full] = values[:full * rows].reshape(full, rows, -1, lanes).swapaxes(1, 2)
            if rest:
                words[full, :, :rest] = values[full * rows:].swapaxes(0, 1)
        self._scales(code, len(scales), scales.shape[1], index)[:] = scales

    def activations(self, code: Mapping[str, int], streams: int, elems: int, groups: int,
                    index: int = 0) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Read streams ``[stream, k]`` and their scales ``[stream, group]``; with `halves` all high
        halves, then all low ones, with their scales."""
        count = 1 + code["halves"]
        sets = [self._sets(code, streams, elems, index, half, count).swapaxes(1, 2)
                for half in range(count)]
        q = [words.reshape(-1, elems)[:streams] for words in sets]
        scales = self._scales(code, streams, groups, index).copy()
        if count == 1:
            return q[0], scales
        return np.concatenate(q), np.concatenate([scales, low_scale(scales)])

"""What a device wrote while it executed instructions."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


__all__ = ["Recording"]


class Recording:
    """Records of a probe, by source; `headrace.hw.observation` says which there are.

    Parameters
    ----------
    fields : mapping of str to mapping of str to int
        Fields of each source and their sizes in words.
    records : mapping of str to uint32 array, shape (records, 1 + words)
        Records of each source in order: first the number of instructions that the vector unit had
        ended before, then the fields.
    """

    def __init__(self, fields: Mapping[str, Mapping[str, int]],
                 records: Mapping[str, NDArray[np.uint32]]):
        self._records = records
        self._columns = {}
        for source, sizes in fields.items():
            ends = np.cumsum([1, *sizes.values()]).tolist()
            self._columns[source] = {name: slice(begin, end)
                                     for name, begin, end in zip(sizes, ends, ends[1:])}

    def _split(self, source: str, rows: NDArray[np.uint32]) -> dict[str, NDArray[np.uint32]]:
        return {name: np.ascontiguousarray(rows[:, columns])
                for name, columns in self._columns[source].items()}

    def of_instruction(self, source: str, index: int) -> dict[str, NDArray[np.uint32]]:
        """Fields ``[record, word]`` written by the `index`-th instruction of the vector unit."""
        records = self._records[source]
        begin, end = np.searchsorted(records[:, 0], [index, index + 1])
        return self._split(source, records[begin:end])

    def in_order(self, source: str, begin: int, count: int) -> dict[str, NDArray[np.uint32]]:
        """Fields of up to `count` records from record `begin` on."""
        return self._split(source, self._records[source][begin:begin + count])

    @property
    def instructions(self) -> list[int]:
        """Opcodes of the instructions that the vector unit ended."""
        return self._records["retire"][:, 1].tolist()

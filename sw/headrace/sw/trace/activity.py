"""What a device recorded of its engines."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


__all__ = ["Activity"]


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Sums by interval and times of instructions; time is in cycles that the counters counted.

    Attributes
    ----------
    columns : tuple of str
        States (cycles in them) and amounts of `headrace.hw.activity`.
    width : int
        Cycles of an interval, a power of two; the last interval may be shorter.
    sums : int64 array, shape (intervals, columns)
        What each interval adds to each column.
    marks : dict of str to int64 array, shape (instructions, 2)
        First cycle, and first cycle after, of each instruction of each track.
    cycles : int
        Cycles in all.
    dropped : int
        Instructions without marks, because there are too many.
    """

    columns: tuple[str, ...]
    width: int
    sums: NDArray[np.int64]
    marks: dict[str, NDArray[np.int64]]
    cycles: int
    dropped: int

    def column(self, name: str) -> NDArray[np.int64]:
        """One column, by interval."""
        return self.sums[:, self.columns.index(name)]

    def lengths(self) -> NDArray[np.int64]:
        """Cycles of each interval."""
        begins = np.arange(len(self.sums), dtype=np.int64) * self.width
        return np.minimum(self.cycles - begins, self.width)

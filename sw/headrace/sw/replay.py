"""Runs of a session, kept so that another device can make them again."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .device import Device
from .errors import HeadraceError
from .recording import Recording


__all__ = ["History", "Run"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the driver sets before a run; `bound` is in cycles."""

    position: int
    positions: int
    passes: int
    head: bool
    logits: bool
    bound: int

    def make(self, device: Device, progress: Callable[[int], None] | None = None) -> None:
        """Set the registers, and let the device make the run."""
        device.write_register("position", self.position)
        device.write_register("positions", self.positions)
        device.write_register("passes", self.passes)
        device.write_bits("flags", head=int(self.head), logits=int(self.logits))
        device.run(self.bound, progress)


@dataclass
class History:
    """Everything that a session asked of its device, in order.

    Attributes
    ----------
    steps : list
        Runs, and what was written to memory: address and bytes.
    """

    steps: list[Run | tuple[int, NDArray[np.uint8]]] = field(default_factory=list)

    def repeat(self, device: Device, progress: Callable[[int], None] | None = None) -> Recording:
        """Do it all again on a device that is set up; record the last run.

        A last run that hangs or ends with an error leaves what it wrote until then.
        """
        *before, last = self.steps
        assert isinstance(last, Run)
        for step in before:
            if isinstance(step, Run):
                step.make(device, progress)
            else:
                device.write_memory(*step)
        device.begin_recording()
        try:
            last.make(device, progress)
        except HeadraceError:
            pass
        return device.end_recording()

"""The golden device that makes every run too, and what differs."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..check import Finding, cache_difference, logits_difference, token_difference
from ..compiler import Image
from ..device import Device
from ..golden_device import GoldenDevice
from ..localise import PassScalars, Walk
from ..replay import History, Run
from .setup import configure


__all__ = ["Mirror"]


class Mirror:
    """A golden device beside another one, with the same memory.

    Parameters
    ----------
    device : Device
        The other one; the image is in its memory.
    image : Image
        The model.
    base : int
        Address of the image.

    Attributes
    ----------
    golden : GoldenDevice
        The mirror; its registers are yet to be set.
    history : History
        What was asked of both, for a replica to do again.
    """

    def __init__(self, device: Device, image: Image, base: int):
        self.device, self.image, self.base = device, image, base
        self.golden = GoldenDevice(image.config, memory_bytes=image.total_bytes, memory_base=base)
        self.history = History()
        # Nothing may depend on it, but bytes that nobody writes must compare equal.
        rest = base + image.content.size
        self.golden.write_memory(base, image.content)
        self.golden.write_memory(rest, device.known_memory(
            rest, image.total_bytes - image.content.size))

    def wrote(self, addr: int, data: NDArray[np.uint8]) -> None:
        """Remember what is written to both memories."""
        self.history.steps.append((addr, data))

    def compare(self, run: Run) -> Finding | None:
        """The first difference in memory after a run."""
        image, golden = self.image, self.golden
        following = run.position + run.positions
        end = following + run.passes - 1
        found = None
        at = self.base + image.regions["cache"].begin
        cache = golden.read_memory(at, image.cache.size(end))
        if not self.device.holds(at, cache):
            found = cache_difference(image, self.device.read_memory(at, cache.size), cache,
                                     [run.position, *range(following, end)])
        has_tokens = run.head or run.passes > 1
        if found is None and run.logits and has_tokens:
            at, size = self.base + image.regions["logits"].begin, 4 * image.shape.vocab
            logits = golden.read_memory(at, size)
            if not self.device.holds(at, logits):
                found = logits_difference(image, self.device.read_memory(at, size), logits,
                                          run.passes - 1)
        if found is None and has_tokens:
            at = self.base + image.regions["tokens"].begin + 4 * following
            pair = [each.read_memory(at, 4 * run.passes).view("<u4").tolist()
                    for each in (self.device, golden)]
            # Without the head, the first pass leaves what the host wrote: equal as well.
            found = token_difference(image, *pair)
        return found

    def localise(self, run: Run, found: Finding, progress: Callable[[int], None] | None = None
                 ) -> str:
        """Make all runs again on a replica, and name what went wrong before memory differed."""
        replica = self.device.replica()
        if replica is None:
            return str(found)
        with replica:
            replica.write_memory(self.base, self.image.content)
            configure(replica, self.image, self.base)
            recording = self.history.repeat(replica, progress)
        first = PassScalars(position=run.position, positions=run.positions, head=run.head)
        later = [PassScalars(position=run.position + run.positions + index, positions=1, head=True)
                 for index in range(run.passes - 1)]
        walk = Walk(self.image, recording, [first, *later])
        # The golden device repeats the run, too: it finds and leaves the same memory.
        self.golden.machine.trace = walk
        try:
            run.make(self.golden)
        finally:
            self.golden.machine.trace = None
        if walk.found is None or (walk.found.turn, walk.found.instruction) > (
                found.turn, found.instruction):
            return f"{found}; everything before that is equal"
        return f"{walk.found}; in memory, {found}"

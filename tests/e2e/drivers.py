"""One conversation through either driver of the simulated device: compiled loop, or cocotb."""

import hashlib
from typing import Any

import numpy as np

from headrace.hw.regmap import COUNTERS
from headrace.sim.device import SimDevice
from headrace.sw.compiler import Image

from .machines import BOUND, GUARD, TINY, WatchedSession, demo, ids, synthetic


__all__ = ["BASE", "IMAGES", "PASS_FIGURES", "PROMPTS", "Conversation", "converse", "memory_bytes"]


BASE = 1 << 20

#: Heads so large that a part of the cache does not fit into the buffer on chip.
IMAGES = {"demo": lambda: demo(TINY), "large heads": lambda: synthetic(TINY, head_dim=64)}
PROMPTS = {"demo": [1, 454, 455, 324, 437], "large heads": ids(35, seed=3)}

#: What a run must report alike under both drivers.
PASS_FIGURES = ("kind", "positions", "context", "cycles", "bytes_read", "bytes_written", "kv_hits",
                "kv_misses", "stalls")


def memory_bytes(image: Image) -> int:
    """Memory for an image between two guards."""
    return GUARD + -(-image.total_bytes // 4096) * 4096 + GUARD


class Conversation(WatchedSession):
    """A watched session that keeps every counter after every run."""

    def __init__(self, device: SimDevice, image: Image, **options):
        self.counters: list[dict[str, int]] = []
        super().__init__(device, image, **options)

    def _run(self, kind: str, positions: int, passes: int, *, head: bool, logits: bool) -> None:
        super()._run(kind, positions, passes, head=head, logits=logits)
        self.counters.append({name: self.device.read_counter(name) for name in COUNTERS})


def converse(device: SimDevice, image: Image, prompt: list[int], tokens: int, *,
             chunk: int | None = None, passes: int = 1) -> dict[str, Any]:
    """Talk, and return all that must not depend on the driver, as JSON values.

    Every run is compared with the golden machine and with the traffic that the image announces.
    """
    before = device.simulation.cycles
    session = Conversation(device, image, base=BASE + GUARD, chunk=chunk, passes_per_run=passes,
                           check=True, max_cycles=BOUND)
    found = [session.prefill(prompt, logits=True)]
    logits = [session.logits().tolist()]
    while len(found) < tokens:
        found += session.decode(min(passes, tokens - len(found)), logits=True)
        logits.append(session.logits().tolist())
    assert session.verdict == "bit-exact"
    return {
        "tokens": found,
        "logits": logits,
        "cache": hashlib.sha256(session.cache_bytes()).hexdigest(),
        "passes": [{name: entry[name] for name in PASS_FIGURES}
                   for entry in session.report()["passes"]],
        "counters": session.counters,
        # Accesses to registers are cycles, too.
        "cycles": device.simulation.cycles - before,
        "memory": hashlib.sha256(np.ascontiguousarray(device.memory)).hexdigest(),
    }

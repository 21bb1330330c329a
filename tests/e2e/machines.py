"""Machines, models and the watched driver of the end-to-end tests."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.hw.config import PRESETS, Config, load_config
from headrace.hw.regmap import COUNTERS
from headrace.sim.device import SimDevice
from headrace.sim.generation import device_verilog
from headrace.sim.memory import MemoryOptions
from headrace.sw.checkpoint import ModelShape, SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import Image, Traffic, compile_model
from headrace.sw.driver import Session
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.quantiser import Policy
from tests.sw.models import cache_elements


TINY = PRESETS["tiny"]
ODD = load_config(str(Path(__file__).parent / "3x5.toml"))

#: Content of the on-chip memories when the simulation begins: nothing may depend on it.
FILLS: dict[str, str | int] = {"3x5": "ones"}

#: Guard bytes behind the image.
GUARD = 4096

#: Cycles that a pass of any model here stays far below.
BOUND = 3_000_000

ENGINES = ("port", "matmul", "vector", "softmax")


@functools.cache
def verilog(config: Config, fill: str | int | None = None) -> str:
    """The device, its memories filled with random bits, or with ones for some."""
    return device_verilog(config, FILLS.get(config.name, 1) if fill is None else fill)


@functools.cache
def demo(config: Config, context: int | None = None) -> Image:
    """The built-in model."""
    return compile_model(load_checkpoint("demo"), config, context=context)


def shape(**changes) -> ModelShape:
    """Two layers, grouped queries, an FFN that is no multiple of anything, an odd vocabulary."""
    values = {"dim": 48, "ffn": 44, "layers": 2, "vocab": 37, "heads": 4, "kv_heads": 2,
              "head_dim": 16, "context": 80, "eps": 1e-5, "theta": 10000.0, "tied": True,
              **changes}
    return ModelShape(**values)


def synthetic(config: Config, *, seed: int = 0, policy: Policy | None = None, **changes) -> Image:
    """A small model with random weights."""
    return compile_model(SyntheticCheckpoint(shape(**changes), seed=seed), config, policy=policy)


def ids(count: int, vocab: int = 37, seed: int = 0) -> list[int]:
    """A random prompt."""
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()


class WatchedSession(Session):
    """A session that holds every run of a simulated device against what the image says."""

    def _run(self, kind: str, positions: int, passes: int, *, head: bool, logits: bool) -> None:
        begin, device = self.position, self.device
        assert isinstance(device, SimDevice)
        device.simulation.memory.reset_statistics()
        super()._run(kind, positions, passes, head=head, logits=logits)
        expected = self.image.expected_traffic(begin, positions, head, logits)
        for index in range(1, passes):
            expected.add(self.image.expected_traffic(begin + positions + index - 1, 1, True,
                                                     logits))
        found = {name: device.read_counter(name) for name in COUNTERS}
        wanted = expected.counters()
        assert {name: found[name] for name in wanted} == wanted
        for engine in ENGINES:
            states = [name for name in COUNTERS if name.startswith(f"{engine}_")]
            assert sum(found[name] for name in states) == found["cycles"] > 0, engine
        self._check_bus(expected)

    def _check_bus(self, expected: Traffic) -> None:
        """The memory has counted the same bytes; on the bus, scales are part of the weights."""
        assert isinstance(self.device, SimDevice)
        bus = self.device.simulation.statistics
        together = {**expected.read, "scales": 0,
                    "weights": expected.read["weights"] + expected.read["scales"]}
        assert bus["read"]["bytes"] == together
        assert bus["write"]["bytes"] == expected.written
        assert bus["read"]["errors"] == bus["write"]["errors"] == 0
        assert bus["read"]["outstanding"] == bus["write"]["outstanding"] == 0


@dataclass(frozen=True)
class Outcome:
    """Everything that a conversation computes.

    Attributes
    ----------
    tokens : list of int
        Generated ids.
    logits : list of bytes
        The region of the logits after each run.
    cache : array ``[layer, head, token, byte]``
        Keys, values and their scales, in the order of no configuration.
    cycles : int or None
        Cycles of all passes.
    """

    tokens: list[int]
    logits: list[bytes]
    cache: np.ndarray
    cycles: int | None

    def same(self, other: "Outcome") -> bool:
        """Whether no bit differs."""
        return (self.tokens == other.tokens and self.logits == other.logits
                and np.array_equal(self.cache, other.cache))


def _converse(session: Session, prompt: Sequence[int], tokens: int) -> Outcome:
    token = session.prefill(prompt, logits=True)
    found, logits = [token], [session.logits().tobytes()]
    left = tokens - 1
    while left:
        found += session.decode(min(left, session.passes_per_run), logits=True)
        logits.append(session.logits().tobytes())
        left = tokens - len(found)
    return Outcome(found, logits, cache_elements(session.image, session),
                   session.report()["totals"]["cycles"])


def on_golden(image: Image, prompt: Sequence[int], tokens: int, *, chunk: int | None = None,
              fill: int = 0xff, passes: int = 1) -> Outcome:
    """Let the golden machine talk."""
    with GoldenDevice(image.config, memory_bytes=image.total_bytes, fill=fill) as device:
        return _converse(Session(device, image, chunk=chunk, passes_per_run=passes), prompt,
                         tokens)


def on_rtl(image: Image, prompt: Sequence[int], tokens: int, *, chunk: int | None = None,
           passes: int = 1, options: MemoryOptions | None = None,
           fill: int | np.random.Generator = 0xff, sram: str | int | None = None) -> Outcome:
    """Let the simulated RTL talk, checked against the golden machine and the image in every run.

    The image lies in the middle of a memory full of garbage, and nothing beside it may change.
    """
    base = 1 << 20
    size = GUARD + -(-image.total_bytes // 4096) * 4096 + GUARD
    options = options or MemoryOptions(latency=20, max_burst_beats=image.config.burst_beats)
    with SimDevice(image.config, verilog(image.config, sram), options, memory_bytes=size,
                   memory_base=base, fill=fill) as device:
        end = GUARD + image.total_bytes
        before = (device.memory[:GUARD].copy(), device.memory[end:].copy())
        session = WatchedSession(device, image, base=base + GUARD, chunk=chunk,
                                 passes_per_run=passes, check=True, max_cycles=BOUND)
        outcome = _converse(session, prompt, tokens)
        assert session.verdict == "bit-exact"
        content = device.memory[GUARD:GUARD + image.content.size]
        assert np.array_equal(content, image.content), "the device has changed its own program"
        assert np.array_equal(device.memory[:GUARD], before[0]), "bytes before the image changed"
        assert np.array_equal(device.memory[end:], before[1]), "bytes behind the image changed"
    return outcome

"""Measurement of one case: every figure comes from the counters of the device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.hw.config import Config
from headrace.hw.isa import INSTRUCTION_BYTES, Format, Op

from ..checkpoint import SyntheticCheckpoint, Weights, load_checkpoint
from ..compiler import Image, compile_model
from ..device import Device
from ..driver import Session
from ..quantiser import Policy
from .history import random_cache
from .workloads import Case, Workload


__all__ = ["Measurement", "measure", "shortened"]


#: Opens a machine for an image.
Opener = Callable[[Image], Device]


def shortened(image: Image, repeat: int) -> Image:
    """The image of a model whose layers are executed `repeat` times, executing them once less."""
    program = image.program
    # Behind the layers, the output layer or END; before them, EMBED.
    tail = next(index for index, code in enumerate(program)
                if code["head"] or code["op"] == Op.END)
    layers = (tail - 1) // repeat * INSTRUCTION_BYTES
    begin, first = image.regions["program"].begin, INSTRUCTION_BYTES
    content = image.content.copy()
    size = len(program) * INSTRUCTION_BYTES - layers
    content[begin + first:begin + size] = image.content[begin + first + layers:
                                                        begin + size + layers]
    content[begin + size:begin + size + layers] = 0
    return replace(image, content=content, instructions=size // INSTRUCTION_BYTES)


def _sum(passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the figures of passes, dictionaries key by key; what is None stays None."""
    first, *others = passes
    for each in others:
        first = _combine(first, each, 1)
    return first


def _combine(one: Mapping[str, Any], other: Mapping[str, Any], sign: int) -> dict[str, Any]:
    result = {}
    for key, value in one.items():
        if isinstance(value, Mapping):
            result[key] = _combine(value, other[key], sign)
        else:
            result[key] = None if value is None else value + sign * other[key]
    return result


#: Figures of a pass that can be added and subtracted.
_COUNTED = ("cycles", "bytes_read", "bytes_written", "macs_counted", "kv_hits", "kv_misses",
            "stalls", "busy")


def _repeat(case: Case) -> int:
    """Executions of a layer in the longer of its two runs."""
    return 2 if case.kind == "decode" else 1


@dataclass
class Measurement:
    """One configuration's measurements.

    Compiled images and the checkpoint of a workload are kept until the next workload or format.

    Parameters
    ----------
    config : Config
        The machine.
    opener : callable
        Opens a device for an image.
    memory : str
        Name of the memory, for the rows.
    check : bool
        Compare with the golden machine.
    progress : callable, optional
        Called with a text now and then.
    """

    config: Config
    opener: Opener
    memory: str = "ideal"
    check: bool = False
    progress: Callable[[str], None] = lambda text: None
    _kept: tuple[Any, Image | None] = field(default=(None, None), repr=False)

    def row(self, workload: Workload, case: Case, weights: str) -> dict[str, Any]:
        """Measure one case, see :func:`measure`."""
        image = self._image(workload, case, weights)
        title = (f"{case.workload} {case.kind} {case.context} on {self.config.name}, {weights}, "
                 f"{self.memory}")
        if workload.part == "layer":
            # The layers once more, each run with the same begin and end of its passes.
            runs = [self._run(each, case, title, head=True)
                    for each in (image, shortened(image, _repeat(case)))]
        elif workload.part == "head":
            runs = [self._run(image, case, title, head=head) for head in (True, False)]
        else:
            runs = [self._run(image, case, title, head=True)]
        counted = runs[0][0]
        for other, _ in runs[1:]:
            counted = _combine(counted, other, -1)
        macs, least = self._need(workload, case, image)
        cycles, config = counted["cycles"], self.config
        return {
            "workload": case.workload, "kind": case.kind, "context": case.context,
            "positions": case.positions, "config": config.name, "weights": weights,
            "memory": self.memory, "chunk": (1 if case.kind == "decode" else
                                          max(Session.passes(image, case.positions))), **counted,
            "macs": macs, "least_bytes": least,
            "port_utilisation": least / (cycles * config.port_bytes) if cycles else None,
            "array_utilisation": macs / (cycles * config.rows * config.cols) if cycles else None,
            "stream_waste": image.stream_waste,
            "simulated_hz": runs[0][1].device.simulated_hz,
            "check": runs[0][1].verdict,
        }

    def _image(self, workload: Workload, case: Case, weights: str) -> Image:
        repeat = _repeat(case) if workload.part == "layer" else 1
        context = case.context + case.positions
        key = (workload, context, repeat, weights)
        if self._kept[0] != key:
            checkpoint: Weights = (load_checkpoint("demo") if workload.shape is None else
                                   SyntheticCheckpoint(workload.shape, name=workload.name))
            self._kept = (None, None)
            self._kept = key, compile_model(
                checkpoint, self.config, policy=Policy(default=Format[weights.upper()]),
                context=context, repeat=repeat,
                progress=lambda name: self.progress(f"{workload.name}: compiling {name}"))
        image = self._kept[1]
        assert image is not None
        # A history is written to memory, where the KV buffer does not see it.
        return replace(image, kv_pinned=0) if self._history(workload, case) else image

    @staticmethod
    def _history(workload: Workload, case: Case) -> bool:
        return workload.part == "layer" and case.kind == "decode" and case.context > 1

    def _run(self, image: Image, case: Case, title: str, *, head: bool
             ) -> tuple[dict[str, Any], Session]:
        """Make the passes of a case; return the sum of their figures."""
        rng = np.random.default_rng(case.context)
        with self.opener(image) as device:
            session = Session(device, image, check=self.check, progress=lambda cycles:
                              self.progress(f"{title}: {cycles:,} cycles"))
            before = case.context - case.positions if image.kv_pinned == 0 else 0
            if case.kind == "decode" and case.positions > 1:
                # Tokens follow from a prompt that is not counted.
                session.prefill(rng.integers(3, image.shape.vocab, case.context - 1).tolist())
                skip = len(session.statistics.passes)
                session.passes_per_run = case.positions
                session.decode(case.positions)
            else:
                if case.kind == "decode" and before:
                    session.load_history(random_cache(image, before), before)
                skip = 0
                ids = rng.integers(3, image.shape.vocab, case.positions).tolist()
                session.prefill(ids, head=head)
            passes = session.statistics.passes[skip:]
        return _sum([{key: each[key] for key in _COUNTED} for each in passes]), session

    def _need(self, workload: Workload, case: Case, image: Image) -> tuple[int, int]:
        """Multiplications and bytes that the measured part needs, whatever the machine."""
        def need(position: int, positions: int, head: bool) -> tuple[int, int]:
            return (image.useful_macs(position, positions, head),
                    image.least_bytes(position, positions, head))

        if workload.part == "head":
            both = zip(need(0, 1, True), need(0, 1, False))
            macs, least = (one - other for one, other in both)
            return macs, least
        whole = workload.part == "model"
        if case.kind == "decode":
            spans = [(case.context - 1 + index, 1) for index in range(case.positions)]
        else:
            spans = _spans(image, case.positions)
        needs = [need(position, count, whole and (case.kind == "decode" or span == len(spans) - 1))
                 for span, (position, count) in enumerate(spans)]
        return sum(macs for macs, _ in needs), sum(least for _, least in needs)


def _spans(image: Image, positions: int) -> list[tuple[int, int]]:
    """Position and count of each pass of a prefill, as the driver makes them."""
    spans, begin = [], 0
    for count in Session.passes(image, positions):
        spans.append((begin, count))
        begin += count
    return spans


def measure(workload: Workload, case: Case, weights: str, measurement: Measurement
            ) -> dict[str, Any]:
    """Measure one case.

    A layer is the difference of two runs on the same memory: passes that execute it twice and
    once in decode, once and not at all in prefill, which takes long; each with embedding, a small
    output layer and END. What begins and ends a pass is in both, so the figure is that of a layer
    among others. An output layer is the difference of a pass with it and one without. The
    built-in model is measured whole.

    Parameters
    ----------
    workload, case
        What to run.
    weights : str
        ``"w8"``, ``"w4"`` or ``"w4a"``.
    measurement : Measurement
        Where.

    Returns
    -------
    dict
        A row of ``headrace bench --json``.

    Raises
    ------
    Difference
        If device and golden machine differ.
    """
    return measurement.row(workload, case, weights)

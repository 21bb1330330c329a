"""Measurement of one case: every figure comes from the counters of the device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.hw.config import Config
from headrace.hw.isa import Format

from ..checkpoint import SyntheticCheckpoint, Weights, load_checkpoint
from ..compiler import Image, compile_model
from ..device import Device
from ..quantiser import Policy
from .history import random_cache
from .programs import MATRICES, arranged, single
from .session import CountedSession
from .workloads import Case, Workload


__all__ = ["Measurement", "measure"]


#: Opens a machine for an image, beside a memory.
Opener = Callable[[Image, str], Device]


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


def _repeat(workload: Workload, case: Case) -> int:
    """Executions of the layer in the longer of its two runs."""
    return 2 if workload.part == "layer" and case.kind == "decode" else 1


@dataclass
class Measurement:
    """One configuration's measurements.

    The compiled image of a workload is kept until the next workload or format.

    Parameters
    ----------
    config : Config
        The machine.
    opener : callable
        Opens a device for an image, beside a memory of that name.
    sequential : callable, optional
        Cycles in which a memory of that name gives so many bytes to a plain sequential reader.
    check : bool
        Compare with the golden machine.
    progress : callable, optional
        Called with a text now and then.
    """

    config: Config
    opener: Opener
    sequential: Callable[[str, int], int] | None = None
    check: bool = False
    progress: Callable[[str], None] = lambda text: None
    _kept: tuple[Any, Image | None] = field(default=(None, None), repr=False)

    def row(self, workload: Workload, case: Case, weights: str, memory: str = "ideal"
            ) -> dict[str, Any]:
        """Measure one case, see :func:`measure`."""
        image = self._image(workload, case, weights)
        title = case.title(self.config.name, weights, memory)
        run = _Runs(self, case, memory, title)
        repeat = _repeat(workload, case)
        if workload.part == "layer":
            # The layers once more, each run with the same begin and end of its passes.
            runs = [run(arranged(image, layers=count, repeat=repeat))
                    for count in (repeat, repeat - 1)]
        elif workload.part == "head":
            # The output layer once more, behind another one: all that begins and ends a pass is
            # in both, and what is read ahead as well.
            runs = [run(arranged(image, layers=0, heads=count)) for count in (2, 1)]
        else:
            runs = [run(image)]
        counted = runs[0][0]
        for other, _ in runs[1:]:
            counted = _combine(counted, other, -1)
        macs, least = self._need(workload, case, image)
        cycles, config = counted["cycles"], self.config
        sequential = self.sequential(memory, least) if self.sequential else None
        row = {
            "workload": case.workload, "kind": case.kind, "context": case.context,
            "positions": case.positions, "config": config.name, "weights": weights,
            "memory": memory, "chunk": (1 if case.kind == "decode" else
                                        max(CountedSession.passes(image, case.positions))),
            **counted, "macs": macs, "least_bytes": least,
            "port_utilisation": least / (cycles * config.port_bytes) if cycles else None,
            "array_utilisation": macs / (cycles * config.rows * config.cols) if cycles else None,
            "stream_waste": image.stream_waste,
            "sequential_cycles": sequential,
            "of_sequential": sequential / cycles if sequential and cycles else None,
            "simulated_hz": runs[0][1].device.simulated_hz,
            "check": runs[0][1].verdict,
        }
        if workload.part == "layer" and case.kind == "prefill":
            row["matrices"] = self._matrices(run, image, row["chunk"])
        return row

    def _matrices(self, run: "_Runs", image: Image, positions: int) -> dict[str, float | None]:
        """Array utilisation inside each product of the first pass: from when the matmul unit has
        both its command and its activations until it has nothing left to do."""
        cells = self.config.rows * self.config.cols
        found: dict[str, float | None] = {}
        needs = {need.name: need for need in image.matrix_needs()}
        for name in MATRICES:
            counted, _ = run(single(image, name), positions=positions, head=False,
                             check=False)
            stalls = counted["stalls"]
            inside = counted["busy"].get("matmul", 0) + sum(
                stalls.get(f"matmul_wait_{cause}", 0)
                for cause in ("weights", "softmax", "accumulator"))
            found[name] = needs[name].macs * positions / (inside * cells) if inside else None
        return found

    def _image(self, workload: Workload, case: Case, weights: str) -> Image:
        repeat = _repeat(workload, case)
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
    for count in CountedSession.passes(image, positions):
        spans.append((begin, count))
        begin += count
    return spans


@dataclass
class _Runs:
    """Makes the passes of a case."""

    measurement: Measurement
    case: Case
    memory: str
    title: str

    def __call__(self, image: Image, *, positions: int | None = None, head: bool = True,
                 check: bool = True) -> tuple[dict[str, Any], CountedSession]:
        """Run an image; return the sum of the figures of the passes.

        With `positions`, a prefill of so many in place of the case's. `check` False leaves out the
        golden machine.
        """
        case, measurement = self.case, self.measurement
        rng = np.random.default_rng(case.context)
        with measurement.opener(image, self.memory) as device:
            session = CountedSession(
                device, image, check=measurement.check and check, progress=lambda cycles:
                measurement.progress(f"{self.title}: {cycles:,} cycles"))
            skip = 0
            if case.kind == "decode" and case.positions > 1:
                # Tokens follow from a prompt that is not counted.
                session.prefill(rng.integers(3, image.shape.vocab, case.context - 1).tolist())
                skip = len(session.statistics.passes)
                session.passes_per_run = case.positions
                session.decode(case.positions)
            else:
                before = case.context - case.positions if image.kv_pinned == 0 else 0
                if case.kind == "decode" and before:
                    session.load_history(random_cache(image, before), before)
                ids = rng.integers(3, image.shape.vocab, positions or case.positions).tolist()
                session.prefill(ids, head=head)
            passes = session.statistics.passes[skip:]
        return _sum([{key: each[key] for key in _COUNTED} for each in passes]), session


def measure(workload: Workload, case: Case, weights: str, measurement: Measurement,
            memory: str = "ideal") -> dict[str, Any]:
    """Measure one case.

    A layer is the difference of two runs on the same memory: passes that execute it once more and
    once less (`Workload.executions`; in prefill once and not at all), each with embedding, a small
    output layer and END. What begins and ends a pass is in both, so the figure is that of a layer
    among others. An output layer is the difference of a pass that executes it twice and one that
    does it once. The built-in model is measured whole. In prefill of a layer each of its matrices
    also has a run of its own.

    Parameters
    ----------
    workload, case
        What to run.
    weights : str
        ``"w8"``, ``"w4"`` or ``"w4a"``.
    measurement : Measurement
        Where.
    memory : str
        Beside which memory, a name that its opener knows.

    Returns
    -------
    dict
        A row of ``headrace bench --json``.

    Raises
    ------
    HeadraceError
        If device and golden machine differ (:class:`Difference`), or counters do not add up.
    """
    return measurement.row(workload, case, weights, memory)

"""Joins what a device recorded with the instructions of its runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.hw.activity import READ_TRACKS, TRACKS
from headrace.hw.isa import ENGINES, Op

from ..compiler import Image
from ..compiler.traffic import Traffic, instruction_traffic, program_traffic
from ..device import Device
from ..statistics import Span
from .activity import Activity
from .labels import BETWEEN, Label, labels


__all__ = ["Operation", "Trace", "Tracer"]


@dataclass(frozen=True)
class Operation:
    """An instruction on one engine: cycles ``begin ... end - 1``.

    Attributes
    ----------
    track : str
        One of `TRACKS`.
    turn : int
        Number of the pass, from the beginning of the session.
    label : Label or None
        The instruction; None for the fetch of a program.
    """

    track: str
    turn: int
    label: Label | None
    begin: int
    end: int


@dataclass(frozen=True)
class Trace:
    """What happened in all passes of a session.

    Attributes
    ----------
    image : Image
        The model.
    activity : Activity
        Sums by interval.
    spans : list of Span
        The passes.
    bounds : list of int
        First cycle of each pass, and the number of cycles in all.
    operations : list of Operation
        Instructions of all engines, by track, then in order.
    """

    image: Image
    activity: Activity
    spans: list[Span]
    bounds: list[int]
    operations: list[Operation]

    @cached_property
    def charged(self) -> dict[tuple[str, int | None, str], int]:
        """Cycles by kind of pass, layer and operation; together they are all cycles.

        The array does the operations of a pass one after the other. Each is charged from the end
        of the one before to its own end, so that what delayed it counts for it; what is before
        the first and after the last operation of a pass is between operations.
        """
        found: dict[tuple[str, int | None, str], int] = {}
        by_turn: dict[int, list[Operation]] = {}
        for each in self.operations:
            if each.track == "matmul":
                by_turn.setdefault(each.turn, []).append(each)
        for turn, span in enumerate(self.spans):
            rest = self.bounds[turn + 1] - self.bounds[turn]
            done = None
            for each in by_turn.get(turn, ()):
                assert each.label is not None
                key = (span.kind, each.label.layer, each.label.operation)
                cycles = each.end - (each.begin if done is None else done)
                found[key] = found.get(key, 0) + cycles
                done, rest = each.end, rest - cycles
            key = (span.kind, None, BETWEEN)
            found[key] = found.get(key, 0) + rest
        return found


class Tracer:
    """Records all runs of a session.

    Parameters
    ----------
    device : Device
        An opened device that records activity.
    image : Image
        The model that it runs.

    Raises
    ------
    HeadraceError
        If the device cannot record.
    """

    def __init__(self, device: Device, image: Image):
        self._device, self._image = device, image
        self._labels = labels(image)
        self._keys: dict[str, list[tuple[int, Label | None]]] = {name: [] for name in TRACKS}
        self._turns = 0
        device.begin_activity()

    def begin(self, spans: Iterable[Span]) -> None:
        """Before a run of these passes."""
        image, beat = self._image, self._image.config.port_bytes
        beats: dict[str, list[int]] = {name: [] for name in READ_TRACKS}

        def put(track: str, label: Label | None, size: int) -> None:
            beats[track].append(size // beat)
            self._keys[track].append((self._turns, label))

        fetch = program_traffic(image.config, image.instructions).read["program"]
        for span in spans:
            put("program", None, fetch)
            for label, code in zip(self._labels, image.program):
                self._keys["sequencer"].append((self._turns, label))
                if code["head"] and not span.head:
                    continue
                moved = self._traffic(code, span)
                if label.op in (Op.MATMUL, Op.ATTN):
                    self._keys["matmul"].append((self._turns, label))
                    put("stream", label, moved.read["weights"] + moved.read["scales"]
                        + moved.kv_hits + moved.kv_misses)
                elif label.op == Op.EMBED:
                    put("requests", label, sum(moved.read.values()))
                elif moved.read["tables"]:
                    put("tables", label, moved.read["tables"])
                if "vector" in ENGINES[label.op]:
                    self._keys["vector"].append((self._turns, label))
            self._turns += 1
        self._device.plan_activity(beats)

    def _traffic(self, code: dict[str, int], span: Span) -> Traffic:
        image = self._image
        return instruction_traffic(
            image.config, code, position=span.position, positions=span.positions,
            logits=span.logits, kv_base=image.regions["cache"].unit, kv_pinned=image.kv_pinned)

    def end(self) -> int:
        """After a run; return the cycles since the beginning."""
        return self._device.settle_activity()

    def trace(self, spans: list[Span], cycles: list[int]) -> Trace:
        """Everything so far; `cycles` are those of each pass."""
        activity = self._device.read_activity()
        bounds = [0, *np.cumsum(cycles).tolist()]
        operations = []
        for track in TRACKS:
            keys, marks = self._keys[track], activity.marks[track]
            assert len(keys) == len(marks) or activity.dropped, (track, len(keys), len(marks))
            operations += [Operation(track, turn, label, begin, end)
                           for (turn, label), (begin, end) in zip(keys, marks.tolist())]
        return Trace(self._image, activity, spans, bounds, operations)

"""Timeline of a pass: instructions on each engine, and how busy the engines are."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ..trace import BETWEEN, Operation, Trace
from .svg import CLASS_OF, element


__all__ = ["Lane", "Timeline", "timeline"]


#: Width of a lane in units of its own; it is stretched to the width of the page.
WIDTH = 1000

_LANES = (
    ("memory port: weights, cache", ("stream",)),
    ("memory port: the rest", ("program", "requests", "tables")),
    ("matmul", ("matmul",)),
    ("vector", ("vector",)),
    ("sequencer", ("sequencer",)),
)
_BUSY = ("port", "matmul", "vector", "softmax", "write")


@dataclass(frozen=True)
class Lane:
    """One row of the picture."""

    title: str
    picture: Markup


@dataclass(frozen=True)
class Timeline:
    """A pass: its kind and position, lanes, ticks of the time axis, and the numbers.

    `rows` has one entry for each instruction of the array: name, layer, first cycle of its reads
    and their end, first cycle on the array and its end; all from the beginning of the pass.
    """

    turn: int
    kind: str
    title: str
    cycles: int
    instructions: list[Lane]
    busy: list[Lane]
    ticks: list[str]
    rows: list[tuple[str, int | None, int, int, int, int]]


def _name(each: Operation) -> str:
    return "fetch" if each.label is None else each.label.name


def _slices(operations: Iterable[Operation], begin: int, cycles: int, title: str) -> Markup:
    parts = [element("title", title)]
    for each in operations:
        first, last = max(each.begin - begin, 0), min(each.end - begin, cycles)
        operation = BETWEEN if each.label is None else each.label.operation
        about = element("title", f"{_name(each)}: cycles {first:,} to {last:,}")
        # Thin ones stay visible.
        parts.append(element("rect", about, x=WIDTH * first / cycles, y=0, height=10,
                             width=max(0.4, WIDTH * (last - first) / cycles),
                             cls=CLASS_OF[operation]))
    return element("svg", Markup("").join(parts), viewBox=f"0 0 {WIDTH} 10", role="img",
                   preserveAspectRatio="none", aria_label=title, cls="lane")


def _busy(trace: Trace, engine: str, begin: int, end: int) -> Markup:
    """Share of busy cycles of each interval, as steps."""
    activity = trace.activity
    first, last = begin // activity.width, -(-end // activity.width)
    busy = activity.column(f"{engine}_busy")[first:last] / activity.lengths()[first:last]
    steps = []
    for index, share in enumerate(busy.tolist(), start=first):
        left, right = (WIDTH * (np.clip(at * activity.width, begin, end) - begin) / (end - begin)
                       for at in (index, index + 1))
        steps.append(f"L{left:.1f} {10 - 10 * share:.2f} L{right:.1f} {10 - 10 * share:.2f}")
    title = f"{engine}: share of busy cycles over the pass"
    path = element("path", d=f"M0 10 {' '.join(steps)} L{WIDTH} 10 Z", cls="busy")
    return element("svg", element("title", title) + path, viewBox=f"0 0 {WIDTH} 10", role="img",
                   preserveAspectRatio="none", aria_label=title, cls="lane")


def timeline(trace: Trace, turn: int) -> Timeline:
    """The timeline of one pass."""
    begin, end = trace.bounds[turn:turn + 2]
    span, cycles = trace.spans[turn], end - begin
    # Reads for a pass may begin while the one before ends.
    seen = [each for each in trace.operations if begin < each.end and each.begin < end]
    # A program is fetched over most of the pass: other reads are drawn over it.
    lanes = [Lane(title, _slices((each for track in tracks for each in seen if each.track == track),
                                 begin, cycles, f"{title}: instructions of the pass"))
             for title, tracks in _LANES]
    reads = {each.label.index: each for each in trace.operations
             if each.turn == turn and each.track == "stream" and each.label}
    rows = []
    for each in trace.operations:
        if each.turn == turn and each.track == "matmul" and each.label is not None:
            read = reads.get(each.label.index, each)
            rows.append((each.label.name, each.label.layer, read.begin - begin, read.end - begin,
                         each.begin - begin, each.end - begin))
    positions = (f"position {span.position}" if span.positions == 1 else
                 f"positions {span.position} to {span.position + span.positions - 1}")
    return Timeline(turn, span.kind, f"{span.kind}, {positions}", cycles, lanes,
                    [Lane(engine, _busy(trace, engine, begin, end)) for engine in _BUSY],
                    [f"{round(cycles * part / 4):,}" for part in range(5)], rows)

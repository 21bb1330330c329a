"""How often what is read is used: of each pass, of each layer, of each operation."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.hw.config import CLASSES, KV_BLOCK

from .compiler import Image, Traffic, instruction_traffic
from .compiler.traffic import program_traffic
from .statistics import Span
from .trace.labels import BETWEEN, OPERATIONS, labels


__all__ = ["Key", "locality"]


#: Kind of pass, layer, operation.
Key = tuple[str, int | None, str]


class _Sum:
    """What the passes of a kind do in one layer and operation."""

    def __init__(self):
        self.traffic = Traffic()
        self.least_bytes = self.macs = self.matrix_macs = 0

    def add(self, other: "_Sum") -> None:
        self.traffic.add(other.traffic)
        self.least_bytes += other.least_bytes
        self.macs += other.macs
        self.matrix_macs += other.matrix_macs


def _moved(image: Image, spans: Sequence[Span]) -> dict[Key, _Sum]:
    """What every instruction moves, and what the model needs, by kind, layer and operation."""
    found: dict[Key, _Sum] = {}

    def at(kind: str, layer: int | None, operation: str) -> _Sum:
        return found.setdefault((kind, layer, operation), _Sum())

    shape, program, named = image.shape, image.program, labels(image)
    pinned = image.kv_pinned / image.cache.pitch_units * KV_BLOCK
    for span in spans:
        at(span.kind, None, BETWEEN).traffic.add(program_traffic(image.config, len(program)))
        for code, label in zip(program, named):
            if span.head or not code["head"]:
                at(span.kind, label.layer, label.operation).traffic.add(instruction_traffic(
                    image.config, code, position=span.position, positions=span.positions,
                    logits=span.logits, kv_base=image.regions["cache"].unit,
                    kv_pinned=image.kv_pinned))
        for need in image.matrix_needs():
            if need.layer is None and not span.head:
                continue
            row = at(span.kind, need.layer, "q/k/v" if need.name in ("kv", "q") else
                     need.name.replace("_", "/"))
            row.least_bytes += need.bytes
            macs = need.macs * (1 if need.layer is None else span.positions)
            row.macs += macs
            row.matrix_macs += macs
        attended = span.positions * span.position + span.positions * (span.positions + 1) // 2
        cached = max(0.0, span.position - pinned) * shape.kv_heads * 2 * (shape.head_dim + 2)
        for layer in range(shape.layers):
            row = at(span.kind, layer, "attention")
            row.macs += 2 * attended * shape.heads * shape.head_dim
            row.least_bytes += round(cached)
    return found


def _row(total: _Sum, positions: int, cycles: int | None) -> dict[str, Any]:
    moved = total.traffic
    streamed = moved.read["weights"] + moved.read["scales"]
    scanned = moved.kv_hits + moved.kv_misses
    size = sum(moved.read.values()) + sum(moved.written.values())
    return {
        "macs": total.macs,
        "macs_per_weight_byte": total.matrix_macs / streamed if streamed else None,
        "kv_from_sram": moved.kv_hits, "kv_from_memory": moved.kv_misses,
        "kv_hit_rate": moved.kv_hits / scanned if scanned else None,
        "bytes_read": {name: moved.read[name] for name in CLASSES},
        "bytes_written": {name: moved.written[name] for name in CLASSES},
        "bytes": size, "least_bytes": total.least_bytes,
        "bytes_per_token": size / positions, "least_bytes_per_token": total.least_bytes / positions,
        "macs_per_byte": total.macs / size if size else None,
        "cycles": cycles,
        "macs_per_cycle": total.macs / cycles if cycles else None,
    }


def locality(image: Image, spans: Sequence[Span], cycles: Mapping[Key, int] | None = None
             ) -> dict[str, list[dict[str, Any]]]:
    """Figures under the names of ``headrace run --json``.

    Bytes are those that the instructions move, so they do not shift between passes as the
    counters of single passes do; their sums are the counters of the runs.

    Parameters
    ----------
    image : Image
        The model.
    spans : sequence of Span
        The passes.
    cycles : mapping of Key to int, optional
        Cycles by kind, layer and operation, where they were recorded.

    Returns
    -------
    dict
        ``layers``: one row for each kind of pass and layer, and one without a layer for the rest
        (embedding, output layer, end). ``operations``: one for each kind and operation, all layers
        together.
    """
    found = _moved(image, spans)
    positions = {kind: sum(span.positions for span in spans if span.kind == kind)
                 for kind in ("prefill", "decode")}

    def grouped(name: str, index: int, keys: Sequence[Any]) -> list[dict[str, Any]]:
        rows = []
        for kind, count in positions.items():
            for key in keys:
                total = _Sum()
                parts = [place for place in found if place[0] == kind and place[index] == key]
                for place in parts:
                    total.add(found[place])
                spent = None if cycles is None else sum(
                    value for place, value in cycles.items()
                    if place[0] == kind and place[index] == key)
                if parts:
                    rows.append({"kind": kind, name: key, **_row(total, count, spent)})
        return rows

    return {"layers": grouped("layer", 1, [*range(image.shape.layers), None]),
            "operations": grouped("operation", 2, OPERATIONS)}

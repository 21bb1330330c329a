"""Figures of every pass, from the records that the device leaves in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.hw.config import CLASSES
from headrace.hw.regmap import COUNTERS, RECORD_BYTES

from .compiler import Image
from .device import Device


__all__ = ["Span", "Statistics", "lost_cycles"]


#: Counters that name a cause of lost cycles.
STALLS = tuple(name for name in COUNTERS if "_wait_" in name or name == "port_buffer_full")


@dataclass(frozen=True, kw_only=True)
class Span:
    """One pass: prefill or decode, its positions, whether it computes and writes logits."""

    kind: str
    position: int
    positions: int
    head: bool
    logits: bool


class Statistics:
    """Collects figures of passes.

    Counters of a device run on from pass to pass of a run and are written at the END of each: a
    pass is the difference of two records. Reading ahead moves bytes to the pass before, and the
    record of a pass is written after it was taken; totals of a run come from the counters
    themselves, so they are exact.

    Parameters
    ----------
    image : Image
        The model that runs.

    Attributes
    ----------
    passes : list of dict
        One entry for each pass, under the names of ``headrace run --json``.
    spans : list of Span
        The same passes, as they were asked for.
    """

    def __init__(self, image: Image):
        self.image = image
        self.passes: list[dict[str, Any]] = []
        self.spans: list[Span] = []

    def add_run(self, device: Device, base: int, spans: list[Span]) -> None:
        """Add the passes of the run that has just ended."""
        passes = len(spans)
        region = self.image.regions["records"]
        raw = device.read_memory(base + region.begin, RECORD_BYTES * passes)
        records = raw.view("<u8").reshape(passes, -1)[:, :len(COUNTERS)].astype(np.int64)
        # What follows the last record (its own bytes) belongs to the last pass, too.
        records[-1] = [device.read_counter(name) for name in COUNTERS]
        before = np.zeros(len(COUNTERS), np.int64)
        for span, record in zip(spans, records):
            counters = dict(zip(COUNTERS, (record - before).tolist()))
            before = record
            self.passes.append({"kind": span.kind,
                                **self._pass(counters, span, device.has_cycles)})
        self.spans += spans

    def _pass(self, counters: dict[str, int], span: Span, has_cycles: bool) -> dict[str, Any]:
        config, image = self.image.config, self.image
        position, positions, head = span.position, span.positions, span.head
        cycles = counters["cycles"] if has_cycles else None
        least = image.least_bytes(position, positions, head)
        macs = image.useful_macs(position, positions, head)
        matrix_macs = sum(need.macs * (int(head) if need.layer is None else positions)
                          for need in image.matrix_needs())
        streamed = counters["read_weights"] + counters["read_scales"]
        scanned = counters["kv_hits"] + counters["kv_misses"]
        written = dict.fromkeys(CLASSES, 0)
        written |= {name: counters[f"written_{name}"] for name in ("kv", "activations")}
        return {
            "positions": positions,
            "context": position + positions,
            "cycles": cycles,
            "bytes_read": {name: counters[f"read_{name}"] for name in CLASSES},
            "bytes_written": written,
            "macs": macs,
            "macs_counted": counters["macs"] if has_cycles else None,
            "kv_hits": counters["kv_hits"],
            "kv_misses": counters["kv_misses"],
            "least_bytes": least,
            "macs_per_weight_byte": matrix_macs / streamed if streamed else None,
            "kv_hit_rate": counters["kv_hits"] / scanned if scanned else None,
            "bytes_per_token": (sum(counters[f"read_{name}"] for name in CLASSES)
                                + sum(written.values())) / positions,
            "least_bytes_per_token": least / positions,
            "port_utilisation": least / (cycles * config.port_bytes) if cycles else None,
            "array_utilisation": macs / (cycles * config.rows * config.cols) if cycles else None,
            "stalls": {name: counters[name] for name in STALLS} if has_cycles else {},
            "busy": {engine: counters[f"{engine}_busy"]
                     for engine in ("port", "matmul", "vector", "softmax")} if has_cycles else {},
        }

    def report(self) -> dict[str, Any]:
        """Passes, totals, and cycles to the first and to each further token."""
        prefill = [p["cycles"] for p in self.passes if p["kind"] == "prefill"]
        decode = [p["cycles"] for p in self.passes if p["kind"] == "decode"]
        timed = bool(self.passes) and self.passes[0]["cycles"] is not None
        return {
            "ttft_cycles": sum(prefill) if timed else None,
            "tpot_cycles": sum(decode) / len(decode) if timed and decode else None,
            "passes": self.passes,
            "totals": self._totals(timed),
        }

    def _totals(self, timed: bool) -> dict[str, Any]:
        config = self.image.config
        totals: dict[str, Any] = {"passes": len(self.passes)}
        for name in ("positions", "macs", "kv_hits", "kv_misses", "least_bytes"):
            totals[name] = sum(p[name] for p in self.passes)
        for name in ("bytes_read", "bytes_written"):
            totals[name] = {cls: sum(p[name][cls] for p in self.passes) for cls in CLASSES}
        totals["cycles"] = sum(p["cycles"] for p in self.passes) if timed else None
        for name in ("stalls", "busy"):
            keys = self.passes[0][name] if self.passes else {}
            totals[name] = {key: sum(p[name][key] for p in self.passes) for key in keys}
        cycles = totals["cycles"]
        totals["port_utilisation"] = (totals["least_bytes"] / (cycles * config.port_bytes)
                                      if cycles else None)
        totals["array_utilisation"] = (totals["macs"] / (cycles * config.rows * config.cols)
                                       if cycles else None)
        return totals


def lost_cycles(report: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Cycles in which an engine waited: ``(engine, cause, cycles)``, worst first."""
    rows = []
    for name, count in report["totals"]["stalls"].items():
        engine, cause = name.split("_", 1)
        if count:
            rows.append((engine, cause.removeprefix("wait_").replace("_", " "), count))
    return sorted(rows, key=lambda row: -row[2])

"""The file of a trace: Trace Event Format of Chrome, which Perfetto reads."""

from typing import Any

from headrace.hw.activity import STATES, TRACKS
from headrace.hw.config import CLASSES

from .tracer import Operation, Trace


__all__ = ["chrome_trace"]


_INSTRUCTIONS, _OCCUPANCY = 1, 2

#: Titles of the tracks, after the one of the passes.
_TITLES = {
    "stream": "memory port: weights and cache", "tables": "memory port: tables",
    "requests": "memory port: embedding", "program": "memory port: program",
    "matmul": "matmul", "vector": "vector", "sequencer": "sequencer",
}


def _time(cycle: int) -> float:
    """Microseconds: a cycle is shown as a nanosecond, so that times are cycles."""
    return cycle / 1000


def _slice(each: Operation, trace: Trace) -> dict[str, Any]:
    span, label = trace.spans[each.turn], each.label
    arguments: dict[str, Any] = {"pass": each.turn, "kind": span.kind, "position": span.position,
                                 "positions": span.positions, "begin_cycle": each.begin,
                                 "cycles": each.end - each.begin}
    if label is not None:
        arguments |= {"instruction": label.index, "operation": label.operation}
        if label.layer is not None:
            arguments["layer"] = label.layer
    return {"name": "fetch" if label is None else label.name, "ph": "X", "pid": _INSTRUCTIONS,
            "tid": 1 + TRACKS.index(each.track), "cat": each.track, "ts": _time(each.begin),
            "dur": _time(each.end - each.begin), "args": arguments}


def _metadata() -> list[dict[str, Any]]:
    def entry(kind: str, pid: int, value: Any, tid: int = 0) -> dict[str, Any]:
        key = "sort_index" if kind.endswith("sort_index") else "name"
        return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {key: value}}

    result = [entry("process_name", _INSTRUCTIONS, "instructions"),
              entry("process_name", _OCCUPANCY, "occupancy and port use"),
              entry("process_sort_index", _INSTRUCTIONS, 1),
              entry("process_sort_index", _OCCUPANCY, 2)]
    for tid, title in enumerate(("passes", *(_TITLES[name] for name in TRACKS))):
        result += [entry("thread_name", _INSTRUCTIONS, title, tid),
                   entry("thread_sort_index", _INSTRUCTIONS, tid, tid)]
    return result


def _counters() -> dict[str, dict[str, str]]:
    """Counter tracks: series and the column that each shows."""
    result = {f"{engine}: cycles": {state: f"{engine}_{state}" for state in states}
              for engine, states in STATES.items()}
    result["bytes read"] = {name: f"read_{name}" for name in CLASSES}
    result["bytes written"] = {name: f"written_{name}" for name in ("kv", "activations")}
    result["bytes of cache read"] = {"from SRAM": "kv_hits", "from memory": "kv_misses"}
    result["MACs"] = {"MACs": "macs"}
    return result


def chrome_trace(trace: Trace, **facts: Any) -> dict[str, Any]:
    """A trace as JSON values.

    Complete events are passes and instructions; their times and durations are cycles, shown as
    nanoseconds. Counter events hold what an interval adds: cycles of each state, bytes of each
    class, multiplications. Their sums are the device's counters.

    Parameters
    ----------
    trace : Trace
        What happened.
    **facts
        Further entries of ``otherData``.
    """
    activity = trace.activity
    events = _metadata()
    for turn, span in enumerate(trace.spans):
        begin, end = trace.bounds[turn:turn + 2]
        events.append({
            "name": f"{span.kind} {span.position}"
                    + (f" to {span.position + span.positions - 1}" if span.positions > 1 else ""),
            "ph": "X", "pid": _INSTRUCTIONS, "tid": 0, "cat": "pass", "ts": _time(begin),
            "dur": _time(end - begin),
            "args": {"pass": turn, "position": span.position, "positions": span.positions,
                     "cycles": end - begin}})
    events += [_slice(each, trace) for each in trace.operations]
    for name, series in _counters().items():
        columns = {key: activity.column(column).tolist() for key, column in series.items()}
        for index in range(len(activity.sums)):
            events.append({"name": name, "ph": "C", "pid": _OCCUPANCY,
                           "ts": _time(index * activity.width),
                           "args": {key: values[index] for key, values in columns.items()}})
    # Without an end, the last interval would look as if it went on.
    events += [{"name": name, "ph": "C", "pid": _OCCUPANCY, "ts": _time(activity.cycles),
                "args": dict.fromkeys(series, 0)} for name, series in _counters().items()]
    return {"traceEvents": events, "displayTimeUnit": "ns",
            "otherData": {"time": "1 ns stands for 1 cycle of the device's counters",
                          "cycles": activity.cycles, "interval_cycles": activity.width,
                          "instructions_without_time": activity.dropped, **facts}}

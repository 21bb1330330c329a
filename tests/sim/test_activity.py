"""The log of the activity port: its sums are the counters, its instructions are those that ran."""

from collections import Counter

import numpy as np
import pytest

import headrace.sim.activity
from headrace.hw.activity import AMOUNTS, READ_TRACKS, STATES, TRACKS
from headrace.hw.isa import Op
from headrace.hw.regmap import COUNTERS
from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sim.tops import wrap
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from tests.sim import faults
from tests.sim.faulty import ODD, faulty_verilog
from tests.sw.models import compiled, ids


#: Cycles from an event to the snapshot of the counters that has it.
HOLD = 4


@pytest.fixture(scope="module")
def image():
    return compiled(ODD, tied=False, seed=2)


def _talk(image, folder, monkeypatch, prompt, tokens):
    """Talk with a device that stalls; return the session, its trace and the sum of all counters."""
    monkeypatch.chdir(folder)
    (folder / faults.FILE).write_text("00\n")
    counters = Counter()
    with SimDevice(ODD, faulty_verilog(), MemoryOptions(latency=20, stall_seed=5),
                   memory_bytes=image.total_bytes, fill=0xff) as device:
        session = Session(device, image, trace=True, chunk=image.chunk, passes_per_run=2,
                          max_cycles=3_000_000)
        run = session._run

        def counted(*arguments, **options):
            run(*arguments, **options)
            counters.update({name: device.read_counter(name) for name in COUNTERS})
        session._run = counted
        list(session.generate(prompt, tokens))
        return session, session.trace(), counters


@pytest.fixture(scope="module")
def talked(image, tmp_path_factory):
    # Two blocks of the cache; passes with and without logits; runs of several passes.
    with pytest.MonkeyPatch.context() as monkeypatch:
        return _talk(image, tmp_path_factory.mktemp("talk"), monkeypatch, ids(32), 5)


def _sums(trace):
    return dict(zip(trace.activity.columns, trace.activity.sums.sum(axis=0).tolist()))


def test_sums_are_the_counters(talked):
    session, trace, counters = talked
    found, activity = _sums(trace), trace.activity
    assert activity.cycles == counters["cycles"] == session.report()["totals"]["cycles"] > 0
    assert {name: found[name] for name in COUNTERS if name != "cycles"} == {
        name: counters[name] for name in COUNTERS if name != "cycles"}
    assert all(found[name] for name in AMOUNTS if name not in ("read_kv", "kv_misses"))
    # Each engine is in one state in each cycle, in each interval.
    assert (activity.lengths() > 0).all() and activity.lengths().sum() == activity.cycles
    for engine, states in STATES.items():
        total = sum(activity.column(f"{engine}_{state}") for state in states)
        assert np.array_equal(total, activity.lengths()), engine


def test_instructions(talked, image):
    session, trace, counters = talked
    found = _sums(trace)
    assert trace.activity.dropped == 0
    assert trace.bounds[-1] == counters["cycles"] and len(trace.bounds) == len(trace.spans) + 1
    heads = sum(span.head for span in trace.spans)
    assert 0 < heads < len(trace.spans)
    tracks = {name: [each for each in trace.operations if each.track == name] for name in TRACKS}
    for name, operations in tracks.items():
        assert all(before.end <= after.begin for before, after in zip(operations, operations[1:]))
        for each in operations:
            assert each.begin < each.end
            # END takes the counters of the pass, at its beginning, and writes them after that.
            limit = trace.bounds[each.turn + 1] + HOLD
            assert (each.begin if each.label and each.label.op == Op.END else each.end) <= limit
            # Reads and the sequencer run ahead.
            if name in ("matmul", "vector", "requests"):
                assert trace.bounds[each.turn] <= each.begin, each
    program = [code["op"] for code in image.program]
    wanted = [op for span in trace.spans for op, code in zip(program, image.program)
              if span.head or not code["head"]]
    assert [each.label.op for each in tracks["matmul"]] == [
        op for op in wanted if op in (Op.MATMUL, Op.ATTN)]
    assert [each.label.op for each in tracks["stream"]] == [
        op for op in wanted if op in (Op.MATMUL, Op.ATTN)]
    assert [each.label.op for each in tracks["vector"]] == [
        op for op in wanted if op not in (Op.MATMUL, Op.ATTN)]
    assert [each.label.op for each in tracks["tables"]] == [
        op for op in wanted if op in (Op.NORM, Op.APPEND)]
    assert len(tracks["program"]) == len(tracks["requests"]) == len(trace.spans)
    assert [each.label.index for each in tracks["sequencer"]] == [
        *range(len(program))] * len(trace.spans)

    def length(name):
        return sum(each.end - each.begin for each in tracks[name])

    # An engine with an instruction is never idle, and one without one always is.
    cycles = counters["cycles"]
    assert length("vector") == cycles - found["vector_idle"]
    assert length("sequencer") == cycles - found["sequencer_idle"]
    assert found["matmul_busy"] <= length("matmul") < cycles
    assert found["port_busy"] <= sum(length(name) for name in READ_TRACKS)
    # The array has an instruction's block when it begins, and all of it when it ends.
    for read, used in zip(tracks["stream"], tracks["matmul"]):
        assert read.begin < used.begin and read.end <= used.end
    assert sum(trace.charged.values()) == cycles
    rows = session.report(trace)["locality"]
    for name in ("layers", "operations"):
        assert sum(row["cycles"] for row in rows[name]) == cycles


def test_bounded(image, tmp_path, monkeypatch):
    monkeypatch.setattr(headrace.sim.activity, "MAX_INTERVALS", 16)
    monkeypatch.setattr(headrace.sim.activity, "MAX_MARKS", 40)
    _, trace, counters = _talk(image, tmp_path, monkeypatch, ids(5), 2)
    activity = trace.activity
    assert 8 <= len(activity.sums) <= 16 and activity.width & activity.width - 1 == 0
    found = _sums(trace)
    assert {name: found[name] for name in COUNTERS if name != "cycles"} == {
        name: counters[name] for name in COUNTERS if name != "cycles"}
    assert activity.lengths().sum() == counters["cycles"]
    assert activity.dropped > 0
    assert Counter(each.track for each in trace.operations)["vector"] == 40


def test_only_a_device_with_the_port_records():
    verilog = faulty_verilog()
    plain = verilog.replace("  output [383:0] activity;\n", "  wire [383:0] activity;\n")
    assert plain != verilog
    assert "headrace_activity_tick" in wrap(verilog)[0]
    assert "headrace_activity_tick" not in wrap(plain)[0]
    with pytest.raises(HeadraceError, match="sim: the device has no activity port"):
        SimDevice(ODD, plain, memory_bytes=1 << 16).begin_activity()
    with pytest.raises(HeadraceError, match="sim: no activity is recorded"):
        SimDevice(ODD, verilog, memory_bytes=1 << 16).read_activity()

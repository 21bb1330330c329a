"""Ports through which a simulation sees what instructions write, and what engines do."""

from amaranth import *
from amaranth.lib import data

from .activity import AMOUNTS, FLAGS, READ_TRACKS, STATES, WORDS
from .config import Config
from .interfaces import field
from .memory.layouts import Target
from .observation import sources


__all__ = ["ActivityLayout", "ProbeLayout", "observe", "observe_activity"]


def ProbeLayout(config: Config):
    """A word of flags, bit `i` for source `i`, then the fields of all sources."""
    return data.StructLayout({
        "flags": 32,
        **{source: data.StructLayout({name: 32 * words for name, words in fields.items()})
           for source, fields in sources(config).items()},
    })


def observe(m, probe, vector, softmax):
    """Drive a `probe` from the ports of the vector unit and of the softmax pipeline.

    Everything is shown in the cycle in which it is written or handed over. The last write of an
    instruction comes before, or in the cycle of, its ``retire``.
    """
    def moved(port):
        return port.valid & port.ready

    command, head, p = vector.commands.payload, vector.append.payload, softmax.p_write
    seen = {
        "retire": (moved(vector.commands), {"op": field(command, "op")}),
        "x": (vector.written.en, {"addr": vector.written.addr, "data": vector.written.data}),
        "a": (vector.a_write.en, {"addr": vector.a_write.addr, "row": vector.a_write.row,
                                  "data": vector.a_write.data}),
        "s": (vector.s_write.en, {"addr": vector.s_write.addr, "data": vector.s_write.data}),
        "results": (moved(vector.results), {"row_scale": vector.results.payload.row_scale,
                                            "values": vector.results.payload.values}),
        "append": (moved(vector.append), {"unit": head.addr, "token": head.token,
                                          "value": head.value, "scale": head.scale}),
        "append_data": (moved(vector.append_data), {"data": vector.append_data.payload}),
        "logits": (moved(vector.linear_data), {"values": vector.linear_data.payload}),
        "token": (vector.token_stb, {"token": vector.token}),
        "scores": (moved(softmax.scores), {"values": softmax.scores.payload}),
        "p": (p.p_en, {"addr": p.p_addr, "row": p.p_row, "data": p.p_data}),
        "p_scale": (p.scale_en, {"stream": p.stream, "act_scale": p.scale.act_scale,
                                 "rescale": p.scale.rescale, "inv_sum": p.scale.inv_sum}),
    }
    for index, (source, (valid, fields)) in enumerate(seen.items()):
        m.d.comb += probe.flags[index].eq(valid)
        for name, value in fields.items():
            value = value.as_value() if hasattr(value, "as_value") else value
            m.d.comb += probe[source][name].eq(value)


#: The words of `headrace.hw.activity`, one after the other.
ActivityLayout = data.StructLayout({
    "states": data.StructLayout({f"{engine}_{state}": 1 for engine, states in STATES.items()
                                 for state in states}),
    **FLAGS,
    "_": 32 - sum(len(states) for states in STATES.values()) - sum(FLAGS.values()),
    **{name: signed(32) for name in AMOUNTS},
})
assert ActivityLayout.size == 32 * WORDS

#: Which sequence of instructions a beat belongs to.
_TRACK = {Target.RING: "stream", Target.SCALES: "stream", Target.TABLES: "tables",
          Target.REQUEST: "requests", Target.PROGRAM: "program"}


def observe_activity(m, activity, *, increments, busy, memory, matmul, vector, sequencer, axi):
    """Drive an `activity` port.

    Parameters
    ----------
    increments : IncrementLayout
        What this cycle adds to the counters while `busy`, so that sums over cycles are theirs.
    memory, matmul : EventLayout, EventsLayout
        Events of these units.
    vector, sequencer : Component
        Ports for commands and for instructions are looked at.
    axi : AXI4Signature
        The memory port.
    """
    states, instruction = activity.states, sequencer.instruction
    waiting = (axi.awvalid & ~axi.awready) | (axi.wvalid & ~axi.wready)
    for name in increments.shape().members:
        target = activity if name in AMOUNTS else states
        m.d.comb += target[name].eq(increments[name])
    with m.If(axi.wvalid & axi.wready):
        m.d.comb += states.write_busy.eq(1)
    with m.Elif(waiting):
        m.d.comb += states.write_wait_memory.eq(1)
    with m.Elif(~vector.write_idle):
        m.d.comb += states.write_wait_response.eq(1)
    with m.Else():
        m.d.comb += states.write_idle.eq(1)
    m.d.comb += [
        states.sequencer_busy.eq(instruction.valid & instruction.ready),
        states.sequencer_wait_engine.eq(instruction.valid & ~instruction.ready),
        states.sequencer_idle.eq(~instruction.valid),
        activity.count.eq(busy),
        activity.first.eq(matmul.first),
        activity.retire.eq(vector.commands.valid & vector.commands.ready),
    ]
    with m.Switch(memory.read_target):
        for target, track in _TRACK.items():
            with m.Case(target):
                m.d.comb += activity.track.eq(READ_TRACKS.index(track))

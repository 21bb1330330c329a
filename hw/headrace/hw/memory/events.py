"""Events of the memory system for the counters."""

from amaranth import *
from amaranth.lib import data

from ..axi import ID_BITS
from ..config import CLASSES, Config
from .layouts import TARGET


__all__ = ["EventLayout", "connect_events"]


def EventLayout(config: Config):
    """Events of one cycle for the counters; exactly one of the `port_` states is 1."""
    return data.StructLayout({
        "port_busy": 1, "port_wait_memory": 1, "port_buffer_full": 1, "port_wait_dependency": 1,
        "port_wait_sequencer": 1,
        "read_stb": 1, "read_cls": ID_BITS, "read_target": TARGET,
        "kv_hit_stb": 1, "kv_miss_stb": 1,
        "write_stb": 1, "write_cls": ID_BITS, "write_bytes": range(config.port_bytes + 1),
    })


def connect_events(m, events, reader, writer, planner):
    """Derive the events from a `DMAReader`, a `DMAWriter` and a `StreamPlanner`."""
    with m.If(reader.fire):
        m.d.comb += events.port_busy.eq(1)
    with m.Elif(~reader.idle | reader.ready_burst):
        m.d.comb += events.port_wait_memory.eq(1)
    with m.Elif(planner.waiting):
        m.d.comb += events.port_wait_dependency.eq(1)
    with m.Elif(reader.blocked_burst):
        m.d.comb += events.port_buffer_full.eq(1)
    with m.Else():
        m.d.comb += events.port_wait_sequencer.eq(1)
    m.d.comb += [
        events.read_stb.eq(reader.fire & ~reader.hit),
        events.read_cls.eq(reader.cls), events.read_target.eq(reader.target),
        events.kv_hit_stb.eq(reader.fire & reader.hit),
        events.kv_miss_stb.eq(events.read_stb & (reader.cls == CLASSES.index("kv"))),
        events.write_stb.eq(writer.sent),
        events.write_cls.eq(writer.sent_cls),
        events.write_bytes.eq(writer.sent_bytes),
    ]

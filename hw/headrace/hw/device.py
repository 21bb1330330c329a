"""The accelerator: everything between the control port and the memory port."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi import AXI4LiteSignature, AXI4Signature
from .config import CLASSES, Config
from .control import Control, Sequencer
from .control.control import ADDR_BITS
from .matmul.matmul import Matmul
from .memory import MemorySystem
from .probe import ActivityLayout, ProbeLayout, observe, observe_activity
from .regmap import COUNTERS
from .softmax import Softmax
from .vector.vector import Vector


__all__ = ["Headrace"]


class Headrace(wiring.Component):
    """LLM-inference accelerator, see `docs/architecture.md`.

    A soft reset holds all engines and the sequencer in reset until the memory system has settled
    what it owes to the memory port. The registers stay, and so does the content of the KV buffer.

    Parameters
    ----------
    config : Config
    probe, activity : bool
        Add the port of the same name, which changes nothing else.

    Members
    -------
    axi : ``Out(AXI4Signature(addr_bits, port_bits))``
        Memory.
    ctrl : ``In(AXI4LiteSignature(12))``
        Control registers.
    irq : ``Out(1)``
        Interrupt, a level.
    probe : ``Out(ProbeLayout(config))``
        What instructions write, for simulations; only with `probe`.
    activity : ``Out(ActivityLayout)``
        What the engines do, for simulations; only with `activity`.
    """
    def __init__(self, config: Config, *, probe: bool = False, activity: bool = False):
        self.config = config
        self._probe, self._activity = probe, activity
        super().__init__({
            "axi": Out(AXI4Signature(config.addr_bits, config.port_bits)),
            "ctrl": In(AXI4LiteSignature(ADDR_BITS)),
            "irq": Out(1),
            **({"probe": Out(ProbeLayout(config))} if probe else {}),
            **({"activity": Out(ActivityLayout)} if activity else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        # Components are registered inside a reset of their own, and connected by themselves.
        halt = Signal()
        control, memory = Control(config), MemorySystem(config)
        engines = {"sequencer": Sequencer(config), "matmul": Matmul(config),
                   "vector": Vector(config), "softmax": Softmax(config)}
        m.submodules.control = control
        m.submodules.memory = memory
        for name, engine in engines.items():
            m.submodules[name] = ResetInserter(halt)(engine)
        sequencer, matmul, vector, softmax = engines.values()
        m.d.comb += halt.eq(control.reset | memory.resetting)

        # The outside.
        connect(m, flipped(self.ctrl), control.axi)
        connect(m, memory.axi, flipped(self.axi))
        m.d.comb += self.irq.eq(control.irq)

        # Control and sequencer.
        m.d.comb += [
            sequencer.start.eq(control.start),
            *(getattr(sequencer, name).eq(getattr(control, name))
              for name in ("base", "program", "instructions", "passes", "position", "positions",
                           "head", "logits")),
            *(getattr(control, name).eq(getattr(sequencer, name))
              for name in ("busy", "done_stb", "failure", "passes_done")),
            sequencer.pass_done.eq(vector.pass_done),
            sequencer.memory_error.eq(memory.error),
            control.resetting.eq(memory.resetting),
            control.token.eq(vector.token), control.token_stb.eq(vector.token_stb),
            control.counter_hold.eq(vector.counter_hold),
            control.counter_index.eq(vector.counter_index),
            vector.counter_data.eq(control.counter_data),
            memory.reset.eq(control.reset),
            memory.base.eq(control.base), memory.kv_base.eq(control.kv_base),
            memory.kv_pinned.eq(control.kv_pinned),
        ]
        connect(m, sequencer.fetch, memory.fetch)
        connect(m, memory.instructions, sequencer.instruction)
        connect(m, sequencer.memory, memory.commands)
        connect(m, sequencer.matmul, matmul.commands)
        connect(m, sequencer.vector, vector.commands)

        # Memory and engines.
        connect(m, memory.weights, matmul.weights)
        connect(m, memory.kv_scales, softmax.kv_scales)
        connect(m, memory.tables, vector.tables)
        connect(m, vector.requests, memory.requests)
        connect(m, memory.request_data, vector.request_data)
        for name in ("append", "append_data", "linear", "linear_data", "single"):
            connect(m, getattr(vector, name), getattr(memory, name))
        m.d.comb += [
            memory.freed.eq(matmul.freed), memory.appended.eq(vector.appended),
            vector.write_idle.eq(memory.write_idle),
            vector.append_idle.eq(memory.append_idle),
        ]

        # Engines among themselves.
        connect(m, vector.a_write, matmul.a_write)
        connect(m, vector.s_write, matmul.s_write)
        connect(m, matmul.results, vector.results)
        connect(m, matmul.blocks, softmax.blocks)
        connect(m, matmul.scores, softmax.scores)
        connect(m, softmax.p_write, matmul.p_write)
        m.d.comb += [matmul.a_ready.eq(vector.a_ready), softmax.p_free.eq(matmul.p_free)]

        self._count(m, control.increments, memory.events, matmul.events, vector.events,
                    softmax.events)
        if self._probe:
            observe(m, self.probe, vector, softmax)
        if self._activity:
            observe_activity(m, self.activity, increments=control.increments, busy=control.busy,
                             memory=memory.events, matmul=matmul.events, vector=vector,
                             sequencer=sequencer, axi=self.axi)
        return m

    def _count(self, m, increments, memory, matmul, vector, softmax):
        beat = self.config.port_bytes
        for name in COUNTERS:
            if name.startswith("port_"):
                m.d.comb += increments[name].eq(memory[name])
        for unit, events in (("matmul", matmul), ("vector", vector), ("softmax", softmax)):
            prefix = f"{unit}_"
            for name in COUNTERS:
                if name.startswith(prefix):
                    m.d.comb += increments[name].eq(events[name.removeprefix(prefix)])

        read = {name: Mux(memory.read_stb & (memory.read_cls == CLASSES.index(name)), beat, 0)
                for name in CLASSES}
        for name, count in read.items():
            if name == "weights":
                # Scales travel inside weight streams, and are told apart by the matmul unit.
                m.d.comb += increments.read_weights.eq(count - matmul.scale_bytes)
            elif name == "scales":
                m.d.comb += increments.read_scales.eq(matmul.scale_bytes)
            else:
                m.d.comb += increments[f"read_{name}"].eq(count)
        for name in ("kv", "activations"):
            written = memory.write_stb & (memory.write_cls == CLASSES.index(name))
            m.d.comb += increments[f"written_{name}"].eq(Mux(written, memory.write_bytes, 0))
        m.d.comb += [
            increments.kv_hits.eq(Mux(memory.kv_hit_stb, beat, 0)),
            increments.kv_misses.eq(Mux(memory.kv_miss_stb, beat, 0)),
            increments.macs.eq(matmul.macs),
        ]

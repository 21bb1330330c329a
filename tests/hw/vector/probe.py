"""The vector unit with its writes to X in sight."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from headrace.hw.interfaces import words
from headrace.hw.vector.vector import Vector


class Probe(wiring.Component):
    """Ports of :class:`Vector`, and `x_en`, `x_addr`, `x_data`: what is written to X."""

    def __init__(self, config):
        self.vector = Vector(config)
        super().__init__({
            **dict(self.vector.signature.members),
            "x_en": Out(1), "x_addr": Out(range(config.x_words)),
            "x_data": Out(words(config.lanes)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.vector = vector = self.vector
        for name, member in vector.signature.members.items():
            inner, outer = getattr(vector, name), getattr(self, name)
            if member.is_port:
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
            else:
                connect(m, inner, flipped(outer))
        written = vector.datapath.written
        m.d.comb += [self.x_en.eq(written.en), self.x_addr.eq(written.addr),
                     self.x_data.eq(written.data)]
        return m

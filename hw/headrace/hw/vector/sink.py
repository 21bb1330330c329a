"""Destinations of quantised groups."""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import AppendLayout, AWriteSignature, CommandLayout, SWriteSignature, field, words
from .quantiser import QuantisedLayout
from .rows import DestinationLayout


__all__ = ["GroupSink"]


class GroupSink(wiring.Component):
    """Writes quantised groups to A and the scales, or hands them to the cache's writer.

    One word per cycle, or in two where both halves of activations go to A; a group for the cache
    takes one cycle more, as its words follow its head.

    Parameters
    ----------
    config : Config
    groups : int
        Destinations that can wait, a power of two.

    Members
    -------
    cache : ``In(1)``
        Groups go to the cache; constant while anything is inside.
    wide : ``In(1)``
        Activations have halves; constant while anything is inside.
    command : ``In(CommandLayout)``
        The instruction, for what is the same in all heads of appends.
    push, destination : ``In(1), In(DestinationLayout(config))``
        A group will come that goes there.
    i : ``In(stream.Signature(QuantisedLayout(lanes)))``
        Words of the groups.
    a_write, s_write : ``Out(AWriteSignature(config)), Out(SWriteSignature(config))``
    append : ``Out(stream.Signature(AppendLayout))``
    append_data : ``Out(stream.Signature(words(lanes, 8)))``
    retired : ``Out(1)``
        Pulse: the last word of a group has left.
    """
    def __init__(self, config: Config, *, groups):
        self.config = config
        self.groups = groups
        super().__init__({
            "cache": In(1), "wide": In(1), "command": In(CommandLayout),
            "push": In(1), "destination": In(DestinationLayout(config)),
            "i": In(stream.Signature(QuantisedLayout(config.lanes))),
            "a_write": Out(AWriteSignature(config)), "s_write": Out(SWriteSignature(config)),
            "append": Out(stream.Signature(AppendLayout)),
            "append_data": Out(stream.Signature(words(config.lanes, 8))),
            "retired": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        layout = DestinationLayout(self.config)
        m.submodules.destinations = queue = memory.Memory(
            shape=unsigned(layout.size), depth=self.groups, init=[])
        write, read = queue.write_port(), queue.read_port(domain="comb")
        m.d.comb += [write.en.eq(self.push), write.data.eq(self.destination.as_value())]
        with m.If(self.push):
            m.d.sync += write.addr.eq(write.addr + 1)
        with m.If(self.retired):
            m.d.sync += read.addr.eq(read.addr + 1)
        target = data.View(layout, read.data)

        word = self.i.payload
        moved = Signal()
        m.d.comb += [
            moved.eq(self.i.valid & self.i.ready),
            self.retired.eq(moved & word.last),
        ]

        # A and the scales take everything at once; low halves go to the row set behind.
        following = Signal(16)
        low = Signal()
        low_addr = Signal(16)
        high_addr = Mux(word.first, target.a_addr, following)
        m.d.sync += [low.eq(self.wide & self.i.valid & ~low),
                     low_addr.eq(high_addr + field(self.command, "a_stride"))]
        m.d.comb += [
            self.a_write.en.eq(self.i.valid & ~self.cache),
            self.a_write.addr.eq(Mux(low, low_addr, high_addr)),
            self.a_write.row.eq(target.row),
            self.a_write.data.eq(Mux(low, word.low, word.values)),
            self.s_write.en.eq(self.i.valid & ~self.cache & word.first & ~low),
            self.s_write.addr.eq(target.s_addr),
            self.s_write.data.eq(word.scale),
        ]
        m.d.sync += following.eq(Mux(word.first, target.a_addr, following) + 1)
        with m.If(~moved):
            m.d.sync += following.eq(following)

        # The cache takes the head of a group first.
        headed = Signal()
        m.d.comb += [
            self.append.valid.eq(self.i.valid & self.cache & word.first & ~headed),
            self.append.payload.addr.eq(target.block),
            self.append.payload.token.eq(target.token),
            self.append.payload.value.eq(target.value),
            self.append.payload.head_dim.eq(field(self.command, "head_dim")),
            self.append.payload.v_select.eq(field(self.command, "v_select")),
            self.append.payload.scale.eq(word.scale),
            self.append_data.valid.eq(self.i.valid & self.cache & (~word.first | headed)),
            self.append_data.payload.eq(word.values),
            self.i.ready.eq(Mux(self.cache, self.append_data.valid & self.append_data.ready,
                                ~self.wide | low)),
        ]
        with m.If(self.append.valid & self.append.ready):
            m.d.sync += headed.eq(1)
        with m.Elif(moved):
            m.d.sync += headed.eq(0)
        return m

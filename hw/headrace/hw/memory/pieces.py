"""Reads of tables, of the vector unit and of the program, as pieces."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import ALIGN, CLASSES, Config
from ..interfaces import CommandLayout, RequestLayout, field
from ..isa import INSTRUCTION_BYTES, Op
from .layouts import FetchLayout, Sizes, Target


__all__ = ["FetchPlanner", "RequestPlanner", "TablePlanner", "beats_of_units"]


ALIGN_LOG2 = ALIGN.bit_length() - 1


def beats_of_units(sizes, units):
    """Beats in ``units`` units of 64 bytes."""
    return units << (ALIGN_LOG2 - sizes.beat_log2)


class FetchPlanner(wiring.Component):
    """Turn fetches of instructions into pieces. Latency: 1 cycle.

    Members
    -------
    i : ``In(stream.Signature(FetchLayout))``
        Instructions to fetch.
    base : ``In(addr_bits)``
        Address that all others count from.
    o : ``Out(stream.Signature(Sizes(config).piece))``
        Pieces.
    """
    def __init__(self, config: Config):
        self.sizes = sizes = Sizes(config)
        super().__init__({
            "i": In(stream.Signature(FetchLayout)), "base": In(config.addr_bits),
            "o": Out(stream.Signature(sizes.piece)),
        })

    def elaborate(self, platform):
        m = Module()

        split = self.sizes.split(Target.PROGRAM)
        per_word = max(1, INSTRUCTION_BYTES // self.sizes.beat)
        count = self.i.payload.count
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.i.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                self.o.payload.addr.eq(self.base + (self.i.payload.addr << ALIGN_LOG2)),
                self.o.payload.beats.eq((count + (split - 1)) // split * per_word),
                self.o.payload.tail.eq((count - 1) & (split - 1)),
                self.o.payload.cls.eq(CLASSES.index("program")),
                self.o.payload.target.eq(Target.PROGRAM),
            ]

        return m


class RequestPlanner(wiring.Component):
    """Turn requests of the vector unit into pieces. Latency: 1 cycle.

    Members
    -------
    i : ``In(stream.Signature(RequestLayout))``
        4 bytes at a multiple of 4, or a multiple of 64 bytes at a multiple of 64.
    base : ``In(addr_bits)``
        Address that all others count from.
    o : ``Out(stream.Signature(Sizes(config).piece))``
        Pieces.
    """
    def __init__(self, config: Config):
        self.sizes = sizes = Sizes(config)
        super().__init__({
            "i": In(stream.Signature(RequestLayout)), "base": In(config.addr_bits),
            "o": Out(stream.Signature(sizes.piece)),
        })

    def elaborate(self, platform):
        m = Module()

        size = self.i.payload.bytes
        single = size == 4
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.i.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                self.o.payload.addr.eq(self.base + self.i.payload.addr),
                self.o.payload.beats.eq(Mux(single, 1, size >> self.sizes.beat_log2)),
                self.o.payload.single.eq(single),
                self.o.payload.cls.eq(self.i.payload.cls),
                self.o.payload.target.eq(Target.REQUEST),
            ]

        return m


class TablePlanner(wiring.Component):
    """Turn NORM, RMS and APPEND into pieces: norm gains, or the RoPE rows of the pass.

    NORM and RMS: ``4 * dim`` bytes at `table`. APPEND: ``4 * head_dim * positions`` bytes at
    `table` plus ``4 * head_dim * position`` bytes; ``head_dim / 16`` is multiplied bit by bit.
    Latency: NORM and RMS 3 cycles, APPEND up to 15.

    Members
    -------
    i : ``In(stream.Signature(CommandLayout))``
        Commands NORM, RMS and APPEND.
    base : ``In(addr_bits)``
        Address that all others count from.
    o : ``Out(stream.Signature(Sizes(config).piece))``
        Pieces.
    busy : ``Out(1)``
        A command is being worked on.
    """
    def __init__(self, config: Config):
        self.sizes = sizes = Sizes(config)
        super().__init__({
            "i": In(stream.Signature(CommandLayout)), "base": In(config.addr_bits),
            "o": Out(stream.Signature(sizes.piece)), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()

        units = Signal(32)                      # address, in units of 64 bytes
        length = Signal(32)                     # length, in units of 64 bytes
        position = Signal(32)
        positions = Signal(32)
        factor = Signal(12)                     # units in a row that are still to be multiplied by
        command = self.i.payload
        is_norm = field(command, "op") != Op.APPEND

        m.d.comb += self.busy.eq(1)
        with m.FSM(name="state"):
            with m.State("Idle"):
                m.d.comb += [self.i.ready.eq(1), self.busy.eq(0)]
                m.d.sync += [
                    units.eq(field(command, "table")),
                    length.eq(Mux(is_norm, field(command, "dim") >> 4, 0)),
                    position.eq(command.position),
                    positions.eq(command.positions),
                    factor.eq(Mux(is_norm, 0, field(command, "head_dim") >> 4)),
                ]
                with m.If(self.i.valid):
                    m.next = "Multiply"

            with m.State("Multiply"):
                with m.If(factor[0]):
                    m.d.sync += [units.eq(units + position), length.eq(length + positions)]
                m.d.sync += [
                    factor.eq(factor >> 1),
                    position.eq(position << 1),
                    positions.eq(positions << 1),
                ]
                with m.If(factor[1:] == 0):
                    m.next = "Address"

            with m.State("Address"):
                m.d.sync += [
                    self.o.valid.eq(1),
                    self.o.payload.addr.eq(self.base + (units << ALIGN_LOG2)),
                    self.o.payload.beats.eq(beats_of_units(self.sizes, length)),
                    self.o.payload.cls.eq(CLASSES.index("tables")),
                    self.o.payload.target.eq(Target.TABLES),
                ]
                m.next = "Send"

            with m.State("Send"):
                with m.If(self.o.ready):
                    m.d.sync += self.o.valid.eq(0)
                    m.next = "Idle"

        return m

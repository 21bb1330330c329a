"""Division of reads into bursts."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .layouts import Sizes, Target


__all__ = ["BurstSplitter"]


class BurstSplitter(wiring.Component):
    """Cut pieces into bursts that end at multiples of the target's chunk.

    A chunk is a power of two that divides 4 KiB, so no burst crosses such a boundary and none is
    longer than the configuration allows. A piece of no beats has no bursts. Latency: 2 cycles.
    Throughput: one burst per cycle, also from one piece to the next.

    Parameters
    ----------
    config : Config
        Configuration.
    targets : tuple of Target
        Targets of the pieces that come here.

    Members
    -------
    i : ``In(stream.Signature(Sizes(config).piece))``
        Pieces.
    o : ``Out(stream.Signature(Sizes(config).burst))``
        Bursts, in order.
    """
    def __init__(self, config: Config, targets):
        self.sizes = Sizes(config)
        self.targets = tuple(targets)
        super().__init__({
            "i": In(stream.Signature(self.sizes.piece)),
            "o": Out(stream.Signature(self.sizes.burst)),
        })

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes

        piece = Signal(sizes.piece, reset_less=True)
        busy = Signal()
        index = piece.addr[sizes.beat_log2:]
        chunk = Signal(9)
        until = Signal(9)                       # beats up to the next multiple of the chunk
        count = Signal(9)
        last = Signal()
        advance = Signal()

        with m.Switch(piece.target):
            for target in self.targets:
                with m.Case(target):
                    size = sizes.chunk(target)
                    m.d.comb += [chunk.eq(size), until.eq(size - (index & (size - 1)))]
        m.d.comb += [
            last.eq(~piece.beats[9:].any() & (piece.beats[:9] <= until)),
            count.eq(Mux(last, piece.beats, until)),
            advance.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(~busy | (advance & last)),
        ]

        units = Signal(sizes.space_bits)
        m.d.comb += units.eq(count)
        split = sizes.split(Target.RING)
        if Target.RING in self.targets and split > 1:
            # The ring takes only the words that count: words after the end are never sent to it.
            with m.If(piece.target == Target.RING):
                m.d.comb += units.eq(count * split
                                     - Mux(last, split - 1 - piece.tail, 0))

        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(busy),
                self.o.payload.addr.eq(piece.addr),
                self.o.payload.beats.eq(count - 1),
                self.o.payload.units.eq(units),
                self.o.payload.last.eq(last),
                *(self.o.payload[name].eq(piece[name])
                  for name in ("tail", "single", "cls", "target", "hit")),
            ]
            with m.If(busy):
                # To the next multiple of the chunk; after the last burst both mean nothing.
                m.d.sync += [
                    index.eq((index | (chunk - 1)) + 1),
                    piece.beats.eq(piece.beats - until),
                ]
        with m.If(self.i.ready):
            m.d.sync += [
                busy.eq(self.i.valid & (self.i.payload.beats != 0)),
                piece.eq(self.i.payload),
            ]

        return m

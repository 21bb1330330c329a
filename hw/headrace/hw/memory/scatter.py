"""Runs of small items into beats with strobes."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import ID_BITS
from ..config import Config
from .layouts import Sizes


__all__ = ["ScatterWriter"]


class ScatterWriter(wiring.Component):
    """Place the items of a run in memory and cut the beats they touch into bursts.

    Item ``n`` of a run has ``2**size`` bytes and goes to ``addr + n * step``. A run becomes the
    beats from the one of its first item to the one of its last; bytes between items have no strobe,
    nor have whole beats that no item touches. Bursts end at multiples of ``write_chunk`` beats
    and at the end of the run. A burst is announced with its last beat, so all of its data are
    behind this component before its address is. Throughput: one item per cycle, and one beat
    where items are further apart. Items never cross a beat: `addr` and `step` are multiples of
    the item's size.

    Members
    -------
    run : ``In(stream.Signature(Sizes(config).run))``
        Runs of at least one item. Taken with the first item's turn, one cycle before it.
    item : ``In(stream.Signature(32))``
        Items of the run in progress, in the lowest bits; not used by literal runs.
    active, size, final : ``Out(1)``, ``Out(2)``, ``Out(1)``
        A run is in progress, the size of its items, and whether the next is its last.
    beat : ``Out(stream.Signature({data, strb, bytes, last, cls}))``
        Beats, with the number of strobes.
    burst : ``Out(stream.Signature({addr, beats, cls}))``
        Bursts of `beats` + 1 beats.
    pinned_strb, beat_addr : ``Out(port_bytes)``, ``Out(addr_bits)``
        Strobes of the beat that leaves in this cycle if its run is pinned, and its address.
    """
    def __init__(self, config: Config):
        self.config = config
        self.sizes = sizes = Sizes(config)
        super().__init__({
            "run": In(stream.Signature(sizes.run)),
            "item": In(stream.Signature(32)),
            "active": Out(1), "size": Out(2), "final": Out(1),
            "beat": Out(stream.Signature(self.beat_layout(config))),
            "burst": Out(stream.Signature(self.burst_layout(config))),
            "pinned_strb": Out(config.port_bytes), "beat_addr": Out(config.addr_bits),
        })

    @staticmethod
    def beat_layout(config):
        return data.StructLayout({
            "data": config.port_bits, "strb": config.port_bytes,
            "bytes": range(config.port_bytes + 1), "last": 1, "cls": ID_BITS})

    @staticmethod
    def burst_layout(config):
        return data.StructLayout({"addr": config.addr_bits, "beats": 8, "cls": ID_BITS})

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        low = sizes.beat_log2
        chunk = sizes.write_chunk

        run = Signal(sizes.run, reset_less=True)
        index = Signal(sizes.index_bits)        # of the beat in progress
        start = Signal(sizes.index_bits)        # of the first beat of the burst
        count = Signal(range(chunk))            # beats of the burst before this one
        # Byte address of the next item. An item is at most 32 bytes, 8 beats, behind the last.
        pos = Signal(low + 4)
        item = Signal(32)
        arrived = Signal()
        here = Signal()
        take = Signal()
        emit = Signal()
        leaves = Signal()
        end = Signal()
        done = Signal()
        space = Signal()
        after = (pos + run.step)[:low + 4]

        m.d.comb += [
            self.size.eq(run.size),
            self.final.eq(run["items"] == 1),
            item.eq(Mux(run.literal, run.value, self.item.payload)),
            arrived.eq(run.literal | self.item.valid),
            here.eq(pos[low:] == index[:4]),
            leaves.eq(self.final | (after[low:] != index[:4])),
            # Room for a beat is wanted even if none leaves, to keep `ready` out of long paths.
            space.eq(self.active & self.beat.ready & self.burst.ready),
            take.eq(space & here & arrived),
            emit.eq(Mux(here, take & leaves, space)),
            done.eq(take & self.final),
            end.eq(done | (index & (chunk - 1) == chunk - 1)),
            self.item.ready.eq(take & ~run.literal),
            self.run.ready.eq(~self.active | done),
        ]

        # The beat in progress, with the item of this cycle in its place.
        value = Signal(32)
        mask = Signal(4)
        with m.Switch(run.size):
            with m.Case(0):
                m.d.comb += [value.eq(item[:8].replicate(4)), mask.eq(1 << pos[:2])]
            with m.Case(1):
                m.d.comb += [value.eq(item[:16].replicate(2)), mask.eq(Mux(pos[1], 0xc, 0x3))]
            with m.Default():
                m.d.comb += [value.eq(item), mask.eq(0xf)]
        old_data = Signal(8 * sizes.beat, reset_less=True)
        old_strb = Signal(sizes.beat)
        old_bytes = Signal(range(sizes.beat + 1))
        new_data = Signal.like(old_data)
        new_strb = Signal.like(old_strb)
        new_bytes = Signal.like(old_bytes)
        m.d.comb += new_bytes.eq(old_bytes + Mux(take, 1 << run.size, 0))
        for byte in range(sizes.beat):
            chosen = take & mask[byte % 4] & (pos[2:low] == byte // 4)
            m.d.comb += [
                new_data[8 * byte:8 * byte + 8].eq(
                    Mux(chosen, value[8 * (byte % 4):8 * (byte % 4) + 8],
                        old_data[8 * byte:8 * byte + 8])),
                new_strb[byte].eq(old_strb[byte] | chosen),
            ]
        m.d.sync += [
            old_data.eq(new_data),
            old_strb.eq(Mux(emit, 0, new_strb)),
            old_bytes.eq(Mux(emit, 0, new_bytes)),
        ]

        m.d.comb += [
            self.beat.valid.eq(emit),
            self.beat.payload.data.eq(new_data),
            self.beat.payload.strb.eq(new_strb),
            self.beat.payload.bytes.eq(new_bytes),
            self.beat.payload.last.eq(end),
            self.beat.payload.cls.eq(run.cls),
            self.burst.valid.eq(emit & end),
            self.burst.payload.addr.eq(start << low),
            self.burst.payload.beats.eq(count),
            self.burst.payload.cls.eq(run.cls),
            self.pinned_strb.eq(Mux(emit & run.pinned, new_strb, 0)),
            self.beat_addr.eq(index << low),
        ]
        with m.If(take):
            m.d.sync += [pos.eq(after), run["items"].eq(run["items"] - 1)]
        with m.If(emit):
            m.d.sync += [index.eq(index + 1), count.eq(count + 1)]
            with m.If(end):
                m.d.sync += [start.eq(index + 1), count.eq(0)]
        with m.If(self.run.ready):
            m.d.sync += [
                self.active.eq(self.run.valid),
                run.eq(self.run.payload),
                pos.eq(self.run.payload.addr),
                index.eq(self.run.payload.addr >> low),
                start.eq(self.run.payload.addr >> low),
            ]

        return m

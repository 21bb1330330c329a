"""Appends to the K/V cache."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import CLASSES, KV_BLOCK, Config
from ..interfaces import AppendLayout, words
from .layouts import Sizes
from .pieces import ALIGN_LOG2
from .serializer import Serializer


__all__ = ["AppendWriter"]


class AppendWriter(wiring.Component):
    """Turn an int8 vector of one token and head into the runs that put it into its block.

    With ``t`` the token in the block, ``kn`` tokens in a K tile and ``vn`` columns in a V tile:

    * byte ``k`` of a key goes to ``128 + (t // kn) * hd * kn + k * kn + t % kn``: one run of
      bytes, ``kn`` apart;
    * byte ``d`` of a value goes to ``128 + 32 * hd + (d // vn) * 32 * vn + t * vn + d % vn``: a
      run for each tile;
    * the scale goes to ``2 * t``, of values to ``64 + 2 * t``.

    Runs of the next append are prepared while items of the last are placed. Throughput:
    `head_dim` + 1 items per key and ``head_dim / min(lanes, 4)`` + 1 per value, one per cycle.

    Members
    -------
    append : ``In(stream.Signature(AppendLayout))``
        Heads of appends.
    data : ``In(stream.Signature(words(lanes, 8)))``
        ``head_dim / lanes`` words for each append.
    base, kv_end : ``In(addr_bits)``, ``In(32)``
        Address that all others count from; first unit behind the pinned part of the cache.
    run : ``Out(stream.Signature(Sizes(config).run))``
        Runs.
    item : ``Out(stream.Signature(32))``
        Their items, in order.
    wide : ``In(1)``
        The run in progress takes items of more than a byte.
    busy : ``Out(1)``
        An append was accepted whose runs were not all taken.
    unpinned : ``Out(1)``
        Pulse: an append goes to memory only, not to the KV buffer.
    """
    def __init__(self, config: Config):
        self.config = config
        self.sizes = sizes = Sizes(config)
        super().__init__({
            "append": In(stream.Signature(AppendLayout)),
            "data": In(stream.Signature(words(config.lanes, 8))),
            "base": In(config.addr_bits), "kv_end": In(32),
            "run": Out(stream.Signature(sizes.run)), "item": Out(stream.Signature(32)),
            "wide": In(1), "busy": Out(1), "unpinned": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        item_log2 = min(config.lanes, 4).bit_length() - 1
        k_log2 = config.k_cols.bit_length() - 1
        stride_log2 = config.stride.bit_length() - 1

        m.submodules.serializer = serializer = Serializer(config.lanes, 1, 1 << item_log2)
        m.d.comb += [
            serializer.i.valid.eq(self.data.valid),
            serializer.i.payload.eq(self.data.payload),
            self.data.ready.eq(serializer.i.ready),
            serializer.wide.eq(self.wide),
            self.item.valid.eq(serializer.o.valid),
            self.item.payload.eq(serializer.o.payload),
            serializer.o.ready.eq(self.item.ready),
        ]

        head = Signal(AppendLayout, reset_less=True)
        block = Signal(config.addr_bits)
        offset = Signal(16)                     # of the run in the block
        left = Signal(16)                       # values that no run has
        pinned = Signal()
        v_log2 = Signal(range(stride_log2 + 1))
        v_cols = Signal(range(config.stride + 1))
        m.d.comb += [
            v_log2.eq(stride_log2 - head.v_select),
            v_cols.eq(config.stride >> head.v_select),
        ]
        run = self.run.payload
        # Not in the cycle in which the last run is taken, which is known late.
        free = ~self.run.valid
        with m.If(self.run.ready):
            m.d.sync += self.run.valid.eq(0)

        m.d.comb += self.busy.eq(1)
        with m.FSM(name="state"):
            with m.State("Idle"):
                m.d.comb += [self.append.ready.eq(1), self.busy.eq(self.run.valid)]
                m.d.sync += head.eq(self.append.payload)
                with m.If(self.append.valid):
                    m.next = "Address"

            with m.State("Address"):
                scales = 4 * KV_BLOCK
                tile = (head.token >> k_log2) * (head.head_dim << k_log2)
                k_offset = tile + (head.token & (config.k_cols - 1))
                v_offset = (head.head_dim << 5) + (head.token << v_log2)
                inside = Signal()
                m.d.comb += [
                    inside.eq(head.addr < self.kv_end if config.kv_bytes else 0),
                    self.unpinned.eq(~inside),
                ]
                m.d.sync += [
                    block.eq(self.base + (head.addr << ALIGN_LOG2)),
                    offset.eq(scales + Mux(head.value, v_offset, k_offset)),
                    left.eq(head.head_dim),
                    pinned.eq(inside),
                ]
                m.next = "Run"

            with m.State("Run"):
                with m.If(free):
                    m.d.sync += [
                        self.run.valid.eq(1),
                        run.addr.eq(block + offset),
                        run["items"].eq(Mux(head.value, v_cols >> item_log2, head.head_dim)),
                        run.step.eq(Mux(head.value, 1 << item_log2, config.k_cols)),
                        run.size.eq(Mux(head.value, item_log2, 0)),
                        run.cls.eq(CLASSES.index("kv")),
                        run.pinned.eq(pinned),
                        run.literal.eq(0),
                        offset.eq(offset + (v_cols << 5)),
                        left.eq(left - v_cols),
                    ]
                    with m.If(~head.value | (left == v_cols)):
                        m.next = "Scale"

            with m.State("Scale"):
                with m.If(free):
                    m.d.sync += [
                        self.run.valid.eq(1),
                        run.addr.eq(block + Cat(C(0, 1), head.token, head.value)),
                        run["items"].eq(1),
                        run.size.eq(1),
                        run.literal.eq(1),
                        run.value.eq(head.scale),
                    ]
                    m.next = "Idle"

        return m

"""Start of streams: one frame each, blocks in order."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import KV_BLOCK, Config
from ..interfaces import BlockLayout
from .schedule import Schedule


__all__ = ["Issue", "TagLayout"]


def TagLayout(config: Config):
    """What a stream's frame carries: it may see tokens from `low` to below `count`."""
    return data.StructLayout({
        "valid": 1,
        "stream": range(config.streams),
        "row": range(config.rows),
        "row_set": range(-(-config.streams // config.rows)),
        "count": range(KV_BLOCK + 1),
        "low": range(KV_BLOCK + 1),
        "first": 1,              # of the block: first of a K/V head
        "end": 1,                # last stream of the block
        "buffer": range(config.p_buffers),
        "scales": 2,             # slot of the scales of the block
    })


class Issue(wiring.Component):
    """Start one stream per frame.

    A block starts when its scores and scales are complete and a buffer of P is free, and not
    before the state of its stream 0 has left the pipeline. `phase` stands still at 0 while nothing
    is in flight, so that a block that comes then starts at once.

    Members
    -------
    block : ``In(stream.Signature(BlockLayout))``
        Blocks whose scores are complete.
    scales_ready : ``In(1)``
        The scales of the next block are complete.
    p_free : ``In(1)``
        A buffer of P became free.
    start : ``Out(1)``
        A block starts.
    phase, following : ``Out(range(frame))``
        Cycle of the frame, and the one that comes next.
    tag : ``Out(TagLayout(config))``
        The stream of the current frame.
    scale : ``Out(32)``
        Factor of the scores, of the current frame.
    row : ``Out(range(2 * streams))``
        Its row in the score buffer.
    release : ``Out(1)``
        All scores of a block have been read.
    busy : ``Out(1)``
        Some stream is in flight.
    """
    def __init__(self, config: Config):
        self._config = config
        self._schedule = Schedule(config)
        super().__init__({
            "block": In(stream.Signature(BlockLayout)),
            "scales_ready": In(1),
            "p_free": In(1),
            "start": Out(1),
            "phase": Out(range(self._schedule.frame)),
            "following": Out(range(self._schedule.frame)),
            "tag": Out(TagLayout(config)),
            "scale": Out(32),
            "row": Out(range(2 * config.streams)),
            "release": Out(1),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, schedule = self._config, self._schedule

        flight = Signal(schedule.frames)
        buffers = Signal(range(config.p_buffers + 1), init=config.p_buffers)
        since = Signal(range(schedule.gap), init=schedule.gap - 1)
        boundary = Signal()
        m.d.comb += [
            self.busy.eq(flight.any()),
            boundary.eq((self.phase == schedule.frame - 1) | ~self.busy),
        ]

        block, tag = self.block.payload, self.tag
        left = Signal(16)                    # streams of the block after the current one
        repeat = Signal(8)                   # further streams at the current position
        n_rep = Signal(8)
        # Tokens of the block up to the stream's own, not yet confined to the block.
        reach = Signal(signed(34))
        next_reach = Signal(signed(34))
        count = Signal(range(KV_BLOCK + 1))
        low = Signal(range(KV_BLOCK + 1))
        window = Signal(16)
        beyond = Signal(signed(35))          # tokens that are too far back for the stream
        unlimited = Signal()

        more = tag.valid & ~tag.end
        # What the next stream sees, step by step in three cycles: a frame takes longer, and a new
        # block waits for it.
        block_reach = (block.position - (block.block << 5)).as_signed() + 1
        next_window = Mux(more, window, block.window)
        known = Signal(3)
        m.d.sync += [
            known.eq(Mux(self.start | ~self.block.valid, 0, Cat(C(1, 1), known))),
            next_reach.eq(Mux(more, Mux(repeat == 0, reach + 1, reach), block_reach)),
            beyond.eq(next_reach - next_window),
            unlimited.eq(next_window == 0),
            count.eq(Mux(next_reach < 0, 0, Mux(next_reach > KV_BLOCK, KV_BLOCK, next_reach))),
            low.eq(Mux((beyond < 0) | unlimited, 0, Mux(beyond > KV_BLOCK, KV_BLOCK, beyond))),
        ]

        ready = self.scales_ready & (buffers != 0) & (since == schedule.gap - 1)
        m.d.comb += self.start.eq(boundary & ~more & known[-1] & ready)
        m.d.comb += self.block.ready.eq(self.start)
        m.d.comb += self.release.eq(self.phase == schedule.frame - 1)
        with m.If(~(tag.valid & tag.end)):
            m.d.comb += self.release.eq(0)

        parity = Signal()                    # of the buffer of scores
        buffer = Signal(range(config.p_buffers))
        slot = Signal(2)
        m.d.comb += self.following.eq(Mux(boundary, 0, self.phase + 1))
        m.d.sync += self.phase.eq(self.following)
        with m.If(boundary):
            m.d.sync += [
                flight.eq(Cat(self.start | more, flight)),
                tag.valid.eq(self.start | more),
                tag.count.eq(count), tag.low.eq(low),
                reach.eq(next_reach),
            ]
            with m.If(since != schedule.gap - 1):
                m.d.sync += since.eq(since + 1)
            with m.If(self.start):
                m.d.sync += [
                    tag.stream.eq(0), tag.row.eq(0), tag.row_set.eq(0),
                    tag.first.eq(block.first), tag.end.eq(block.streams == 1),
                    tag.buffer.eq(buffer), tag.scales.eq(slot),
                    buffer.eq(Mux(buffer == config.attn_lead, 0, buffer + 1)),
                    parity.eq(~parity), slot.eq(slot + 1),
                    self.row.eq(Mux(parity, config.streams, 0)), self.scale.eq(block.scale),
                    left.eq(block.streams - 1), window.eq(block.window),
                    repeat.eq(block.n_rep - 1), n_rep.eq(block.n_rep),
                ]
                m.d.sync += since.eq(0)
            with m.Elif(more):
                m.d.sync += [
                    tag.stream.eq(tag.stream + 1), self.row.eq(self.row + 1),
                    left.eq(left - 1), tag.end.eq(left == 1),
                    repeat.eq(Mux(repeat == 0, n_rep - 1, repeat - 1)),
                    tag.row.eq(tag.row + 1),
                ]
                with m.If(tag.row == config.rows - 1):
                    m.d.sync += [tag.row.eq(0), tag.row_set.eq(tag.row_set + 1)]

        m.d.sync += buffers.eq(buffers + self.p_free - self.start)

        return m

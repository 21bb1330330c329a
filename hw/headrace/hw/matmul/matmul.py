"""Systolic matmul unit."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..interfaces import (
    AWriteSignature,
    BlockLayout,
    CommandLayout,
    PWriteSignature,
    ResultLayout,
    SWriteSignature,
    words,
)
from .accumulator import Accumulator
from .array import SystolicArray
from .feeder import Feeder
from .layouts import SCALE_SLOTS, RowLayout, macs_bits, narrow_shape
from .ring import BlockRing
from .row_queue import RowQueue
from .scale_slots import ScaleSlots
from .tagger import RowTagger
from .unpacker import RowUnpacker
from .walker import PassWalker


__all__ = ["EventsLayout", "Matmul"]


def EventsLayout(config: Config):
    """What the unit did in a cycle: exactly one of the first six is 1.

    `first` is a pulse in the cycle before the first pass of an instruction begins to stream.
    """
    return data.StructLayout({
        "busy": 1, "wait_weights": 1, "wait_activations": 1, "wait_softmax": 1,
        "wait_accumulator": 1, "idle": 1, "first": 1,
        "macs": macs_bits(config),
        "scale_bytes": range(4 * config.stride + 1),
    })


class Matmul(wiring.Component):
    """Multiply activations by weights, or by the cache, on a systolic array.

    Executes MATMUL and ATTN; ``docs/architecture.md`` gives the arithmetic and the order,
    ``docs/matmul.md`` the stages. A pass over the array starts when its whole block is in the
    ring, its activations are complete, and its rows have room behind the array; then it runs
    without a stop, and the next one follows without a gap.

    Members
    -------
    commands : ``In(stream.Signature(CommandLayout))``
        MATMUL and ATTN.
    weights : ``In(stream.Signature(8 * stride))``
        Words for the ring, always accepted: the source has reserved the space.
    freed : ``Out(range(ring_words + 1))``
        Words of the ring that became free in this cycle.
    a_write, s_write : ``In(AWriteSignature)``, ``In(SWriteSignature)``
        Write ports of activations and of their scales.
    a_ready : ``In(1)``
        Pulse: activations are complete, a token for an instruction with `wait_a`.
    results : ``Out(stream.Signature(ResultLayout))``
        Rows of MATMUL, and of ATTN after the last block of a head.
    scores : ``Out(stream.Signature(ArrayLayout(32, lanes)))``
        Scores of K blocks.
    blocks : ``Out(stream.Signature(BlockLayout))``
        One entry per K block, before its scores.
    p_write : ``In(PWriteSignature)``
        Probabilities. At most `p_buffers` blocks are complete and not freed; the buffers take
        turns.
    p_free : ``Out(1)``
        Pulse: the oldest block of probabilities is not needed any more.
    events : ``Out(EventsLayout)``
        For counters.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "commands": In(stream.Signature(CommandLayout)),
            "weights": In(stream.Signature(8 * config.stride)),
            "freed": Out(range(config.ring_words + 1)),
            "a_write": In(AWriteSignature(config)),
            "s_write": In(SWriteSignature(config)),
            "a_ready": In(1),
            "results": Out(stream.Signature(ResultLayout(config))),
            "scores": Out(stream.Signature(words(config.lanes))),
            "blocks": Out(stream.Signature(BlockLayout)),
            "p_write": In(PWriteSignature(config)),
            "p_free": Out(1),
            "events": Out(EventsLayout(config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Room behind the array for two full passes, so that one can start while one drains.
        depth = 1 << max(4, (2 * config.rows - 1).bit_length())

        m.submodules.walker = walker = PassWalker(config)
        m.submodules.ring = ring = BlockRing(config)
        m.submodules.unpacker = unpacker = RowUnpacker(config)
        m.submodules.feeder = feeder = Feeder(config)
        m.submodules.array = array = SystolicArray(config)
        m.submodules.tagger = tagger = RowTagger(config)
        m.submodules.slots = slots = ScaleSlots(config)
        sums_bits = config.cols * config.sum_bits
        m.submodules.sums = sums = RowQueue(unsigned(sums_bits + array.act_sum_bits), depth)
        m.submodules.rows = rows = RowQueue(RowLayout(config), depth)
        m.submodules.accumulator = accumulator = Accumulator(config)

        connect(m, walker.commands, flipped(self.commands))
        connect(m, walker.blocks, flipped(self.blocks))
        connect(m, ring.i, flipped(self.weights))
        connect(m, feeder.a_write, flipped(self.a_write))
        connect(m, tagger.s_write, flipped(self.s_write))
        connect(m, accumulator.results, flipped(self.results))
        connect(m, accumulator.scores, flipped(self.scores))

        # Tokens: activations and blocks of probabilities that are complete, by number.
        work = walker.passes.payload
        start = Signal()
        a_tokens = Signal(8)
        p_tokens = Signal(range(config.p_buffers + 1))
        p_next = Signal(range(config.p_buffers))     # buffer of the next V block
        p_buffer = Signal.like(p_next)               # ... of the present one
        buffer = Signal.like(p_next)
        take_p = start & work.wait_p
        m.d.sync += [a_tokens.eq(a_tokens + self.a_ready - (start & work.wait_a)),
                     p_tokens.eq(p_tokens + self.p_write.done - take_p)]
        with m.If(take_p):
            m.d.sync += p_next.eq(Mux(p_next == config.attn_lead, 0, p_next + 1))
        m.d.comb += buffer.eq(Mux(work.wait_p, p_next, p_buffer))
        with m.If(start):
            m.d.sync += p_buffer.eq(buffer)

        # Room: rows behind the array, slots for weight scales.
        room = Signal(range(depth + 1), init=depth)
        slots_used = Signal(range(SCALE_SLOTS + 1))
        next_slot = Signal(range(SCALE_SLOTS))
        slot = Signal.like(next_slot)
        opens_slot = work.opens & ~work.attn
        present = Mux(opens_slot, next_slot, slot)
        release = accumulator.take & accumulator.row.release
        m.d.sync += [
            room.eq(room - Mux(start, work.rows, 0) + accumulator.take),
            slots_used.eq(slots_used + (start & opens_slot) - release),
        ]
        with m.If(start):
            m.d.sync += slot.eq(present)
            with m.If(opens_slot):
                m.d.sync += next_slot.eq(next_slot + 1)

        # The pass on the array: `spacing` counts its cycles, `run` those that stream.
        run = Signal()
        index = Signal(7)
        length = Signal(8)
        spacing = Signal(8)
        steps = Signal(8)                # cycles of the next pass
        walk = Signal(2)
        fold = Signal.like(work.fold)
        narrow = Signal(narrow_shape(config))
        nibbles = Signal()
        affine = Signal()
        short_header = Signal()          # one word of scales, one of minima
        used = Signal.like(work.rows)
        active = Signal()
        closes = Signal()
        frees_p = Signal()
        block_words = Signal.like(work.words)
        m.d.comb += [run.eq(active & (index < length)), steps.eq(work.length >> work.fold)]
        ends = active & (spacing == 0)

        # Cycles until the last row of the pass before has left the array. Where passes can be
        # shorter than the array is deep, a short one must not end before that.
        draining = Signal()
        if config.rows > 16 // config.folds:
            due = Signal(9)
            m.d.comb += draining.eq(due > steps)
            with m.If(start):
                m.d.sync += due.eq(steps + work.rows - 1)
            with m.Elif(due != 0):
                m.d.sync += due.eq(due - 1)

        blocked = Signal(4)
        clear = Signal()                 # nothing blocks the next pass
        m.d.comb += [
            blocked[0].eq(work.wait_a & (a_tokens == 0)),
            blocked[1].eq(work.wait_p & (p_tokens == 0)),
            blocked[2].eq(work.opens & (ring.available < work.words)),
            blocked[3].eq((room < work.rows) | (opens_slot & (slots_used == SCALE_SLOTS))
                          | draining),
            start.eq(clear & (spacing == 0)),
            walker.passes.ready.eq(start),
        ]
        # A cycle later than what it follows from, which only the start of a pass makes untrue.
        m.d.sync += clear.eq(walker.passes.valid & ~start & ~blocked.any())
        with m.If(start):
            m.d.sync += [
                active.eq(1), index.eq(0), length.eq(steps), walk.eq(work.select - work.fold),
                fold.eq(work.fold), narrow.eq(work.narrow),
                spacing.eq(Mux(steps < work.rows, work.rows, steps) - 1),
                nibbles.eq(work.nibbles), affine.eq(work.affine), used.eq(work.rows),
                short_header.eq(work.narrow != 0),
                closes.eq(work.closes), frees_p.eq(work.free_p), block_words.eq(work.words),
            ]
        with m.Elif(active):
            m.d.sync += [index.eq(index + 1), spacing.eq(spacing - 1)]
            with m.If(ends):
                m.d.sync += [active.eq(0), spacing.eq(0)]
        m.d.sync += [self.freed.eq(Mux(ends & closes, block_words, 0)),
                     self.p_free.eq(ends & frees_p)]

        # Stage 0: addresses.
        word_masks = Array((1 << value) - 1 for value in range(4))
        m.d.comb += [
            ring.start.eq(start), ring.opens.eq(work.opens), ring.words.eq(work.words),
            ring.header.eq(work.header), ring.fetch.eq(run & ((index & word_masks[walk]) == 0)),
            feeder.start.eq(start), feeder.addr.eq(work.addr), feeder.from_p.eq(work.v),
            feeder.buffer.eq(buffer), feeder.fold.eq(fold),
            feeder.fetch.eq(run & ((index & (C(config.lanes - 1) >> fold)) == 0)),
            feeder.p_en.eq(self.p_write.p_en), feeder.p_buffer.eq(self.p_write.buffer),
            feeder.p_addr.eq(self.p_write.p_addr), feeder.p_row.eq(self.p_write.p_row),
            feeder.p_data.eq(self.p_write.p_data),
            tagger.p_en.eq(self.p_write.scale_en), tagger.p_buffer.eq(self.p_write.buffer),
            tagger.p_stream.eq(self.p_write.stream), tagger.p_scale.eq(self.p_write.scale),
            tagger.start.eq(start), tagger.work.eq(work), tagger.buffer.eq(buffer),
            tagger.slot.eq(present),
        ]
        # Stage 1: words; stage 2: rows of weights and of activations, which enter the array.
        streaming = [run]
        last = [run & (index + 1 == length)]
        uses = [used]
        narrows = [narrow]
        for stage in range(1, 3):
            for chain, name in ((streaming, "streaming"), (last, "last"), (uses, "used"),
                                (narrows, "narrow")):
                register = Signal(chain[-1].shape(), name=f"{name}_{stage}")
                m.d.sync += register.eq(chain[-1])
                chain.append(register)
        m.d.sync += [unpacker.fresh.eq(ring.fetch), unpacker.walk.eq(walk),
                     unpacker.nibbles.eq(nibbles), unpacker.affine.eq(affine)]
        m.d.comb += [
            unpacker.word.eq(ring.word),
            array.weights.eq(unpacker.o), array.acts.eq(feeder.o), array.valid.eq(streaming[2]),
            array.last.eq(last[2]), array.used.eq(uses[2]), array.narrow.eq(narrows[2]),
            slots.en.eq(ring.header_valid), slots.slot.eq(slot), slots.header.eq(ring.header_word),
            slots.index.eq(Mux(short_header, ring.header_index << 1, ring.header_index)),
        ]

        # Behind the array: the description of a row is there before its sums, and much depends on
        # it, so the oldest one is in a register.
        row = Signal(RowLayout(config), reset_less=True)
        row_valid = Signal()
        m.d.comb += rows.take.eq(rows.valid & (~row_valid | accumulator.take))
        with m.If(~row_valid | accumulator.take):
            m.d.sync += [row_valid.eq(rows.valid), row.eq(rows.o)]
        m.d.comb += [
            sums.en.eq(array.o_valid), sums.i.eq(Cat(array.o, array.o_acts)),
            rows.en.eq(tagger.o_valid), rows.i.eq(tagger.o),
            sums.take.eq(accumulator.take),
            accumulator.row_valid.eq(sums.valid & row_valid), accumulator.row.eq(row),
            accumulator.following.eq(Mux(row_valid & ~accumulator.take, row.addr, rows.o.addr)),
            Value.cast(accumulator.sums).eq(sums.o[:sums_bits]),
            accumulator.act_sum.eq(sums.o[sums_bits:]),
            slots.read_slot.eq(row.slot), slots.read_word.eq(accumulator.word),
            accumulator.scales.eq(slots.scales), accumulator.minima.eq(slots.minima),
        ]

        # Events. Causes in the order in which they come about; a pass with more rows than
        # length holds the array for its rows.
        events = self.events
        with m.If(run):
            m.d.comb += events.busy.eq(1)
        with m.Elif(active & ~ends):
            m.d.comb += events.wait_accumulator.eq(1)
        with m.Elif(walker.waits_block):
            m.d.comb += events.wait_softmax.eq(1)
        with m.Elif(~walker.passes.valid):
            m.d.comb += events.idle.eq(1)
        with m.Elif(blocked[0]):
            m.d.comb += events.wait_activations.eq(1)
        with m.Elif(blocked[1]):
            m.d.comb += events.wait_softmax.eq(1)
        with m.Elif(blocked[2]):
            m.d.comb += events.wait_weights.eq(1)
        with m.Elif(blocked[3]):
            m.d.comb += events.wait_accumulator.eq(1)
        with m.Else():
            # A pass starts on an array that was empty: its first cycle is not this one.
            m.d.comb += events.idle.eq(1)
        m.d.comb += [events.macs.eq(tagger.macs), events.first.eq(start & work.s_start),
                     events.scale_bytes.eq(Mux(start & work.opens,
                                               work.header * config.stride, 0))]

        return m

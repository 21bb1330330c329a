"""The softmax pipeline."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..formats import ACT_MAX, INV_ACT_MAX_BITS, fp32_bits
from ..fp import Multiplier, Reciprocal
from ..interfaces import BlockLayout, PWriteSignature, words
from .exponent import Exponent
from .frame import Frame
from .issue import Issue
from .quantiser import Quantiser
from .reduction import Reduction
from .scales import ScaleBuffer
from .schedule import Schedule
from .scores import ScoreBuffer


__all__ = ["EventLayout", "Softmax"]


#: What the pipeline did in a cycle: exactly one is 1.
EventLayout = data.StructLayout({"busy": 1, "idle": 1})


class Softmax(wiring.Component):
    """Online softmax over blocks of 32 tokens, and quantisation of its probabilities.

    The arithmetic is that of ATTN in `docs/architecture.md`, the stages and their times are in
    `docs/softmax.md`. A stream of a block takes ``32 / lanes + 1`` cycles, where `lanes` is the
    smaller of ``config.softmax_lanes`` and ``config.lanes``. The first result follows
    `Schedule.done` cycles after the block has started. What is written for a NaN or an infinity
    among visible scores follows from the arithmetic; `inv_sum` is written for every block.

    Members
    -------
    blocks : ``In(stream.Signature(BlockLayout))``
        Blocks, each announced before its scores.
    scores : ``In(stream.Signature(words(lanes)))``
        For each block, for each K tile, for each stream, ``k_cols / lanes`` words.
    kv_scales : ``In(stream.Signature(words(softmax_lanes, 16)))``
        For each block 32 K scales, then 32 V scales, fp16.
    p_write : ``Out(PWriteSignature(config))``
        Results. They are never held up: a block starts when a buffer is free.
    p_free : ``In(1)``
        Pulse: the oldest of the `p_buffers` buffers of P became free.
    events : ``Out(EventLayout)``
        State of the cycle.
    """
    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "blocks": In(stream.Signature(BlockLayout)),
            "scores": In(stream.Signature(words(config.lanes))),
            "kv_scales": In(stream.Signature(words(config.softmax_lanes, 16))),
            "p_write": Out(PWriteSignature(config)),
            "p_free": In(1),
            "events": Out(EventLayout),
        })

    def elaborate(self, platform):
        m = Module()
        config, schedule = self._config, Schedule(self._config)
        lanes = schedule.lanes

        m.submodules.buffer = buffer = ScoreBuffer(config)
        m.submodules.scale_buffer = scales = ScaleBuffer(config)
        m.submodules.issue = issue = Issue(config)
        connect(m, flipped(self.blocks), buffer.block_i)
        connect(m, flipped(self.scores), buffer.scores)
        connect(m, flipped(self.kv_scales), scales.i)
        connect(m, buffer.block_o, issue.block)
        frame = Frame(m, issue.following, schedule.frame)
        m.d.comb += [
            issue.scales_ready.eq(scales.ready), issue.p_free.eq(self.p_free),
            scales.start.eq(issue.start), scales.done.eq(self.p_write.done),
            buffer.release.eq(issue.release),
            self.events.busy.eq(issue.busy), self.events.idle.eq(~issue.busy),
        ]

        # The arithmetic rests when the last stream has passed: less power, and a simulator skips
        # what does not move. A few cycles later than its frames say, when all marks are gone.
        lingers = Signal(3)
        awake = Signal()
        m.d.comb += awake.eq(issue.busy | (lingers != 0))
        with m.If(issue.busy):
            m.d.sync += lingers.eq(-1)
        with m.Elif(lingers != 0):
            m.d.sync += lingers.eq(lingers - 1)

        # Scores and K scales, step by step; a word of scores has several steps.
        exponent = Exponent(config)
        m.submodules.exponent = EnableInserter(awake)(exponent)
        parts = config.lanes // lanes
        # Memories of scales are slow to answer, hence a register behind them.
        k_step = Signal(range(schedule.steps))
        part = Signal(range(parts))
        m.d.comb += k_step.eq(issue.phase)
        m.d.sync += [part.eq(issue.phase), exponent.k_scale.eq(scales.k)]
        k_tag = frame.hold(issue.tag, 0, 1, "k_tag")
        score = Signal(words(lanes))
        m.d.sync += score.eq(buffer.data.as_value().word_select(part, 32 * lanes))
        m.d.comb += [
            buffer.row.eq(issue.row),
            buffer.word.eq(issue.phase >> (parts.bit_length() - 1)),
            scales.k_addr.eq(Cat(k_step, issue.tag.scales)),
            exponent.following.eq(issue.following), exponent.tag.eq(issue.tag),
            exponent.scale.eq(issue.scale),
            exponent.score.eq(score),
        ]

        # Probabilities, weighted by the V scales.
        v_tag = frame.hold(k_tag, 1, schedule.p - 2, "v_tag")
        p_tag = frame.hold(v_tag, schedule.p - 2, schedule.p - 1, "p_tag")
        v_step = frame.step(schedule.p - 2, "v_step")
        quantiser = Quantiser(config)
        m.submodules.quantiser = EnableInserter(awake)(quantiser)
        m.d.comb += [
            scales.v_addr.eq(Cat(v_step[:(schedule.steps - 1).bit_length()], v_tag.scales)),
            quantiser.following.eq(issue.following),
            quantiser.tag.eq(frame.hold(p_tag, schedule.p - 1, schedule.p, "weight_tag")),
            quantiser.p.eq(exponent.o),
        ]
        m.d.sync += quantiser.v_scale.eq(scales.v)

        # Sum of the state: decayed, added to, written back.
        rescale = frame.catch(exponent.o[0], schedule.rescale, "rescale")
        m.submodules.state = state = Memory(shape=32, depth=config.streams, init=[])
        old, new = state.read_port(), state.write_port()
        old_tag = frame.hold(p_tag, schedule.p - 1, schedule.decay - 1, "old_tag")
        new_tag = frame.hold(old_tag, schedule.decay - 1, schedule.sum, "new_tag")
        # The read is one cycle before the product.
        first = frame.hold(old_tag.first, schedule.decay - 1, schedule.decay, "first")
        reduction = Reduction(config)
        m.submodules.reduction = EnableInserter(awake)(reduction)
        m.submodules.product = product = Multiplier()
        m.submodules.reciprocal = reciprocal = Reciprocal()
        m.d.comb += [
            old.addr.eq(old_tag.stream),
            reduction.following.eq(issue.following), reduction.p.eq(exponent.o),
            reduction.carry.eq(frame.catch(product.o, schedule.decay + Multiplier.latency,
                                           "decayed")),
            new.en.eq(frame.at(schedule.sum) & new_tag.valid),
            new.addr.eq(new_tag.stream), new.data.eq(reduction.o),
        ]

        # Operations once per stream share one multiplier and one reciprocal.
        total = frame.catch(reduction.o, schedule.sum, "total")
        inverse = frame.catch(reciprocal.o, schedule.rcp_amax + Reciprocal.latency, "inverse")
        rcp_amax = frame.hold(quantiser.amax, schedule.amax, schedule.rcp_amax, "rcp_amax")
        rcp_total = frame.hold(total, schedule.sum + 1, schedule.rcp_sum, "rcp_total")
        inverse = frame.hold(inverse, schedule.rcp_amax + Reciprocal.latency + 1,
                             schedule.inverse, "inverse_held")
        amax = frame.hold(quantiser.amax, schedule.amax, schedule.act_scale, "amax_held")
        rescale = frame.hold(rescale, schedule.p, schedule.decay, "rescale_held")
        m.d.comb += [
            reciprocal.en.eq(awake),
            reciprocal.a.eq(Mux(frame.at(schedule.rcp_sum), rcp_total, rcp_amax)),
            product.en.eq(awake), product.a.eq(inverse), product.b.eq(fp32_bits(ACT_MAX)),
        ]
        with m.If(frame.at(schedule.act_scale)):
            m.d.comb += [product.a.eq(amax), product.b.eq(INV_ACT_MAX_BITS)]
        with m.If(frame.at(schedule.decay)):
            m.d.comb += [product.a.eq(Mux(first, 0, old.data)), product.b.eq(rescale)]
        ratio = frame.catch(product.o, schedule.inverse + Multiplier.latency, "ratio")
        m.d.comb += quantiser.ratio.eq(
            frame.hold(ratio, schedule.inverse + Multiplier.latency + 1, schedule.ratio, "ratio"))

        q_tag = frame.hold(old_tag, schedule.decay - 1, schedule.q, "q_tag")
        self._write(m, frame, schedule, q_tag, quantiser.q, {
            "act_scale": (product.o, schedule.act_scale + Multiplier.latency),
            "rescale": (exponent.o[0], schedule.rescale),
            "inv_sum": (reciprocal.o, schedule.rcp_sum + Reciprocal.latency),
        })

        return m

    def _write(self, m, frame, schedule, tag, q, factors):
        """Collect words of P and write them, and the factors while P is written."""
        config, write = self._config, self.p_write
        parts = config.lanes // schedule.lanes
        step = frame.step(schedule.q, "q_step")
        part = step[:parts.bit_length() - 1]
        word = step[parts.bit_length() - 1:(schedule.steps - 1).bit_length()]
        within = frame.within(schedule.q, schedule.steps) & tag.valid
        # The oldest step leaves at the low end, as step by step enters at the high one.
        m.d.sync += write.p_data.eq(Cat(write.p_data, q)[len(q.as_value()):])
        m.d.sync += [
            write.p_en.eq(within & (part == parts - 1)),
            write.p_addr.eq(Cat(word, tag.row_set)),
            write.p_row.eq(tag.row), write.buffer.eq(tag.buffer),
            write.scale_en.eq(frame.at(schedule.factors) & tag.valid),
            write.stream.eq(tag.stream),
        ]
        for name, (value, offset) in factors.items():
            held = frame.catch(value, offset, f"{name}_caught")
            m.d.sync += write.scale[name].eq(
                frame.hold(held, offset + 1, schedule.factors, f"{name}_write"))
        complete = Signal()
        m.d.sync += complete.eq(frame.at(schedule.done - 1) & tag.valid & tag.end)
        m.d.sync += write.done.eq(complete)


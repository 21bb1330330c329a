"""fp32 accumulation of integer sums."""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..formats import FP32
from ..fp import Adder, FromFP16, FromInt, Multiplier
from ..fp.pipeline import Pipeline
from ..interfaces import ResultLayout, words
from .layouts import RowLayout, fold_log2, narrow_values
from .row_queue import RowQueue


__all__ = ["Accumulator"]


#: fp16 1.0: the weight scale of attention. A product by one changes no bit that is used, as the
#: next operation reads subnormals as zeros and any NaN as the canonical one.
_ONE_FP16 = 0x3c00

#: -0, the addend that changes nothing, not even the sign of a zero.
_NOTHING = FP32.sign_mask


class Accumulator(wiring.Component):
    """Scale rows of sums and add them up, `lanes` columns per cycle.

    ``acc = add(mul(acc, rescale), mul(from_int(sum), mul(act_scale, w_scale)))``, then for affine
    weights ``acc = add(acc, mul(mul(act_scale, from_int(act_sum)), w_min))``; a `first` row begins
    with +0, and a `last` row leaves instead of being stored. Weight scales are 1 in attention.

    A row takes as many cycles as it has words. A word that is still in the pipeline is not read:
    the next row then waits, and nothing else does. When an output is full, or nothing is inside,
    the whole pipeline stands still.

    Latency: `latency` cycles from a row to its result.

    Members
    -------
    row_valid, take : ``In(1)``, ``Out(1)``
        There is a row; its last word was taken.
    row : ``In(RowLayout(config))``
        Description of the row.
    following : ``In(range(acc_words))``
        `addr` of the row of the next cycle, looked at while there is none or it is taken.
    sums, act_sum : ``In(ArrayLayout(signed(sum_bits), cols))``, ``In(signed(sum_bits - 7))``
        Sums of the row, and sum of its activations.
    word : ``Out(range(cols // lanes))``
        Word of the row that is taken, for reading its scales.
    scales, minima : ``In(ArrayLayout(16, lanes))``
        fp16 scales and minima of that word.
    results, scores : ``Out(stream)``
        Rows that leave.
    """
    def __init__(self, config: Config):
        self.config = config
        # Made here, since their width decides their latency.
        self._from_sums = [FromInt(config.sum_bits) for _ in range(config.lanes)]
        self._from_act_sum = FromInt(config.sum_bits - 7)
        self._from_sum = self._from_sums[0].latency
        #: Cycles from a word of sums to its product, and to its result before the queue.
        self.product = (max(self._from_sum, FromFP16.latency + Multiplier.latency)
                        + Multiplier.latency)
        self.latency = 1 + self.product + 2 * Adder.latency
        #: Cycles from the read of a word of storage to the first read of what was written then.
        self.loop = 2 + Multiplier.latency + 2 * Adder.latency + 1
        super().__init__({
            "row_valid": In(1), "take": Out(1), "row": In(RowLayout(config)),
            "following": In(range(config.acc_words)),
            "sums": In(data.ArrayLayout(signed(config.sum_bits), config.cols)),
            "act_sum": In(signed(config.sum_bits - 7)),
            "word": Out(range(config.col_words)),
            "scales": In(words(config.lanes, 16)), "minima": In(words(config.lanes, 16)),
            "results": Out(stream.Signature(ResultLayout(config))),
            "scores": Out(stream.Signature(words(config.lanes))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        lanes, col_words = config.lanes, config.col_words

        en = Signal()
        pipe = Pipeline(m, en)

        def unit(component, *, name, **operands):
            m.submodules[name] = component
            m.d.comb += [component.en.eq(en),
                         *(getattr(component, port).eq(value)
                           for port, value in operands.items())]
            return component.o

        def delay(value, stages, name):
            return pipe.reg(value, name, stages=stages) if stages else value

        # Take a word.
        m.submodules.row_scales = row_scales = RowQueue(unsigned(32), 16)
        row = self.row
        word = Signal(range(col_words))
        addr = Signal(range(config.acc_words))
        final = Signal()
        go = Signal()
        m.d.comb += [self.word.eq(word), addr.eq(row.addr + word), final.eq(word + 1 == row.words)]
        # Words in flight that will be written. The low bits of an address tell words apart: a
        # false match costs a cycle and no more.
        tag_bits = min(len(addr), 5)
        flights = [Signal(1 + tag_bits, name=f"flight_{i}") for i in range(self.loop - 1)]
        # The comparison is for the next cycle, as everything waits for what it says.
        tag, next_tag = Signal(tag_bits), Signal(tag_bits)
        clash = Signal()
        result_row = row.last & ~row.scores
        m.d.comb += next_tag.eq(Mux(self.row_valid & ~self.take,
                                    Mux(en & go, tag + 1, tag), self.following))
        matches = Cat((flight == Cat(C(1, 1), next_tag)) for flight in flights)
        m.d.sync += [tag.eq(next_tag), clash.eq(matches[:-1].any() | Mux(
            en, go & ~row.last & (tag == next_tag), matches[-1]))]
        m.d.comb += go.eq(self.row_valid & (row.first | ~clash)
                          & ~(result_row & row_scales.full))
        with m.If(en):
            m.d.sync += [flight.eq(before) for flight, before in zip(flights, [
                Mux(go & ~row.last, Cat(C(1, 1), tag), 0), *flights])]
            with m.If(go):
                m.d.sync += word.eq(Mux(final, 0, word + 1))
        m.d.comb += [self.take.eq(en & go & final), row_scales.i.eq(row.row_scale),
                     # With the first word: a long row leaves before its last word has entered.
                     row_scales.en.eq(en & go & result_row & (word == 0))]

        groups = [pipe.reg(self._group(m, j, row, word), f"sums_{j}")
                  for j in range(config.folds)]
        scales = [pipe.reg(Mux(row.scaled, self.scales[i], _ONE_FP16), f"scale_{i}")
                  for i in range(lanes)]
        minima = [pipe.reg(self.minima[i], f"minimum_{i}") for i in range(lanes)]
        act_scale = pipe.reg(row.act_scale, "act_scale")
        act_sum = pipe.reg(self.act_sum, "act_sum")
        rescale = pipe.reg(row.rescale, "rescale")

        # Control, one entry per stage from here on.
        stages = self.latency
        valid = [Signal(name=f"valid_{i}") for i in range(stages)]
        # Something comes or is under way. The pipeline rests without it: less power, and a
        # simulator skips what does not move.
        moving = Signal()
        awake = Signal()
        m.d.sync += awake.eq(self.row_valid | moving)
        with m.If(en):
            m.d.sync += [Cat(valid).eq(Cat(go, valid[:-1])),
                         moving.eq(Cat(go, valid[:-1]).any())]
        read_at = self.product - Multiplier.latency - 2
        add_at = self.product + Adder.latency

        def control(value, name, begin, end):
            chain = {begin: value}
            for stage in range(begin + 1, end + 1):
                chain[stage] = pipe.reg(chain[stage - 1], f"{name}_{stage}")
            return chain

        addrs = control(pipe.reg(addr, "addr_0"), "addr", 0, stages - 1)
        firsts = control(pipe.reg(row.first, "first_0"), "first", 0, read_at + 1)
        lasts = control(pipe.reg(row.last, "last_0"), "last", 0, stages - 1)
        scores = control(pipe.reg(row.scores, "scores_0"), "scores", 0, stages - 2)
        finals = control(pipe.reg(final, "final_0"), "final", 0, stages - 1)
        affines = control(pipe.reg(row.affine, "affine_0"), "affine", 0, add_at)

        # Storage.
        m.submodules.storage = storage = memory.Memory(shape=unsigned(32 * lanes),
                                                       depth=config.acc_words, init=[])
        read = storage.read_port()
        write = storage.write_port()
        m.d.comb += [read.addr.eq(addrs[read_at]), read.en.eq(en),
                     write.addr.eq(addrs[stages - 1]),
                     write.en.eq(en & valid[-1] & ~lasts[stages - 1])]

        # Lanes. The numbers are stages, counted from the registers above.
        rescale = delay(rescale, read_at + 2, "rescale_late")
        scale_act = delay(act_scale, FromFP16.latency, "act_scale_late")
        act_total = unit(self._from_act_sum, name="from_act_sum", a=act_sum)
        act_late = self._from_act_sum.latency
        act_total = unit(Multiplier(), name="act_sum_scale", a=act_total,
                         b=delay(act_scale, act_late, "act_scale_sum"))
        act_late += Multiplier.latency
        totals = []
        for i in range(lanes):
            part = slice(i * config.sum_bits, (i + 1) * config.sum_bits)
            late = self.product - Multiplier.latency
            # Column groups are added pairwise, in stages that their sum would wait for anyway.
            parts = [group[part].as_signed() for group in groups]
            spare = late - self._from_sum
            while len(parts) > 1:
                parts = [delay((a + b)[:config.sum_bits].as_signed(), min(spare, 1),
                               f"added_{i}_{len(parts)}_{j}")
                         for j, (a, b) in enumerate(zip(parts[::2], parts[1::2]))]
                spare = max(0, spare - 1)
            number = unit(self._from_sums[i], name=f"from_sum_{i}",
                          a=delay(parts[0], spare, f"sum_late_{i}"))
            factor = unit(Multiplier(), name=f"scale_mul_{i}", a=scale_act,
                          b=unit(FromFP16(), name=f"from_scale_{i}", a=scales[i]))
            factor = delay(factor, late - FromFP16.latency - Multiplier.latency, f"factor_{i}")
            product = unit(Multiplier(), name=f"sum_mul_{i}", a=number, b=factor)
            # Block memory is slow to answer, hence the register.
            old = pipe.reg(Mux(firsts[read_at + 1], 0, read.data[32 * i:32 * (i + 1)]), f"old_{i}")
            kept = unit(Multiplier(), name=f"rescale_mul_{i}", a=old, b=rescale)
            total = unit(Adder(), name=f"add_{i}", a=kept, b=product)
            minimum = unit(FromFP16(), name=f"from_minimum_{i}",
                           a=delay(minima[i], act_late - FromFP16.latency, f"minimum_late_{i}"))
            minimum = unit(Multiplier(), name=f"minimum_mul_{i}", a=act_total, b=minimum)
            minimum = delay(minimum, add_at - act_late - Multiplier.latency, f"minimum_late2_{i}")
            total = unit(Adder(), name=f"add_minimum_{i}", a=total,
                         b=Mux(affines[add_at], minimum, _NOTHING))
            totals.append(total)
        total = Cat(totals)

        # Out.
        m.submodules.result_queue = results = RowQueue(ResultLayout(config), 4)
        m.submodules.score_queue = score_queue = RowQueue(words(lanes), 4)
        # Everything waits for `en`: no more than a level of logic in front of it.
        to_scores, to_results = Signal(), Signal()
        with m.If(en):
            leaves = valid[-2] & lasts[stages - 2]
            m.d.sync += [to_scores.eq(leaves & scores[stages - 2]),
                         to_results.eq(leaves & ~scores[stages - 2])]
        m.d.comb += [
            write.data.eq(total), Value.cast(results.i.values).eq(total),
            results.i.row_scale.eq(row_scales.o), Value.cast(score_queue.i).eq(total),
            en.eq(awake & ~(to_scores & score_queue.full) & ~(to_results & results.full)),
            score_queue.en.eq(en & to_scores),
            results.en.eq(en & to_results),
            row_scales.take.eq(results.en & finals[stages - 1]),
            self.results.valid.eq(results.valid), self.results.payload.eq(results.o),
            results.take.eq(results.valid & self.results.ready),
            self.scores.valid.eq(score_queue.valid), self.scores.payload.eq(score_queue.o),
            score_queue.take.eq(score_queue.valid & self.scores.ready),
        ]

        return m

    def _group(self, m, j, row, word):
        """Word of the sums of column group `j`; zero if the tile is not folded so often."""
        config = self.config
        lanes = config.lanes
        sums = Signal(lanes * config.sum_bits, name=f"group_{j}")

        def choose(first, count):
            with m.Switch(word):
                for w in range(count):
                    with m.Case(w) if w < count - 1 else m.Default():
                        m.d.comb += sums.eq(Cat(self.sums[(first + w) * lanes + i]
                                                for i in range(lanes)))

        if j == 0:
            choose(0, config.col_words)
            return sums
        with m.Switch(row.narrow):
            for narrow in narrow_values(config):
                if j >> fold_log2(config, narrow) == 0:
                    words = (config.stride >> narrow) // lanes
                    with m.Case(narrow):
                        choose(j * words, words)
        return sums

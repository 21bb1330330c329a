"""Quantisation of groups of values to int8, in a stream."""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..formats import ACT_MAX, FP16, INV_ACT_MAX_BITS, ONE_BITS, fp32_bits
from ..fp import FromFP16, Multiplier, Reciprocal, ToFP16, ToInt8
from ..interfaces import words


__all__ = ["QuantisedLayout", "Quantiser"]


def QuantisedLayout(lanes):
    """A word of a quantised group and the group's scale, in fp32 or in the low half fp16."""
    return data.StructLayout({"values": words(lanes, 8), "first": 1, "last": 1, "scale": 32})


class Quantiser(wiring.Component):
    """Quantises groups of words: one word in and one word out per cycle.

    A group waits in a memory while its greatest magnitude, its scale and the reciprocal are
    found; the next groups enter meanwhile. Per group of activations
    ``amax = abs_max(y)``, ``scale = mul(amax, 1 / 127)``, ``q = to_int8(mul(y, mul(rcp(amax),
    127)))``, as :func:`headrace.sw.numerics.quantise`; per vector of the cache
    ``scale = to_fp16(mul(amax, 1 / 127))``, ``q = to_int8(mul(y, rcp(from_fp16(scale))))``, and 0
    where the scale is 0, as :func:`headrace.sw.numerics.quantise_kv`.

    Latency: :attr:`latency` cycles from the last word of a group to its first word in `o`, longer
    while earlier groups leave. There is no back-pressure at the input: whoever sends must have at
    most :attr:`depth` words and `groups` groups inside, counted from the input to `taken` and to
    the last word in `o`.

    Parameters
    ----------
    config : Config
        `lanes`, and the longest group: `group` or `head_dim`.
    groups : int
        Groups that may be inside, a power of two.

    Members
    -------
    cache : ``In(1)``
        fp16 scale of a vector of the cache; constant while anything is inside.
    valid, last : ``In(1)``
        `values` holds a word; it is the last of its group.
    values : ``In(words(lanes))``
        fp32 values.
    taken : ``Out(1)``
        Pulse: a word has left the memory.
    o : ``Out(stream.Signature(QuantisedLayout(lanes)))``
        Words of all groups, in order.
    """
    def __init__(self, config: Config, *, groups=32):
        self.lanes = config.lanes
        self.groups = groups
        self.longest = max(config.block, config.head_dim) // config.lanes
        super().__init__({
            "cache": In(1), "valid": In(1), "last": In(1), "values": In(words(self.lanes)),
            "taken": Out(1), "o": Out(stream.Signature(QuantisedLayout(self.lanes))),
        })

    @property
    def depth(self):
        """Words that the memory holds: a group, what enters while its scale is found, and what
        the sender has under way."""
        return 1 << (self.longest + 47).bit_length()

    @property
    def levels(self):
        """Levels of the tree over the lanes of a word."""
        return (self.lanes - 1).bit_length()

    @property
    def latency(self):
        """Cycles from the last word of a group of activations to its first word in `o`."""
        found = 1 + self.levels + Reciprocal.latency + Multiplier.latency + 1
        return found + 3 + Multiplier.latency + ToInt8.latency

    def elaborate(self, platform):
        m = Module()

        # Words wait here.
        m.submodules.waiting = waiting = memory.Memory(
            shape=unsigned(32 * self.lanes), depth=self.depth, init=[])
        w_write, w_read = waiting.write_port(), waiting.read_port()
        m.d.comb += [w_write.data.eq(self.values.as_value()), w_write.en.eq(self.valid)]
        with m.If(self.valid):
            m.d.sync += w_write.addr.eq(w_write.addr + 1)

        # Greatest magnitude: a tree over the lanes, then over the words of the group.
        level = [value[:-1] for value in self.values]
        tree_valid, tree_last = self.valid, self.last
        for number in range(self.levels):
            greater = []
            for pair, (low, high) in enumerate(zip(level[::2], level[1::2])):
                winner = Signal(31, name=f"max{number}_{pair}", reset_less=True)
                m.d.sync += winner.eq(Mux(high > low, high, low))
                greater.append(winner)
            level = greater
            next_valid = Signal(name=f"valid{number}")
            next_last = Signal(name=f"last{number}", reset_less=True)
            m.d.sync += [next_valid.eq(tree_valid), next_last.eq(tree_last)]
            tree_valid, tree_last = next_valid, next_last
        running = Signal(31)
        amax = Signal(32, reset_less=True)
        amax_valid = Signal()
        count = Signal(range(self.longest + 1))
        length = Signal.like(count, reset_less=True)
        winner = Mux(level[0] > running, level[0], running)
        m.d.sync += amax_valid.eq(tree_valid & tree_last)
        with m.If(tree_valid):
            m.d.sync += [amax.eq(winner), length.eq(count),
                         running.eq(Mux(tree_last, 0, winner)),
                         count.eq(Mux(tree_last, 0, count + 1))]

        # Scale and reciprocal. Lengths and scales wait in queues of their own, all in order.
        # Units rest while nothing is in them: less power, and a simulator skips what does not move.
        scaling = Signal()
        m.submodules.scale_mul = scale_mul = Multiplier()
        m.submodules.to_fp16 = to_fp16 = ToFP16()
        m.submodules.from_fp16 = from_fp16 = FromFP16()
        m.submodules.rcp = rcp = Reciprocal()
        m.submodules.inverse_mul = inverse_mul = Multiplier()
        m.d.comb += [
            *(unit.en.eq(scaling)
              for unit in (scale_mul, to_fp16, from_fp16, rcp, inverse_mul)),
            scale_mul.a.eq(amax),
            scale_mul.b.eq(INV_ACT_MAX_BITS),
            to_fp16.a.eq(scale_mul.o),
            from_fp16.a.eq(to_fp16.o),
            rcp.a.eq(Mux(self.cache, from_fp16.o, amax)),
            inverse_mul.a.eq(rcp.o),
            # Zeros outside of the choice spare half of the multiplier.
            inverse_mul.b.eq(Cat(C(0, 16), Mux(self.cache, ONE_BITS >> 16,
                                               fp32_bits(ACT_MAX) >> 16))),
        ]
        direct = Reciprocal.latency + Multiplier.latency
        half = Multiplier.latency + ToFP16.latency
        passed = Signal(half + FromFP16.latency + direct)
        under_way = Signal()
        m.d.sync += [passed.eq(Cat(amax_valid, passed)),
                     under_way.eq(Cat(amax_valid, passed[:-1]).any())]
        m.d.comb += scaling.eq(amax_valid | under_way)

        def tap(stages):
            return passed[stages - 1]

        queues = {}
        pop = Signal()
        for name, width, push, value in (
            ("length", len(length), amax_valid, length),
            ("scale", 32, Mux(self.cache, tap(half), tap(Multiplier.latency)),
             Mux(self.cache, to_fp16.o, scale_mul.o)),
            ("inverse", 32, Mux(self.cache, passed[-1], tap(direct)), inverse_mul.o),
        ):
            queue = memory.Memory(shape=unsigned(width), depth=self.groups, init=[])
            m.submodules[f"{name}s"] = queue
            q_write, q_read = queue.write_port(), queue.read_port(domain="comb")
            m.d.comb += [q_write.en.eq(push), q_write.data.eq(value)]
            with m.If(push):
                m.d.sync += q_write.addr.eq(q_write.addr + 1)
            with m.If(pop):
                m.d.sync += q_read.addr.eq(q_read.addr + 1)
            queues[name] = (q_write, q_read)
        # The inverse is the last of the three to arrive.
        inverse_write, inverse_read = queues["inverse"]
        level_count = Signal(range(self.groups + 1))
        m.d.sync += level_count.eq(level_count + inverse_write.en - pop)

        # Words leave: all stages wait while `o` is not taken.
        leaving = Signal()
        move = Signal()
        inside = Signal()
        m.d.comb += move.eq((self.o.ready | ~self.o.valid)
                            & (inside | leaving | (level_count != 0)))
        left = Signal.like(count)
        first = Signal()
        group_scale = Signal(32, reset_less=True)
        group_inverse = Signal(32, reset_less=True)
        read = Signal()
        last = Signal()
        length_head = queues["length"][1].data
        m.d.comb += [
            first.eq(~leaving),
            read.eq(move & (leaving | (level_count != 0))),
            pop.eq(read & first),
            last.eq(Mux(first, length_head == 0, left == 0)),
            self.taken.eq(read),
            w_read.en.eq(move),
        ]
        with m.If(read):
            m.d.sync += [
                w_read.addr.eq(w_read.addr + 1),
                leaving.eq(~last),
                left.eq(Mux(first, length_head, left) - 1),
            ]
        with m.If(pop):
            m.d.sync += [group_scale.eq(queues["scale"][1].data),
                         group_inverse.eq(inverse_read.data)]

        # Block memory is slow to answer, hence a register behind it and beside it.
        word = Signal(32 * self.lanes, reset_less=True)
        word_inverse = Signal(32, reset_less=True)
        with m.If(move):
            m.d.sync += [word.eq(w_read.data), word_inverse.eq(group_inverse)]

        stages = 2 + Multiplier.latency + ToInt8.latency
        marks = [Signal(3, name=f"mark{i}") for i in range(stages)]
        scales = [group_scale, *(Signal(32, name=f"scale{i}", reset_less=True)
                                 for i in range(1, stages))]
        with m.If(move):
            m.d.sync += marks[0].eq(Cat(read, read & first, last))
            m.d.sync += [new.eq(old) for old, new in zip(marks, marks[1:])]
            m.d.sync += inside.eq(read | Cat(mark[0] for mark in marks[:-1]).any())
            m.d.sync += [new.eq(old) for old, new in zip(scales, scales[1:])]
        m.d.comb += [
            Cat(self.o.valid, self.o.payload.first, self.o.payload.last).eq(marks[-1]),
            self.o.payload.scale.eq(scales[-1]),
        ]
        for lane in range(self.lanes):
            m.submodules[f"mul{lane}"] = mul = Multiplier()
            m.submodules[f"int8_{lane}"] = to_int8 = ToInt8()
            value = self.o.payload.values[lane]
            zero = self.cache & ~(scales[-1][:15].any())
            m.d.comb += [
                mul.en.eq(move),
                to_int8.en.eq(move),
                mul.a.eq(word[32 * lane:32 * (lane + 1)]),
                mul.b.eq(word_inverse),
                to_int8.a.eq(mul.o),
                value.eq(Mux(zero, 0, to_int8.o)),
            ]
        assert FP16.abs_mask == 0x7fff
        return m

"""Scores -> scaled and masked -> exponentials of the distance to the running maximum."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..formats import FP32, LOWEST_BITS
from ..fp import Adder, Exponential, Multiplier
from ..interfaces import words
from .frame import Delay, Frame
from .issue import TagLayout
from .schedule import Schedule


__all__ = ["Exponent"]


MINUS_INFINITY = FP32.sign_mask | FP32.infinity


class Exponent(wiring.Component):
    """``exp(add(s, -max))`` where ``s = mul(mul(score, k_scale), scale)``.

    `max` is the maximum of the state and of all scores of the block that the stream may see. Slot
    0 of lane 0 carries the old maximum, so that its exponential is the rescale factor. A score
    that must not be seen, which may be anything, becomes -infinity, whose exponential is +0. A NaN
    is never the greater one; which zero is the maximum makes no difference.

    Members
    -------
    following : ``In(range(frame))``, ``tag`` : ``In(TagLayout(config))``, ``scale`` : ``In(32)``
        As in :class:`Issue`.
    score, k_scale : ``In(words(lanes))``
        Operands at offset `score` of the schedule.
    o : ``Out(words(lanes))``
        Slot 0 at offset `rescale`; step 0 at offset `p`, one cycle later.
    """
    def __init__(self, config: Config):
        self._config = config
        self._schedule = schedule = Schedule(config)
        super().__init__({
            "following": In(range(schedule.frame)),
            "tag": In(TagLayout(config)),
            "scale": In(32),
            "score": In(words(schedule.lanes)),
            "k_scale": In(words(schedule.lanes)),
            "o": Out(words(schedule.lanes)),
        })

    def elaborate(self, platform):
        m = Module()
        schedule, lanes = self._schedule, self._schedule.lanes
        frame = Frame(m, self.following, schedule.frame)

        m.submodules.state = state = Memory(shape=32, depth=self._config.streams, init=[])
        old, new = state.read_port(), state.write_port()
        read_tag = frame.hold(self.tag, 0, schedule.value - 2, "read_tag")
        m.d.comb += old.addr.eq(read_tag.stream)

        scale = frame.hold(self.scale, 0, schedule.scaled, "scale")
        tag = frame.hold(read_tag, schedule.value - 2, schedule.value - 1, "tag")
        step = frame.step(schedule.value, "step")        # of the product that arrives
        first = frame.at(schedule.value - 1)
        values, keys = [], []
        for lane in range(lanes):
            m.submodules[f"k_product{lane}"] = k_product = Multiplier()
            m.submodules[f"scaled{lane}"] = scaled = Multiplier()
            m.d.comb += [
                k_product.a.eq(self.score[lane]), k_product.b.eq(self.k_scale[lane]),
                k_product.en.eq(1),
                scaled.a.eq(k_product.o), scaled.b.eq(scale), scaled.en.eq(1),
            ]
            token = step * lanes + lane
            seen = (token < tag.count) & (token >= tag.low)
            value = Signal(32, name=f"value{lane}")
            m.d.sync += value.eq(Mux(seen, scaled.o, MINUS_INFINITY))
            with m.If(first):
                if lane == 0:
                    m.d.sync += value.eq(Mux(tag.first, LOWEST_BITS, old.data))
                else:
                    m.d.sync += value.eq(MINUS_INFINITY)
            values.append(value)
            # Keys are in order as unsigned integers; a NaN has the least.
            magnitude = value[:31]
            keys.append(Mux(magnitude > FP32.infinity, 0,
                            value ^ Cat(value[31].replicate(31), C(1, 1))))

        while len(keys) > 1:
            pairs = []
            for i in range(len(keys) // 2):
                key = Signal(32, name=f"key{len(keys)}_{i}")
                m.d.sync += key.eq(Mux(keys[2 * i] > keys[2 * i + 1], keys[2 * i], keys[2 * i + 1]))
                pairs.append(key)
            keys = pairs
        top = Signal(32)
        with m.If(frame.at(schedule.compare) | (keys[0] > top)):
            m.d.sync += top.eq(keys[0])
        key = frame.catch(top, schedule.compare + schedule.frame, "key")
        maximum = key ^ Cat((~key[31]).replicate(31), C(1, 1))

        # `key` is right from offset `shift` on.
        write_tag = frame.hold(tag, schedule.value - 1, schedule.shift, "write_tag")
        m.d.comb += [
            new.en.eq(frame.at(schedule.shift) & write_tag.valid),
            new.addr.eq(write_tag.stream),
            new.data.eq(maximum),
        ]
        m.submodules.delay = delay = Delay(32 * lanes, schedule.shift - schedule.value)
        m.d.comb += delay.i.eq(Cat(*values))
        for lane in range(lanes):
            m.submodules[f"distance{lane}"] = distance = Adder()
            m.submodules[f"exp{lane}"] = exp = Exponential()
            m.d.comb += [
                distance.a.eq(delay.o[32 * lane:32 * lane + 32]),
                distance.b.eq(maximum ^ FP32.sign_mask),
                distance.en.eq(1),
                exp.a.eq(distance.o), exp.en.eq(1),
                self.o[lane].eq(exp.o),
            ]

        return m

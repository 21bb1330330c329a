"""Probabilities x V scales -> int8 with one scale per stream."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..fp import Multiplier, ToInt8
from ..interfaces import words
from .frame import Delay, Frame
from .issue import TagLayout
from .schedule import Schedule


__all__ = ["Quantiser"]


class Quantiser(wiring.Component):
    """``to_int8(mul(w, ratio))`` of ``w = mul(p, v_scale)``, and the greatest magnitude of all w.

    Tokens that the stream must not see count as +0, whatever their V scale is.

    Members
    -------
    following : ``In(range(frame))``, ``tag`` : ``In(TagLayout(config))``
        Cycle of the frame; stream of the frame, at offset `p`.
    p, v_scale : ``In(words(lanes))``
        Operands, step 0 at offset `p`.
    amax : ``Out(32)``
        Greatest magnitude, at offset `amax`.
    ratio : ``In(32)``
        ``mul(rcp(amax), 127)``, at offset `ratio`.
    q : ``Out(words(lanes, 8))``
        Results, step 0 at offset `q`.
    """
    def __init__(self, config: Config):
        self._schedule = schedule = Schedule(config)
        super().__init__({
            "following": In(range(schedule.frame)),
            "tag": In(TagLayout(config)),
            "p": In(words(schedule.lanes)),
            "v_scale": In(words(schedule.lanes)),
            "amax": Out(32),
            "ratio": In(32),
            "q": Out(words(schedule.lanes, 8)),
        })

    def elaborate(self, platform):
        m = Module()
        schedule, lanes = self._schedule, self._schedule.lanes
        frame = Frame(m, self.following, schedule.frame)

        # The last cycle of the product masks it.
        arrival = schedule.weighted - 1
        tag = frame.hold(self.tag, schedule.p, arrival, "tag")
        step = frame.step(arrival, "step")
        weighted = []
        for lane in range(lanes):
            m.submodules[f"weighted{lane}"] = product = Multiplier()
            m.d.comb += [
                product.a.eq(self.p[lane]), product.b.eq(self.v_scale[lane]), product.en.eq(1),
            ]
            masked = Signal(32, name=f"masked{lane}")
            token = step * lanes + lane
            seen = (token < tag.count) & (token >= tag.low)
            m.d.sync += masked.eq(Mux(seen, product.o, 0))
            weighted.append(masked)

        magnitudes = [value[:31] for value in weighted]
        while len(magnitudes) > 1:
            pairs = []
            for i in range(len(magnitudes) // 2):
                a, b = magnitudes[2 * i:2 * i + 2]
                greater = Signal(31, name=f"magnitude{len(magnitudes)}_{i}")
                m.d.sync += greater.eq(Mux(a > b, a, b))
                pairs.append(greater)
            magnitudes = pairs
        top = Signal(31)
        with m.If(frame.at(schedule.amax - 1 - schedule.steps) | (magnitudes[0] > top)):
            m.d.sync += top.eq(magnitudes[0])
        m.d.comb += self.amax.eq(frame.catch(top, schedule.amax - 1, "amax_held"))

        m.submodules.delay = delay = Delay(32 * lanes, schedule.ratio - schedule.weighted)
        m.d.comb += delay.i.eq(Cat(*weighted))
        for lane in range(lanes):
            m.submodules[f"scaled{lane}"] = scaled = Multiplier()
            m.submodules[f"to_int8_{lane}"] = to_int8 = ToInt8()
            m.d.comb += [
                scaled.a.eq(delay.o[32 * lane:32 * lane + 32]), scaled.b.eq(self.ratio),
                scaled.en.eq(1), to_int8.a.eq(scaled.o), to_int8.en.eq(1),
                self.q[lane].eq(to_int8.o),
            ]

        return m

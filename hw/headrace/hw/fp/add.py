"""Addition in fp32."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32
from .layout import Float32, normalised, packed
from .pipeline import Pipeline


__all__ = ["Adder"]


class Adder(wiring.Component):
    """``round(a + b)`` to nearest even.

    Subnormal operands are read as zeros of their sign, a subnormal result, which is exact,
    becomes a zero of its sign, and an exact zero is +0 unless both operands are negative zeros.
    Every NaN is the canonical one. :func:`headrace.sw.numerics.add` agrees bit for bit.

    Latency: 4 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a, b : ``In(32)``
        Summands.
    o : ``Out(32)``
        Sum.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 4

    a: In(32)
    b: In(32)
    en: In(1)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a, b = Float32(self.a), Float32(self.b)

        # 1: order by magnitude.
        swap = Signal()
        m.d.comb += swap.eq(self.a[:-1] < self.b[:-1])
        large = pipe.reg(Mux(swap, b.mant, a.mant), "large")
        small = pipe.reg(Mux(swap, a.mant, b.mant), "small")
        # Both differences at once: the comparison is the longest path of this stage.
        distance = Mux(swap, b.exp - a.exp, a.exp - b.exp)[:FP32.exp_bits]
        # From 32 places on the smaller one changes nothing, not even as a sticky bit.
        gone = pipe.reg(a.zero | b.zero | distance[5:].any(), "gone")
        distance = pipe.reg(distance[:5], "distance")
        exp = pipe.reg(Mux(swap, b.exp, a.exp), "exp")
        sign = pipe.reg(Mux(swap, b.sign, a.sign), "sign")
        subtract = pipe.reg(a.sign ^ b.sign, "subtract")
        zero = pipe.reg(a.zero & b.zero, "zero")
        nan = pipe.reg(a.nan | b.nan | (a.inf & b.inf & (a.sign ^ b.sign)), "nan")
        inf = pipe.reg(a.inf | b.inf, "inf")

        # 2: align to guard, round and sticky bits, and add. The larger magnitude comes first,
        # so the sum is never negative.
        extra = 3
        aligned = Cat(C(0, extra), small, C(1, 1))
        lost = C(0, 1)
        for step in range(len(distance)):
            shift = 1 << step
            shifted = Signal(len(aligned), name=f"aligned{shift}")
            any_lost = Signal(name=f"lost{shift}")
            m.d.comb += shifted.eq(Mux(distance[step], aligned >> shift, aligned))
            m.d.comb += any_lost.eq(lost | (distance[step] & aligned[:shift].any()))
            aligned, lost = shifted, any_lost
        addend = Signal(28)
        m.d.comb += addend.eq(Mux(gone, 0, Cat(aligned[0] | lost, aligned[1:])))
        # The carry into a subtraction is a bit below both operands: one carry chain for all.
        total = (Cat(C(1, 1 + extra), large, C(1, 1))
                 + Cat(subtract, addend ^ subtract.replicate(len(addend))))
        total = pipe.reg(total[1:1 + len(addend)], "total")
        exp = pipe.reg((exp + 2)[:10], "exp_2")
        sign, subtract, zero, nan, inf = (
            pipe.reg(value, f"{value.name}_2") for value in (sign, subtract, zero, nan, inf))

        # 3: normalise.
        value, count = normalised(m, total, "total")
        mant = pipe.reg(value[4:-1], "mant")
        below = pipe.reg(value[:4], "below")
        count = pipe.reg(count, "count")
        zero = pipe.reg(zero | ~value[-1], "zero_3")
        exp, sign, subtract, nan, inf = (
            pipe.reg(value, f"{value.name[:-2]}_3") for value in (exp, sign, subtract, nan, inf))

        # 4: exponent, rounding, whose carry runs into it, and special cases. The exponent is
        # exp + 1 - count, which is exp + 2 + ~count: so one carry chain does it all.
        up = below[3] & (below[:3].any() | mant[0])
        rounded = Signal(10 + FP32.mant_bits)
        complement = ~Cat(count, C(0, 10 - len(count)))
        m.d.comb += rounded.eq((Cat(C(1, 1), mant, exp)
                                + Cat(up, C(0, FP32.mant_bits), complement))[1:])
        pipe.load(self.o, packed(m, rounded, sign=sign & ~(zero & subtract), nan=nan, inf=inf,
                                 zero=zero))

        return m

"""Exponential function in fp32."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import EXP_INPUT_LOG2_LIMIT, FP32, LOG2_E, LOG2_E_FRACTION_BITS
from ..tables import EXP2
from .interpolation import Interpolator
from .layout import Float32, packed
from .pipeline import Pipeline


__all__ = ["Exponential"]


class Exponential(wiring.Component):
    """e to the power of ``a``.

    ``t = |a| * log2(e)`` is cut to 25 fraction bits and complemented if ``a`` is negative; its
    integer part is the exponent and :data:`headrace.hw.tables.EXP2` gives the mantissa. Results
    below ``2**-126`` become +0, ``exp(±0)`` is 1. :func:`headrace.sw.numerics.exp` agrees bit
    for bit; ``docs/number-formats.md`` has the measured error.

    Latency: 10 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(32)``
        Exponent.
    o : ``Out(32)``
        Power.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 4 + Interpolator.latency

    a: In(32)
    en: In(1)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a = Float32(self.a)

        # 1: product with the constant in two parts, as in the multiplier.
        split = 17
        low = pipe.reg(a.significand * Const(LOG2_E & ((1 << split) - 1), split), "low")
        high = pipe.reg(a.significand * Const(LOG2_E >> split), "high")
        # Right shift of the product: 0 for the largest exponent below the limit, and where it
        # would be 64 or more, 63 is as good.
        limit = FP32.bias + EXP_INPUT_LOG2_LIMIT
        distance = Signal(8)
        m.d.comb += distance.eq(limit - 1 - a.exp)
        shift = pipe.reg(distance[:6] | distance[6:].any().replicate(6), "shift")
        beyond = a.exp >= limit
        sign = pipe.reg(a.sign, "sign")
        nan = pipe.reg(a.nan, "nan", stages=self.latency - 1)
        inf = pipe.reg(beyond & ~a.sign, "inf", stages=self.latency - 1)
        zero = pipe.reg(beyond & a.sign, "zero", stages=self.latency - 1)

        # 2: sum, without the bits that no shift brings back.
        drop = (FP32.mant_bits + LOG2_E_FRACTION_BITS - EXP2.unit_log2
                - (EXP_INPUT_LOG2_LIMIT - 1) - split)
        product = pipe.reg((high + (low >> split))[drop:], "product")
        shift = pipe.reg(shift, "shift_2")
        sign = pipe.reg(sign, "sign_2")

        # 3: signed fixed point.
        t = product >> shift
        t = pipe.reg(Cat(t, C(0, 1)) ^ sign.replicate(len(t) + 1), "t")

        # 4 to 9: exponent and mantissa.
        m.submodules.interpolator = interpolator = Interpolator(EXP2)
        m.d.comb += [
            interpolator.index.eq(t[EXP2.offset_bits:EXP2.unit_log2]),
            interpolator.offset.eq(t[:EXP2.offset_bits]),
            interpolator.exp.eq(t[EXP2.unit_log2:].as_signed() + FP32.bias),
            interpolator.en.eq(self.en),
        ]

        # 10: special cases.
        pipe.load(self.o, packed(m, interpolator.o, sign=C(0, 1), nan=nan, inf=inf, zero=zero))

        return m

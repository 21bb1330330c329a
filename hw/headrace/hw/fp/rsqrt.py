"""Reciprocal square root in fp32."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32
from ..tables import RSQRT
from .interpolation import Interpolator
from .layout import Float32, packed
from .pipeline import Pipeline


__all__ = ["ReciprocalSqrt"]


class ReciprocalSqrt(wiring.Component):
    """``1 / sqrt(a)``.

    ±0, subnormals included, give ±infinity, +infinity gives +0 and anything else with a sign
    NaN. Even powers of two are exact. The mantissa comes from
    :data:`headrace.hw.tables.RSQRT`. :func:`headrace.sw.numerics.rsqrt` agrees bit for bit;
    ``docs/number-formats.md`` has the measured error.

    Latency: 7 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(32)``
        Radicand.
    o : ``Out(32)``
        Reciprocal square root.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = Interpolator.latency + 1

    a: In(32)
    en: In(1)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a = Float32(self.a)

        # 1 to 6: an even exponent field is an odd exponent, the table's upper half. The
        # exponent of the result never leaves its range.
        m.submodules.interpolator = interpolator = Interpolator(RSQRT)
        m.d.comb += [
            interpolator.index.eq(Cat(a.mant[RSQRT.offset_bits:], ~a.exp[0])),
            interpolator.offset.eq(~a.mant[:RSQRT.offset_bits]),
            interpolator.exp.eq((3 * FP32.bias - 1 - a.exp) >> 1),
            interpolator.en.eq(self.en),
        ]
        sign, nan, inf, zero = (
            pipe.reg(flag, name, stages=Interpolator.latency)
            for flag, name in ((a.sign, "sign"), (a.nan | (a.sign & ~a.zero), "nan"),
                               (a.zero, "inf"), (a.inf, "zero")))

        # 7: special cases.
        pipe.load(self.o, packed(m, interpolator.o, sign=sign, nan=nan, inf=inf, zero=zero))

        return m

"""Reciprocal in fp32."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32
from ..tables import RECIPROCAL
from .interpolation import Interpolator
from .layout import Float32, packed
from .pipeline import Pipeline


__all__ = ["Reciprocal"]


class Reciprocal(wiring.Component):
    """``1 / a``.

    ``1 / ±0`` is ±infinity and the reverse. Powers of two are exact; a subnormal operand is read
    as a zero, a result below ``2**-126`` becomes a zero of its sign. The mantissa comes from
    :data:`headrace.hw.tables.RECIPROCAL`. :func:`headrace.sw.numerics.rcp` agrees bit for bit;
    ``docs/number-formats.md`` has the measured error.

    Latency: 7 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(32)``
        Divisor.
    o : ``Out(32)``
        Quotient.
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

        # 1 to 6: between two powers of two the exponent is one lower than at the power itself,
        # where the table's carry corrects it.
        m.submodules.interpolator = interpolator = Interpolator(RECIPROCAL)
        m.d.comb += [
            interpolator.index.eq(a.mant[RECIPROCAL.offset_bits:]),
            interpolator.offset.eq(~a.mant[:RECIPROCAL.offset_bits]),
            interpolator.exp.eq(2 * FP32.bias - 1 - a.exp),
            interpolator.en.eq(self.en),
        ]
        sign, nan, inf, zero = (
            pipe.reg(flag, name, stages=Interpolator.latency)
            for flag, name in ((a.sign, "sign"), (a.nan, "nan"), (a.zero, "inf"),
                               (a.inf, "zero")))

        # 7: special cases.
        pipe.load(self.o, packed(m, interpolator.o, sign=sign, nan=nan, inf=inf, zero=zero))

        return m

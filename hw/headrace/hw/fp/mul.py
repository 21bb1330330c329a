"""Multiplication in fp32."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32
from .layout import Float32, packed
from .pipeline import Pipeline


__all__ = ["Multiplier"]


class Multiplier(wiring.Component):
    """``round(a * b)`` to nearest even.

    Subnormal operands are read as zeros of their sign, and a subnormal result becomes a zero of
    its sign after rounding: a product that IEEE 754 rounds up to ``2**-126`` stays. Every NaN is
    the canonical one. :func:`headrace.sw.numerics.mul` agrees bit for bit.

    Latency: 3 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a, b : ``In(32)``
        Factors.
    o : ``Out(32)``
        Product.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 3

    a: In(32)
    b: In(32)
    en: In(1)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a, b = Float32(self.a), Float32(self.b)

        # 1: two halves of the product. A half of 24 x 12 bits is one DSP48E2 or two MULT18X18D,
        # and yosys leaves the sum of all parts out of the multiplier's cycle only this way.
        half = 12
        low = pipe.reg(a.significand * b.significand[:half], "low")
        high = pipe.reg(a.significand * b.significand[half:], "high")
        exp = pipe.reg((a.exp + b.exp - FP32.bias).as_signed(), "exp")
        sign = pipe.reg(a.sign ^ b.sign, "sign")
        nan = pipe.reg(a.nan | b.nan | (a.inf & b.zero) | (a.zero & b.inf), "nan")
        inf = pipe.reg(a.inf | b.inf, "inf")
        zero = pipe.reg(a.zero | b.zero, "zero")

        # 2: sum, normalisation by at most one bit, and the decision to round up. Below 2**-126
        # only a significand of all ones is rounded to 2**-126, whatever follows it; any other
        # is flushed, rounded or not. So a carry is always added there.
        product = Signal(48)
        m.d.comb += product.eq(low + (high << half))
        top = product[-1]
        kept = Mux(top, product[24:], product[23:-1])
        guard = Mux(top, product[23], product[22])
        sticky = product[:22].any() | (top & product[22])
        number_exp = Signal(signed(10))
        m.d.comb += number_exp.eq(Mux(top, exp + 1, exp))
        up = (guard & (sticky | kept[0])) | number_exp[-1] | ~number_exp.any()
        number = pipe.reg(Cat(kept[:FP32.mant_bits], number_exp), "number")
        up = pipe.reg(up, "up")
        sign, nan, inf, zero = (pipe.reg(flag, f"{flag.name}_2")
                                for flag in (sign, nan, inf, zero))

        # 3: rounding, whose carry runs into the exponent, and special cases.
        rounded = Signal(len(number))
        m.d.comb += rounded.eq(number + up)
        pipe.load(self.o, packed(m, rounded, sign=sign, nan=nan, inf=inf, zero=zero))

        return m

"""Conversions between fp32, fp16 and integers."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import ACT16_MAX, ACT_MAX, FP16, FP32
from .layout import Float16, Float32, normalised
from .pipeline import Pipeline


__all__ = ["FromFP16", "FromInt", "ToFP16", "ToInt16", "ToInt8"]


class FromInt(wiring.Component):
    """Signed integer to fp32, rounded to nearest even.

    :func:`headrace.sw.numerics.from_int` agrees bit for bit.

    Latency: 2 enabled cycles up to 25 bits, where the conversion is exact, otherwise 3.
    Throughput: 1 per enabled cycle.

    Parameters
    ----------
    width : int
        Width of the integer, 2 to 32.

    Members
    -------
    a : ``In(signed(width))``
        Integer.
    o : ``Out(32)``
        Number.
    en : ``In(1)``
        Advances the pipeline.
    """
    def __init__(self, width):
        if not 2 <= width <= 32:
            raise ValueError(f"Width must be in 2..32, not {width!r}")
        self.width = width
        super().__init__({"a": In(signed(width)), "en": In(1), "o": Out(32)})

    @property
    def exact(self):
        """Whether every integer of this width is an fp32 number."""
        return self.width <= FP32.mant_bits + 2

    @property
    def latency(self):
        """Enabled cycles from input to output."""
        return 2 if self.exact else 3

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)

        # 1: magnitude, whose largest value 2**(width - 1) takes all bits.
        sign = pipe.reg(self.a[-1], "sign")
        magnitude = (self.a ^ self.a[-1].replicate(self.width)).as_unsigned() + self.a[-1]
        magnitude = pipe.reg(magnitude[:self.width], "magnitude")

        # 2: normalise; narrow integers are done.
        value, count = normalised(m, magnitude, "magnitude")
        exp = Mux(value[-1], FP32.bias + self.width - 1 - count, 0)[:FP32.exp_bits]
        value = Cat(C(0, max(0, FP32.mant_bits + 1 - self.width)), value)
        below, mant = value[:-1 - FP32.mant_bits], value[-1 - FP32.mant_bits:-1]
        if self.exact:
            pipe.load(self.o, Cat(mant, exp, sign))
            return m
        number = pipe.reg(Cat(mant, exp), "number")
        below = pipe.reg(below, "below")
        sign = pipe.reg(sign, "sign_2")

        # 3: rounding, whose carry runs into the exponent.
        up = below[-1] & (below[:-1].any() | number[0])
        pipe.load(self.o, Cat((number + up)[:31], sign))

        return m


class FromFP16(wiring.Component):
    """fp16 to fp32, exact, subnormals included; NaN becomes the canonical one.

    :func:`headrace.sw.numerics.from_fp16` agrees bit for bit.

    Latency: 1 enabled cycle. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(16)``
        fp16 number.
    o : ``Out(32)``
        fp32 number.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 1

    #: Low bits of the result that are always 0.
    zeros = FP32.mant_bits - FP16.mant_bits

    a: In(16)
    en: In(1)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a = Float16(self.a)

        normal = a.exp.any()
        value, count = normalised(m, Cat(a.mant), "mant")
        bias = FP32.bias - FP16.bias
        # A subnormal with n leading zeros is 1.f * 2**(-15 - n).
        subnormal_exp = Mux(value[-1], bias - count, 0)
        exp = Mux(normal, a.exp + bias, subnormal_exp)[:FP32.exp_bits]
        mant = Mux(normal, a.mant, value << 1)[:FP16.mant_bits]
        # The mantissa's low bits are 0 whatever the number. Written as constants outside of all
        # choices, they spare a multiplier behind this unit half of its parts.
        number = Mux(a.inf, FP32.infinity >> self.zeros, Cat(mant, exp))[:31 - self.zeros]
        number = Mux(a.nan, FP32.canonical_nan >> self.zeros, Cat(number, a.sign))
        pipe.load(self.o[self.zeros:], number[:32 - self.zeros])

        return m


class ToFP16(wiring.Component):
    """fp32 to fp16, rounded to nearest even, with subnormal results.

    Everything beyond the largest finite number, infinities included, becomes ``±65504``. NaN is
    canonical. :func:`headrace.sw.numerics.to_fp16` agrees bit for bit.

    Latency: 2 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(32)``
        fp32 number.
    o : ``Out(16)``
        fp16 number.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 2

    a: In(32)
    en: In(1)
    o: Out(16)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a = Float32(self.a)

        # 1: exponent, and the shift of a subnormal result. From 12 on nothing remains, not even
        # enough to round up.
        bias = FP32.bias - FP16.bias
        exp = Signal(signed(9))
        m.d.comb += exp.eq(a.exp - bias)
        subnormal = exp <= 0
        gone = a.exp <= bias + 1 - 12
        significand = Mux(gone, 0, a.significand)[:24]
        shift = Mux(subnormal, 1 - exp, 0)[:4]
        spare = 15
        shifted = Cat(C(0, spare), significand) >> shift
        drop = spare + FP32.mant_bits - FP16.mant_bits
        mant = pipe.reg(shifted[drop:drop + FP16.mant_bits], "mant")
        guard = pipe.reg(shifted[drop - 1], "guard")
        sticky = pipe.reg(shifted[:drop - 1].any(), "sticky")
        large = pipe.reg(exp >= FP16.exp_max, "large")
        exp = pipe.reg(Mux(subnormal, 0, exp)[:FP16.exp_bits], "exp")
        sign = pipe.reg(a.sign, "sign")
        nan = pipe.reg(a.nan, "nan")

        # 2: rounding, whose carry runs into the exponent, and saturation.
        rounded = Signal(16)
        m.d.comb += rounded.eq(Cat(mant, exp) + (guard & (sticky | mant[0])))
        large = large | (rounded >= FP16.infinity)
        magnitude = Mux(large, FP16.max_finite, rounded)[:15]
        pipe.load(self.o, Mux(nan, FP16.canonical_nan, Cat(magnitude, sign)))

        return m


class ToInt8(wiring.Component):
    """fp32 to the nearest integer, ties to even, saturated to ±127. NaN gives 0.

    :func:`headrace.sw.numerics.to_int8` agrees bit for bit.

    Latency: 2 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(32)``
        Number.
    o : ``Out(signed(8))``
        Integer.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 2

    a: In(32)
    en: In(1)
    o: Out(signed(8))

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a = Float32(self.a)

        # 1: the integer part has at most 7 bits, for numbers below 2**7. Those below 2**-1
        # are shifted by more than 7 places and round to 0.
        top_exp = FP32.bias + 6
        shift = Signal(signed(9))
        m.d.comb += shift.eq(top_exp - a.exp)
        large = pipe.reg(shift < 0, "large")
        zero = pipe.reg((shift > 7) | a.nan, "zero")
        spare = 7
        shifted = Cat(C(0, spare), a.significand) >> shift[:3]
        drop = len(shifted) - 7
        value = pipe.reg(shifted[drop:], "value")
        guard = pipe.reg(shifted[drop - 1], "guard")
        sticky = pipe.reg(shifted[:drop - 1].any(), "sticky")
        sign = pipe.reg(a.sign, "sign")

        # 2: rounding and sign in one addition: -(v + up) is ~v + ~up.
        up = guard & (sticky | value[0])
        large = large | (value.all() & up)
        magnitude = Mux(zero, 0, Mux(large, ACT_MAX, value))[:7]
        up = up & ~zero & ~large
        flipped = Cat(magnitude, C(0, 1)) ^ sign.replicate(8)
        pipe.load(self.o, (flipped + (up ^ sign))[:8])

        return m


class ToInt16(wiring.Component):
    """fp32 to the nearest integer, ties to even, saturated to ±127 or ±32512. NaN gives 0.

    :func:`headrace.sw.numerics.to_int8` and :func:`headrace.sw.numerics.to_int16` agree bit for
    bit.

    Latency: 2 enabled cycles. Throughput: 1 per enabled cycle.

    Members
    -------
    a : ``In(32)``
        Number.
    wide : ``In(1)``
        Saturate to ±32512; constant while a number is inside.
    o : ``Out(signed(16))``
        Integer.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 2

    a: In(32)
    wide: In(1)
    en: In(1)
    o: Out(signed(16))

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        a = Float32(self.a)
        bits = ACT16_MAX.bit_length()

        # 1: the integer part has at most 15 bits, or 7. Numbers below 2**-1 are shifted by more
        # than 15 places and round to 0.
        shift = Signal(signed(9))
        m.d.comb += shift.eq(FP32.bias + bits - 1 - a.exp)
        large = pipe.reg(Mux(self.wide, shift < 0, a.exp >= FP32.bias + ACT_MAX.bit_length()),
                         "large")
        zero = pipe.reg((shift > bits) | a.nan, "zero")
        shifted = Cat(C(0, bits), a.significand) >> shift[:4]
        drop = len(shifted) - bits
        value = pipe.reg(shifted[drop:], "value")
        guard = pipe.reg(shifted[drop - 1], "guard")
        sticky = pipe.reg(shifted[:drop - 1].any(), "sticky")
        sign = pipe.reg(a.sign, "sign")

        # 2: rounding and sign in one addition: -(v + up) is ~v + ~up.
        up = guard & (sticky | value[0])
        low = len(value) - ACT_MAX.bit_length()
        above = Mux(self.wide, value[low:].all() & (value[:low].any() | up),
                    value[:ACT_MAX.bit_length()].all() & up)
        large = large | above
        most = Mux(self.wide, C(ACT16_MAX, bits), C(ACT_MAX, bits))
        magnitude = Mux(zero, 0, Mux(large, most, value))[:bits]
        up = up & ~zero & ~large
        flipped = Cat(magnitude, C(0, 1)) ^ sign.replicate(16)
        pipe.load(self.o, (flipped + (up ^ sign))[:16])

        return m

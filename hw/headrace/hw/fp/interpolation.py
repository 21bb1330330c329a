"""Piecewise quadratic interpolation in integers."""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32
from ..tables import Interpolation
from .pipeline import Pipeline


__all__ = ["Interpolator"]


class Interpolator(wiring.Component):
    """Evaluate a table of quadratics and add an exponent.

    The steps are those of :class:`headrace.hw.tables.Interpolation`; a mantissa that rounds up
    to the next power of two carries into the exponent. Two multipliers, of about 11 x 11 and
    18 x 17 bits, and a table of 256 rows of 57 bits.

    Latency: 6 enabled cycles. Throughput: 1 per enabled cycle.

    Parameters
    ----------
    table : Interpolation
        Widths and coefficients.

    Members
    -------
    index : ``In(table.index_bits)``
        Segment.
    offset : ``In(table.offset_bits)``
        Offset in the segment.
    exp : ``In(signed(10))``
        Exponent field of the result before the carry.
    o : ``Out(33)``
        Exponent, signed, above the mantissa.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 6

    def __init__(self, table: Interpolation):
        self.table = table
        super().__init__({
            "index": In(table.index_bits),
            "offset": In(table.offset_bits),
            "exp": In(signed(10)),
            "en": In(1),
            "o": Out(10 + FP32.mant_bits),
        })

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)
        table = self.table

        # 1, 2: table. Block memory is slow to answer, hence the second register.
        c0_width, c1_width, c2_width = table.widths
        words = [c0 | c1 << c0_width | c2 << (c0_width + c1_width) for c0, c1, c2 in table.rows]
        m.submodules.rom = rom = memory.Memory(shape=sum(table.widths), depth=len(words),
                                               init=words)
        port = rom.read_port()
        m.d.comb += [port.en.eq(self.en), port.addr.eq(self.index)]
        row = pipe.reg(port.data, "row")
        c0, c1, c2 = row[:c0_width], row[c0_width:-c2_width], row[-c2_width:]
        offset = pipe.reg(self.offset, "offset", stages=2)
        exp = pipe.reg(self.exp, "exp", stages=5)

        # 3: quadratic term.
        square = pipe.reg(c2 * offset[table.square_drop:], "square")
        c1 = pipe.reg(c1, "c1")
        c0 = pipe.reg(c0, "c0", stages=3)
        offset = pipe.reg(offset, "offset_used", stages=2)

        # 4: slope.
        slope = (c1 + (square >> table.square_shift)) >> table.slope_drop
        slope = pipe.reg(slope[:table.slope_width], "slope")

        # 5: linear term.
        product = pipe.reg(slope * offset, "product")

        # 6: sum with the exponent on top, rounded by the half in c0.
        total = Cat(c0[:FP32.mant_bits + table.guard_bits], exp) + (product >> table.product_shift)
        pipe.load(self.o, total[table.guard_bits:])

        return m

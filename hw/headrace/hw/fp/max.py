"""Maximum of fp32 numbers by integer comparison."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import Pipeline


__all__ = ["Maximum"]


class Maximum(wiring.Component):
    """The greater of ``a`` and ``b`` in the total order of their bits.

    Numbers compare as usual, with -0 below +0, the canonical NaN above +infinity and a NaN with
    a sign below -infinity. The greater one comes out unchanged.
    :func:`headrace.sw.numerics.maximum` agrees bit for bit. With the signs of both operands
    cleared this is the step of :func:`headrace.sw.numerics.abs_max`.

    Latency: 1 enabled cycle. Throughput: 1 per enabled cycle.

    Members
    -------
    a, b : ``In(32)``
        Numbers.
    o : ``Out(32)``
        The greater one.
    b_greater : ``Out(1)``
        Whether ``o`` is ``b``; with equal bits it is ``a``.
    en : ``In(1)``
        Advances the pipeline.
    """
    latency = 1

    a: In(32)
    b: In(32)
    en: In(1)
    o: Out(32)
    b_greater: Out(1)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.en)

        # Between two numbers of one sign one comparison of magnitudes serves both orders.
        sign_a, sign_b = self.a[-1], self.b[-1]
        below = self.a[:-1] < self.b[:-1]
        same = self.a[:-1] == self.b[:-1]
        greater = Signal()
        m.d.comb += greater.eq(Mux(sign_a ^ sign_b, sign_a, (below ^ sign_a) & ~same))
        pipe.load(self.o, Mux(greater, self.b, self.a))
        pipe.load(self.b_greater, greater)

        return m

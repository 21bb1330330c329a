"""Arithmetic of the vector unit: what happens to one word of X."""

import functools
import operator

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32, GELU_CUBIC_BITS, GELU_LINEAR_BITS, ONE_BITS
from ..fp import Adder, Exponential, Multiplier, Reciprocal, ReciprocalSqrt
from ..interfaces import words
from .delay import Delay
from .gelu import GeluSchedule


__all__ = ["ItemLayout", "Lanes", "OperationLayout"]


#: What the lanes do, constant during an instruction. All 0: STORE or QUANT, which need no lane.
#: `rms` comes with `norm`, `accumulate` with `rms`, `gelu` with `glu`.
OperationLayout = data.StructLayout({"norm": 1, "rope": 1, "add": 1, "glu": 1, "scale": 1,
                                     "rms": 1, "accumulate": 1, "gelu": 1})

#: What differs from word to word.
ItemLayout = data.StructLayout({
    "square": 1,     # norm: x * x, and not x * r * gain
    "keep": 1,       # rope: x itself
    "odd": 1,        # rope, one lane: the element is the second of its pair
    "up": 1,         # glu: f * x, and not silu(f)
})


class Lanes(wiring.Component):
    """`lanes` times two multipliers, an adder, an exponential and a reciprocal.

    Everything is a fixed pipeline that never stops; stage numbers count from the cycle in which
    an item comes. Operations and where their results are:

    * STORE: `f`, in `stored` at :attr:`store_stage`; QUANT: x, in `loaded` at the same.
    * ADD: ``add(x, f)`` in `sums` at :attr:`add_stage`.
    * `scale` (ATTN_OUT): ``mul(f, row_scale)``, in `products` at :attr:`mul_stage`.
    * GLU: `mul(f, rcp(add(1, exp(-f))))`, or ``mul(x, f)`` with `up`, at the same; `early` is the
      word that follows as `f` :attr:`gate_delay` cycles later.
      With `gelu` the argument of the exponential is ``-mul(f, add(GELU_LINEAR,
      mul(GELU_CUBIC, mul(f, f))))``: the units take several steps for each word, which therefore
      come :attr:`gelu_cycles` apart, with `phase` 0, and `early` precedes by :attr:`gelu_delay`.
    * NORM: ``mul(x, x)`` at :attr:`mul_stage`, or ``mul(mul(x, r), table)`` in `scaled` at
      :attr:`norm_stage`, for which the table's address lags :attr:`gain_lag` cycles.
      `r` is ``rsqrt(add(mul(total, inv_dim), eps))``, :attr:`root_latency` after `total_stb`.
      RMS is the same; with `accumulate` the result has x, as it is :attr:`y_stage` cycles later,
      added where `adding` is 1, in `sums` an adder's latency behind.
    * ROPE: ``add(mul(x, cos), mul(x', -sin or sin))`` in `sums` at :attr:`rope_stage`, where x' is
      the other element of the pair. With one lane both elements of a pair come in consecutive
      cycles.

    Parameters
    ----------
    lanes : int

    Members
    -------
    operation : ``In(OperationLayout)``
        Constant from the first item to the last result.
    item : ``In(ItemLayout)``
        Stage 1.
    f, row_scale : ``In(words(lanes)), In(32)``
        Result of the matmul unit; stage 1.
    early : ``In(words(lanes))``
        See GLU; stage 1.
    phase : ``In(range(gelu_cycles))``
        Counts all the time.
    adding : ``In(1)``
        See RMS.
    x, table : ``In(words(lanes))``
        Output of the memories; stage 1.
    a, b : ``In(words(lanes))``
        Operands of the adders from the reducer.
    total, total_stb, inv_dim, eps : ``In``
        The sum of squares and the scalars of NORM.
    stored, loaded, sums, products, scaled : ``Out(words(lanes))``
        Results.
    root_stb : ``Out(1)``
        Pulse: `r` is new.
    """
    mul_stage = 3 + Multiplier.latency
    store_stage = 2
    add_stage = 2 + Adder.latency
    rope_stage = mul_stage + Adder.latency
    norm_stage = mul_stage + 1 + Multiplier.latency
    gain_lag = mul_stage - 2
    gate_delay = Exponential.latency + Adder.latency + Reciprocal.latency - 1
    # X is read in every second cycle, the word that is added in the others.
    y_stage = norm_stage + (norm_stage - 2 + 1) % 2
    gelu_cycles = 4
    gelu = GeluSchedule(gelu_cycles)
    gelu_delay = gelu.delay
    root_latency = 2 + Multiplier.latency + Adder.latency + ReciprocalSqrt.latency

    def __init__(self, lanes):
        self.lanes = lanes
        vector = words(lanes)
        super().__init__({
            "operation": In(OperationLayout), "item": In(ItemLayout),
            "f": In(vector), "row_scale": In(32), "early": In(vector),
            "phase": In(range(self.gelu_cycles)), "adding": In(1),
            "x": In(vector), "table": In(vector),
            "a": In(vector), "b": In(vector),
            "total": In(32), "total_stb": In(1), "inv_dim": In(32), "eps": In(32),
            "stored": Out(vector), "loaded": Out(vector), "sums": Out(vector),
            "products": Out(vector), "scaled": Out(vector), "root_stb": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        op = self.operation
        vector = words(self.lanes)

        def later(value, name, stages=1):
            for stage in range(stages):
                register = Signal(value.shape(), name=f"{name}_{stage}", reset_less=True)
                m.d.sync += register.eq(value)
                value = register
            return value

        # Stage 2: what came in, and what the memories gave, at stage 1.
        item = later(self.item, "item")
        f = later(self.f, "f")
        row_scale = later(self.row_scale, "row_scale")
        x = later(self.x, "x")
        table = later(self.table, "table")
        m.d.comb += [self.stored.eq(f), self.loaded.eq(x)]
        if self.lanes == 1:
            # The partner of the first element is one stage behind, that of the second one ahead.
            x_ahead, table_ahead = later(x, "x_ahead"), later(table, "table_ahead")
            partner = [Mux(item.odd, x_ahead[0], self.x[0])]
            cos = [Mux(item.odd, table_ahead[0], table[0])]
            sin = [Mux(item.odd, table[0], self.table[0] ^ FP32.sign_mask)]
        else:
            partner = [x[lane ^ 1] for lane in range(self.lanes)]
            cos = [table[lane & ~1] for lane in range(self.lanes)]
            sin = [table[lane | 1] ^ (0 if lane & 1 else FP32.sign_mask)
                   for lane in range(self.lanes)]

        # The way of a sum of squares through lane 0 to its reciprocal root.
        to_eps = Signal(1 + Multiplier.latency)
        to_root = Signal(Adder.latency + ReciprocalSqrt.latency)
        root = Signal(32)
        m.submodules.rsqrt = rsqrt = ReciprocalSqrt()
        m.d.comb += [rsqrt.en.eq(1), rsqrt.a.eq(self.sums[0])]
        m.d.sync += [
            to_eps.eq(Cat(self.total_stb, to_eps)),
            to_root.eq(Cat(to_eps[-1], to_root)),
            self.root_stb.eq(to_root[-1]),
        ]
        with m.If(to_root[-1]):
            m.d.sync += root.eq(rsqrt.o)

        early = self.early
        gates = Signal(vector)
        gelu = self.gelu
        m.submodules.cubed = cubed = Delay(vector.size, gelu.argument - 1)
        m.d.comb += cubed.i.eq(early)
        late = Signal(vector)
        m.d.comb += late.as_value().eq(cubed.o)

        def step(offset):
            return op.gelu & (self.phase == offset % self.gelu_cycles)

        one = Const(ONE_BITS, 32)
        poly_step = Signal()
        m.d.comb += poly_step.eq(step(gelu.poly))
        for lane in range(self.lanes):
            m.submodules[f"mul{lane}"] = mul = Multiplier()
            m.submodules[f"gain{lane}"] = gain = Multiplier()
            m.submodules[f"add{lane}"] = add = Adder()
            m.submodules[f"exp{lane}"] = exp = Exponential()
            m.submodules[f"rcp{lane}"] = rcp = Reciprocal()
            m.d.comb += [unit.en.eq(1) for unit in (mul, gain, add, exp, rcp)]

            # A register in front of each multiplier: memories are slow, and so is the choice.
            m.d.sync += mul.a.eq(x[lane])
            with m.If(op.scale | op.glu):
                m.d.sync += mul.a.eq(f[lane])
            m.d.sync += mul.b.eq(root)
            with m.If(op.rope):
                m.d.sync += mul.b.eq(Mux(item.keep, one, cos[lane]))
            with m.If(op.scale):
                m.d.sync += mul.b.eq(row_scale)
            with m.If(op.glu):
                m.d.sync += mul.b.eq(Mux(item.up, x[lane], gates[lane]))
            with m.If(op.norm & item.square):
                m.d.sync += mul.b.eq(x[lane])
            # GELU: the square, then the argument of the exponential.
            poly = later(add.o, f"poly{lane}", gelu.poly_wait)
            argument = later(mul.o, f"argument{lane}", gelu.argument_wait)
            with m.If(step(gelu.square)):
                m.d.sync += [mul.a.eq(early[lane]), mul.b.eq(early[lane])]
            with m.If(step(gelu.argument)):
                m.d.sync += [mul.a.eq(late[lane]), mul.b.eq(poly)]

            # What is kept gets 0 * 0 added, whatever its partner is.
            m.d.sync += [gain.a.eq(mul.o), gain.b.eq(table[lane])]
            with m.If(op.rope):
                m.d.sync += [
                    gain.a.eq(Mux(item.keep, 0, partner[lane])),
                    gain.b.eq(Mux(item.keep, 0, sin[lane])),
                ]
            with m.If(op.gelu):
                m.d.sync += gain.b.eq(GELU_CUBIC_BITS)

            # A sum of products and not a chain of choices: the comparison of the operands follows.
            cube = later(gain.o, f"cube{lane}", gelu.cube_wait)
            normed = later(gain.o, f"normed{lane}", self.y_stage - self.norm_stage)
            operands = [
                (op.rope, mul.o, gain.o),
                (op.add, x[lane], f[lane]),
                (op.glu & ~poly_step, exp.o, one),
                (poly_step, cube, Const(GELU_LINEAR_BITS, 32)),
                (op.accumulate & self.adding, x[lane], normed),
            ]
            if lane == 0:
                with m.If(self.total_stb):
                    m.d.sync += [mul.a.eq(self.total), mul.b.eq(self.inv_dim)]
                operands.append((to_eps[-1], mul.o, self.eps))
            others = Cat(condition for condition, _, _ in operands).any()
            operands.append((~others, self.a[lane], self.b[lane]))
            for port, values in ((add.a, [(c, a) for c, a, _ in operands]),
                                 (add.b, [(c, b) for c, _, b in operands])):
                m.d.comb += port.eq(functools.reduce(operator.or_, (
                    Mux(condition, value, 0) for condition, value in values)))

            m.d.comb += [
                exp.a.eq(Mux(op.gelu, argument, early[lane]) ^ FP32.sign_mask),
                rcp.a.eq(add.o),
                gates[lane].eq(Mux(op.gelu, later(rcp.o, f"gate{lane}", gelu.gate_wait), rcp.o)),
                self.products[lane].eq(mul.o),
                self.scaled[lane].eq(gain.o),
                self.sums[lane].eq(add.o),
            ]
        return m

"""X SRAM, table SRAM and what lies between them."""

from amaranth import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..fp import Adder
from ..interfaces import words
from .delay import Delay
from .lanes import Lanes, OperationLayout
from .reducer import Reducer


__all__ = ["Datapath", "ResultItemLayout", "RowItemLayout", "XWriteSignature"]


#: A word read from X, see :class:`~headrace.hw.vector.rows.RowLoop`.
RowItemLayout = data.StructLayout({
    "x_addr": 16, "y_addr": 16, "table_addr": 16, "square": 1, "turn_first": 1, "turn_last": 1,
    "keep": 1, "odd": 1, "last": 1,
})


def ResultItemLayout(config: Config):
    """A result of the matmul unit on its way to X."""
    return data.StructLayout({"values": words(config.lanes), "row_scale": 32, "x_addr": 16,
                              "up": 1})


class XWriteSignature(wiring.Signature):
    """Write port of X."""

    def __init__(self, config: Config):
        super().__init__({"en": Out(1), "addr": Out(range(config.x_words)),
                          "data": Out(words(config.lanes))})


class Datapath(wiring.Component):
    """Memories, lanes and reducer, and the marks that travel beside the words.

    Stages count from the cycle of `row_valid` or `result_valid`; those of the lanes are in
    :class:`~headrace.hw.vector.lanes.Lanes`. In a GLU a result waits `Lanes.gate_delay` cycles
    before its stage 0, `gelu_delay` with GELU, while its gate is computed, so that gate and up
    tiles read and write X in one order. One item per cycle, rows or results but not both.

    Parameters
    ----------
    config : Config

    Members
    -------
    operation : ``In(OperationLayout)``
        Constant while `busy`.
    row_valid, row : ``In(1), In(RowItemLayout)``
        Reads a word, towards the quantiser or the reducer.
    result_valid, result : ``In(1), In(ResultItemLayout(config))``
        A word towards X.
    x_en, x_addr, x_data : ``In``
        Other writes to X, while no result is under way.
    table_en, table_addr, table_data : ``In``
        Write port of the table SRAM.
    inv_dim, eps : ``In(32)``
        Scalars of NORM.
    root_stb : ``Out(1)``
        Pulse: the root of the sum of squares is known; items may follow.
    hold : ``Out(1)``
        No result may come in this cycle: GELU needs the units of the lanes for several steps.
    values, values_valid, values_last : ``Out``
        Words for the quantiser.
    busy : ``Out(1)``
        Results are under way, or were a cycle ago.
    written : ``Out(XWriteSignature(config))``
        What is written to X, for observers.
    """
    def __init__(self, config: Config):
        self.config = config
        vector = words(config.lanes)
        self.table_words = config.table_elems // config.lanes
        self.reducer = Reducer(config.lanes)
        super().__init__({
            "operation": In(OperationLayout),
            "row_valid": In(1), "row": In(RowItemLayout),
            "result_valid": In(1), "result": In(ResultItemLayout(config)),
            "x_en": In(1), "x_addr": In(range(config.x_words)), "x_data": In(vector),
            "table_en": In(1), "table_addr": In(range(self.table_words)), "table_data": In(vector),
            "inv_dim": In(32), "eps": In(32), "root_stb": Out(1), "hold": Out(1),
            "values": Out(vector), "values_valid": Out(1), "values_last": Out(1),
            "busy": Out(1),
            "written": Out(XWriteSignature(config)),
        })

    #: Cycles from a result to the first that may read what it wrote.
    hazard = Lanes.mul_stage + 1

    def elaborate(self, platform):
        m = Module()
        config, op = self.config, self.operation
        vector = words(config.lanes)
        m.submodules.x = x_memory = memory.Memory(
            shape=unsigned(vector.size), depth=config.x_words, init=[])
        m.submodules.table = table = memory.Memory(
            shape=unsigned(vector.size), depth=self.table_words, init=[])
        x_read, x_write = x_memory.read_port(), x_memory.write_port()
        table_read, table_write = table.read_port(), table.write_port()
        lanes = Lanes(config.lanes)
        m.submodules.reducer = reducer = self.reducer

        # The lanes rest when the last word has passed: less power, and a simulator skips what
        # does not move. Their longest ways, in cycles; one of NORM leads through the reducer.
        ways = {
            "norm": max(Lanes.mul_stage + reducer.latency + Lanes.root_latency,
                        Lanes.y_stage + Adder.latency),
            "glu": Lanes.gate_delay + Lanes.mul_stage,
            "gelu": Lanes.gelu_delay + Lanes.mul_stage,
            "other": max(Lanes.rope_stage, Lanes.add_stage),
        }
        left = Signal(range(max(ways.values()) + 2))
        awake = Signal()
        comes = self.row_valid | self.result_valid
        # A register, as everything in the lanes waits for it; so their first stage is out here.
        m.d.sync += awake.eq(comes | (left > 1))
        with m.If(comes):
            m.d.sync += left.eq(Mux(op.norm, ways["norm"] + 1,
                                    Mux(op.gelu, ways["gelu"] + 1,
                                        Mux(op.glu, ways["glu"] + 1, ways["other"] + 1))))
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        m.submodules.lanes = EnableInserter(awake)(lanes)

        # Results: at once, or behind the gates.
        m.submodules.behind = behind = Delay(self.result.as_value().shape().width,
                                             Lanes.gelu_delay, short=Lanes.gate_delay)
        behind_valid = Signal(Lanes.gelu_delay)
        # Marks end where the short way does, or a GELU behind a SiLU would meet them.
        longer = len(behind_valid) - Lanes.gate_delay
        m.d.sync += behind_valid.eq(Cat(
            self.result_valid & op.glu, behind_valid[:Lanes.gate_delay - 1],
            behind_valid[Lanes.gate_delay - 1:-1] & op.gelu.replicate(longer)))
        m.d.comb += [behind.i.eq(self.result), behind.shorten.eq(~op.gelu)]
        phase = Signal(range(Lanes.gelu_cycles))
        m.d.sync += phase.eq(Mux(phase == Lanes.gelu_cycles - 1, 0, phase + 1))
        m.d.comb += [lanes.phase.eq(phase), self.hold.eq(op.glu & op.gelu & (phase != 0))]
        result = Signal(ResultItemLayout(config))
        valid = Signal()
        m.d.comb += [result.eq(self.result), valid.eq(self.result_valid)]
        with m.If(op.glu):
            m.d.comb += [result.eq(behind.o), valid.eq(
                Mux(op.gelu, behind_valid[-1], behind_valid[Lanes.gate_delay - 1]))]

        # Stage 0: addresses of the memories.
        m.submodules.gain_addr = gain_addr = Delay(len(table_read.addr), Lanes.gain_lag)
        m.d.comb += [
            x_read.en.eq(1),
            x_read.addr.eq(Mux(self.row_valid, self.row.x_addr, result.x_addr)),
            gain_addr.i.eq(self.row.table_addr),
            table_read.en.eq(1),
            table_read.addr.eq(Mux(op.norm, gain_addr.o, self.row.table_addr)),
            table_write.en.eq(self.table_en),
            table_write.addr.eq(self.table_addr),
            table_write.data.eq(self.table_data.as_value()),
        ]
        # RMS: its result meets the word that it is added to.
        reads_y = Lanes.y_stage - 2
        m.submodules.y_read = y_read = Delay(16, reads_y)
        m.submodules.y_write = y_write = Delay(16, Lanes.norm_stage - reads_y)
        m.submodules.y_sum = y_sum = Delay(16, Lanes.y_stage + Adder.latency - Lanes.norm_stage)
        m.d.comb += [y_read.i.eq(self.row.y_addr), y_write.i.eq(y_read.o), y_sum.i.eq(y_write.o)]
        with m.If(op.accumulate & ~self.row_valid):
            m.d.comb += x_read.addr.eq(y_read.o)

        m.d.comb += lanes.operation.eq(op)
        m.d.sync += [
            lanes.item.square.eq(self.row.square),
            lanes.item.keep.eq(self.row.keep),
            lanes.item.odd.eq(self.row.odd),
            lanes.item.up.eq(result.up),
            lanes.f.eq(result.values),
            lanes.row_scale.eq(result.row_scale),
            lanes.early.eq(self.result.values),
        ]
        m.d.comb += [
            lanes.x.eq(x_read.data),
            lanes.table.eq(table_read.data),
            lanes.a.eq(reducer.a),
            lanes.b.eq(reducer.b),
            lanes.total.eq(reducer.total),
            lanes.total_stb.eq(reducer.total_stb),
            lanes.inv_dim.eq(self.inv_dim),
            lanes.eps.eq(self.eps),
            self.root_stb.eq(lanes.root_stb),
            reducer.x.eq(lanes.products),
            reducer.sums.eq(lanes.sums),
        ]

        # Marks of each stage, from 1 on; index 0 is what comes in now.
        summed = Lanes.y_stage + Adder.latency
        deepest = max(summed, Lanes.norm_stage, Lanes.rope_stage, Lanes.add_stage)
        marks_layout = data.StructLayout({
            "value": 1, "last": 1, "square": 1, "turn_first": 1, "turn_last": 1, "write": 1,
        })
        marks = [Signal(marks_layout, name=f"mark{stage}") for stage in range(deepest + 1)]
        m.d.comb += [
            marks[0].value.eq(self.row_valid & ~self.row.square),
            marks[0].last.eq(self.row.last),
            marks[0].square.eq(self.row_valid & self.row.square),
            marks[0].turn_first.eq(self.row.turn_first),
            marks[0].turn_last.eq(self.row.turn_last),
            marks[0].write.eq(valid),
        ]
        m.d.sync += [new.eq(old) for old, new in zip(marks, marks[1:])]
        addrs = [result.x_addr]
        for stage in range(1, max(Lanes.mul_stage, Lanes.add_stage) + 1):
            addr = Signal(16, name=f"addr{stage}", reset_less=True)
            m.d.sync += addr.eq(addrs[-1])
            addrs.append(addr)

        m.d.comb += lanes.adding.eq(marks[Lanes.y_stage].value)
        squares = marks[Lanes.mul_stage]
        m.d.comb += [
            reducer.valid.eq(squares.square),
            reducer.first.eq(squares.turn_first),
            reducer.last.eq(squares.turn_last),
        ]

        # Towards the quantiser.
        for condition, stage, values in (
            (~op.norm & ~op.rope, Lanes.store_stage, lanes.loaded),
            (op.norm & ~op.rms, Lanes.norm_stage, lanes.scaled),
            (op.rope, Lanes.rope_stage, lanes.sums),
        ):
            with m.If(condition):
                m.d.comb += [
                    self.values.eq(values),
                    self.values_valid.eq(marks[stage].value),
                    self.values_last.eq(marks[stage].last),
                ]

        # Towards X.
        m.d.comb += [
            x_write.en.eq(self.x_en),
            x_write.addr.eq(self.x_addr),
            x_write.data.eq(self.x_data.as_value()),
        ]
        multiplied = op.scale | op.glu
        for condition, stage, values in (
            (~op.add & ~multiplied, Lanes.store_stage, lanes.stored),
            (op.add, Lanes.add_stage, lanes.sums),
            (multiplied, Lanes.mul_stage, lanes.products),
        ):
            with m.If(condition & marks[stage].write):
                m.d.comb += [
                    x_write.en.eq(1),
                    x_write.addr.eq(addrs[stage]),
                    x_write.data.eq(values.as_value()),
                ]
        for condition, stage, values, addr in (
            (op.rms & ~op.accumulate, Lanes.norm_stage, lanes.scaled, y_write.o),
            (op.rms & op.accumulate, summed, lanes.sums, y_sum.o),
        ):
            with m.If(condition & marks[stage].value):
                m.d.comb += [
                    x_write.en.eq(1),
                    x_write.addr.eq(addr),
                    x_write.data.eq(values.as_value()),
                ]
        m.d.comb += [
            self.written.en.eq(x_write.en),
            self.written.addr.eq(x_write.addr),
            self.written.data.eq(x_write.data),
        ]
        # A mark is of no interest once it has passed the stage of its write.
        writes = Cat(mark.write for mark in marks)
        m.d.sync += self.busy.eq(
            self.result_valid | behind_valid[:Lanes.gate_delay].any()
            | (op.gelu & behind_valid[Lanes.gate_delay:].any())
            | (op.rms & Cat(mark.value for mark in marks[:summed + 1]).any())
            | writes[:Lanes.store_stage + 1].any()
            | ((op.add | multiplied)
               & writes[Lanes.store_stage + 1:max(Lanes.add_stage, Lanes.mul_stage) + 1].any()))
        return m

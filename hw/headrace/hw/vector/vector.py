"""The vector unit: all of a pass that is not a matrix product or a softmax."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import KV_BLOCK, Config
from ..interfaces import (
    AppendLayout,
    AWriteSignature,
    CommandLayout,
    RequestLayout,
    ResultLayout,
    SWriteSignature,
    field,
    words,
)
from ..isa import Op
from .datapath import Datapath, XWriteSignature
from .embed import Embedder
from .logits import LinearLayout, LogitsLoop
from .quantiser import Quantiser
from .record import Recorder, SingleLayout
from .results import ResultLoop
from .rows import RowLoop
from .sink import GroupSink
from .tables import TableLoader


__all__ = ["EventsLayout", "Vector"]


#: What the unit does in a cycle: exactly one is 1.
EventsLayout = data.StructLayout({"busy": 1, "wait_matmul": 1, "wait_memory": 1, "wait_write": 1,
                                  "idle": 1})


class Vector(wiring.Component):
    """Executes EMBED, NORM, RMS, QUANT, STORE, ADD, GLU, APPEND, ROPE, ATTN_OUT, LOGITS and END.

    In order and one at a time, each until its last write, as ``docs/architecture.md`` says;
    ``docs/vector.md`` has the cycles. Two things go on beside later instructions: memory's
    acknowledgement of an APPEND, and the record of END. Other instructions are passed over.

    Parameters
    ----------
    config : Config

    Members
    -------
    commands : ``In(stream.Signature(CommandLayout))``
        Taken when the instruction has ended: the payload must stay while it is valid.
    results : ``In(stream.Signature(ResultLayout(config)))``
    tables : ``In(stream.Signature(words(lanes)))``
        Gains of each NORM and rows of each APPEND, in order.
    requests, request_data : ``Out(stream of RequestLayout)``, ``In(stream of words(lanes))``
        Reads of EMBED, answered in order.
    a_write, s_write : ``Out(AWriteSignature(config)), Out(SWriteSignature(config))``
    a_ready : ``Out(1)``
        Pulse: an instruction with `post_a` has written A and the scales.
    append, append_data : ``Out(stream of AppendLayout)``, ``Out(stream of words(lanes, 8))``
        Entries of the cache, ``head_dim / lanes`` words each.
    appended : ``Out(1)``
        Pulse: readers see all appends of the instruction.
    linear, linear_data : ``Out(stream of LinearLayout)``, ``Out(stream of words(lanes))``
        Logits.
    single : ``Out(stream.Signature(SingleLayout))``
        The next token, the record.
    write_idle : ``In(1)``
        Memory has acknowledged everything accepted until two cycles ago.
    append_idle : ``In(1)``
        Readers of the cache see all appends accepted until two cycles ago.
    counter_hold, counter_index, counter_data : ``Out(1), Out(8), In(32)``
        See :class:`~headrace.hw.vector.record.Recorder`.
    token, token_stb : ``Out(32), Out(1)``
        The token that LOGITS chose, and a pulse when it is new.
    pass_done : ``Out(1)``
        Pulse: the record of an END is complete in memory.
    written : ``Out(XWriteSignature(config))``
        What is written to X, for observers.
    events : ``Out(EventsLayout)``
    """
    #: Groups between the row loop and their destinations.
    groups = 32

    #: Cycles of the product of `pitch` and a token or block.
    product_latency = 3

    def __init__(self, config: Config):
        self.config = config
        self.datapath = Datapath(config)
        self.quantiser = Quantiser(config, groups=self.groups)
        vector = words(config.lanes)
        super().__init__({
            "commands": In(stream.Signature(CommandLayout)),
            "results": In(stream.Signature(ResultLayout(config))),
            "tables": In(stream.Signature(vector)),
            "requests": Out(stream.Signature(RequestLayout)),
            "request_data": In(stream.Signature(vector)),
            "a_write": Out(AWriteSignature(config)), "s_write": Out(SWriteSignature(config)),
            "a_ready": Out(1),
            "append": Out(stream.Signature(AppendLayout)),
            "append_data": Out(stream.Signature(words(config.lanes, 8))),
            "appended": Out(1),
            "linear": Out(stream.Signature(LinearLayout)),
            "linear_data": Out(stream.Signature(vector)),
            "single": Out(stream.Signature(SingleLayout)),
            "write_idle": In(1), "append_idle": In(1),
            "counter_hold": Out(1), "counter_index": Out(8), "counter_data": In(32),
            "token": Out(32), "token_stb": Out(1), "pass_done": Out(1),
            "written": Out(XWriteSignature(config)),
            "events": Out(EventsLayout),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        command = self.commands.payload
        lanes_log2 = (config.lanes - 1).bit_length()

        m.submodules.datapath = path = self.datapath
        m.submodules.quantiser = quantiser = self.quantiser
        m.submodules.sink = sink = GroupSink(config, groups=self.groups)
        m.submodules.row_loop = rows = RowLoop(
            config, turn_words=path.reducer.turn_words, turn_cycles=path.reducer.turn_cycles,
            words=quantiser.depth, groups=self.groups, product_latency=self.product_latency)
        m.submodules.result_loop = results = ResultLoop(config, hazard=path.hazard)
        m.submodules.loader = loader = TableLoader(config)
        m.submodules.embedder = embedder = Embedder(config, product_latency=self.product_latency)
        m.submodules.logits = logits = LogitsLoop(config)
        m.submodules.recorder = recorder = Recorder()

        # The instruction, one hot, from registers: much depends on it. Its payload stays until
        # it is taken at its end.
        op = {name: Signal(name=f"is_{name.name.lower()}") for name in Op}
        is_rows = op[Op.NORM] | op[Op.QUANT] | op[Op.APPEND] | op[Op.ROPE] | op[Op.RMS]
        is_results = op[Op.STORE] | op[Op.ADD] | op[Op.GLU] | op[Op.ATTN_OUT]
        gelu, accumulate = Signal(), Signal()
        start, finish = Signal(), Signal()
        settle = Signal(2)
        write_idle, append_idle = Signal(), Signal()     # of the cycle before
        m.d.sync += [write_idle.eq(self.write_idle), append_idle.eq(self.append_idle)]
        appending = Signal()            # an APPEND has ended that readers do not see yet
        behind = Signal()               # an earlier instruction holds what this one needs
        m.d.comb += behind.eq((op[Op.APPEND] & appending)
                              | ((op[Op.LOGITS] | op[Op.END]) & recorder.busy))
        with m.FSM(name="vector"):
            with m.State("IDLE"):
                m.d.sync += [signal.eq(self.commands.valid & (field(command, "op") == name))
                             for name, signal in op.items()]
                # With it, from the same command: the next one may be there before `op` changes.
                m.d.sync += [gelu.eq(field(command, "gelu")),
                             accumulate.eq(field(command, "accumulate"))]
                with m.If(self.commands.valid):
                    m.next = "START"
            with m.State("START"):
                with m.If(~behind):
                    m.d.comb += start.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(op[Op.RMS]):
                    with m.If(rows.done):
                        m.next = "FLUSH"
                with m.Elif(is_rows):
                    m.d.comb += finish.eq(rows.done)
                with m.Elif(is_results):
                    with m.If(results.done):
                        m.next = "FLUSH"
                with m.Elif(op[Op.EMBED]):
                    m.d.comb += finish.eq(embedder.done)
                with m.Elif(op[Op.LOGITS]):
                    m.d.comb += finish.eq(logits.done)
                with m.Else():
                    # The recorder knows all that it needs of END.
                    m.d.comb += finish.eq(1)
                with m.If(finish):
                    m.next = "IDLE"
            with m.State("FLUSH"):
                with m.If(~path.busy):
                    m.d.comb += finish.eq(1)
                    m.next = "IDLE"
        m.d.comb += [
            self.commands.ready.eq(finish),
            self.pass_done.eq(recorder.done),
        ]
        # The last write of A and of the scales was in the cycle before.
        m.d.comb += self.a_ready.eq(finish & (op[Op.NORM] | op[Op.QUANT] | op[Op.ROPE])
                                    & field(command, "post_a"))

        # The acknowledgement of appends. `append_idle` may still be 1 just after the last was
        # accepted.
        m.d.comb += self.appended.eq(appending & (settle == 0) & append_idle)
        with m.If(settle != 0):
            m.d.sync += settle.eq(settle - 1)
        with m.If(self.appended):
            m.d.sync += appending.eq(0)
        with m.If(finish & op[Op.APPEND]):
            m.d.sync += [appending.eq(1), settle.eq(3)]

        # One multiplier for both products of `pitch`.
        factor, pitch = Signal(32, reset_less=True), Signal(32, reset_less=True)
        product = [Signal(34, name=f"product{i}", reset_less=True) for i in range(2)]
        m.d.sync += [
            factor.eq(Mux(op[Op.EMBED], embedder.factor,
                          command.position >> (KV_BLOCK - 1).bit_length())),
            pitch.eq(field(command, "pitch")),
            product[0].eq(factor * pitch),
            product[1].eq(product[0]),
        ]

        # Loops.
        m.d.comb += [
            embedder.start.eq(start & op[Op.EMBED]),
            embedder.command.eq(command),
            embedder.product.eq(product[1]),
            rows.start.eq(start & is_rows),
            rows.command.eq(command),
            rows.rows.norm.eq(op[Op.NORM]), rows.rows.quant.eq(op[Op.QUANT]),
            rows.rows.append.eq(op[Op.APPEND]), rows.rows.rope.eq(op[Op.ROPE]),
            rows.rows.rms.eq(op[Op.RMS]), rows.flushed.eq(~path.busy), results.hold.eq(path.hold),
            rows.loaded.eq(loader.loaded & ~loader.start),
            rows.root_stb.eq(path.root_stb),
            rows.product.eq(product[1]),
            rows.taken.eq(quantiser.taken),
            rows.retired.eq(sink.retired),
            results.start.eq(start & is_results),
            results.command.eq(command),
            results.kind.store.eq(op[Op.STORE]), results.kind.add.eq(op[Op.ADD]),
            results.kind.glu.eq(op[Op.GLU]), results.kind.attn_out.eq(op[Op.ATTN_OUT]),
            logits.start.eq(start & op[Op.LOGITS]),
            logits.command.eq(command),
            logits.write_idle.eq(write_idle),
            recorder.start.eq(start & op[Op.END]),
            recorder.command.eq(command),
            recorder.counter_data.eq(self.counter_data),
            recorder.write_idle.eq(write_idle),
            self.counter_hold.eq(recorder.counter_hold),
            self.counter_index.eq(recorder.counter_index),
            self.token.eq(logits.token),
            self.token_stb.eq(logits.token_stb),
            loader.start.eq(start & (op[Op.NORM] | op[Op.RMS] | op[Op.APPEND])),
            loader.base.eq(Mux(op[Op.RMS], field(command, "table_base"), 0)),
            loader.rows.eq(Mux(op[Op.APPEND], command.positions, 1)),
            loader.row_words.eq(Mux(~op[Op.APPEND], field(command, "dim"),
                                    field(command, "head_dim")) >> lanes_log2),
        ]
        connect(m, flipped(self.tables), loader.tables)
        connect(m, embedder.requests, flipped(self.requests))
        connect(m, flipped(self.request_data), embedder.request_data)
        connect(m, logits.linear, flipped(self.linear))
        connect(m, logits.linear_data, flipped(self.linear_data))
        for loop in (results, logits):
            m.d.comb += [
                loop.results.payload.eq(self.results.payload),
                loop.results.valid.eq(self.results.valid),
            ]
        m.d.comb += self.results.ready.eq(results.results.ready | logits.results.ready)
        m.d.comb += [
            self.single.valid.eq(logits.single.valid | recorder.single.valid),
            self.single.payload.eq(Mux(recorder.busy, recorder.single.payload,
                                       logits.single.payload)),
            logits.single.ready.eq(self.single.ready & ~recorder.busy),
            recorder.single.ready.eq(self.single.ready),
        ]

        # Words through the datapath.
        operation, row, result = path.operation, path.row, path.result
        # A register, right from the cycle after `start` on.
        m.d.sync += [
            operation.norm.eq(op[Op.NORM] | op[Op.RMS]),
            operation.rms.eq(op[Op.RMS]),
            operation.accumulate.eq(op[Op.RMS] & accumulate),
            operation.gelu.eq(op[Op.GLU] & gelu),
            operation.rope.eq(op[Op.APPEND] | op[Op.ROPE]),
            operation.add.eq(op[Op.ADD]),
            operation.glu.eq(op[Op.GLU]),
            operation.scale.eq(op[Op.ATTN_OUT]),
        ]
        m.d.comb += [
            path.row_valid.eq(rows.valid),
            *(row[name].eq(getattr(rows, name)) for name in row.shape().members),
            path.result_valid.eq(results.valid),
            result.values.eq(self.results.payload.values),
            result.row_scale.eq(self.results.payload.row_scale),
            result.x_addr.eq(results.x_addr),
            result.up.eq(results.up),
            path.x_en.eq(embedder.en), path.x_addr.eq(embedder.addr),
            path.x_data.eq(embedder.data),
            path.table_en.eq(loader.en), path.table_addr.eq(loader.addr),
            path.table_data.eq(loader.data),
            path.inv_dim.eq(field(command, "inv_dim")), path.eps.eq(field(command, "eps")),
        ]

        connect(m, path.written, flipped(self.written))

        # Groups to their destinations.
        m.d.comb += [
            quantiser.cache.eq(op[Op.APPEND]),
            quantiser.valid.eq(path.values_valid),
            quantiser.last.eq(path.values_last),
            quantiser.values.eq(path.values),
            sink.cache.eq(op[Op.APPEND]),
            sink.command.eq(command),
            sink.push.eq(rows.push),
            sink.destination.eq(rows.destination),
        ]
        connect(m, quantiser.o, sink.i)
        connect(m, sink.a_write, flipped(self.a_write))
        connect(m, sink.s_write, flipped(self.s_write))
        connect(m, sink.append, flipped(self.append))
        connect(m, sink.append_data, flipped(self.append_data))

        # What this cycle is spent on.
        def stalled(output):
            return output.valid & ~output.ready

        def starved(source):
            return source.ready & ~source.valid

        with m.If(~self.commands.valid):
            m.d.comb += self.events.idle.eq(1)
        with m.Elif(starved(self.results)):
            m.d.comb += self.events.wait_matmul.eq(1)
        with m.Elif(stalled(self.requests) | starved(self.request_data) | rows.waiting):
            m.d.comb += self.events.wait_memory.eq(1)
        with m.Elif(stalled(self.append) | stalled(self.append_data) | stalled(self.linear)
                    | stalled(self.linear_data) | (stalled(self.single) & op[Op.LOGITS])
                    | logits.waiting | behind):
            m.d.comb += self.events.wait_write.eq(1)
        with m.Else():
            m.d.comb += self.events.busy.eq(1)
        return m

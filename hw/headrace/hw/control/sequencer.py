"""Fetches the program, and gives each instruction to its engines."""

from amaranth import *
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import CommandLayout, field
from ..isa import ENGINES, FIELDS, INSTRUCTION_BYTES, OPCODES, Op
from ..memory.layouts import FetchLayout
from ..memory.reader import ErrorLayout


__all__ = ["CommandQueue", "ENGINE_NAMES", "FailureLayout", "Sequencer", "UNKNOWN_INSTRUCTION",
           "UNUSED", "code_bits"]


ENGINE_NAMES = ("memory", "matmul", "vector")

#: Error code of an opcode that does not exist.
UNKNOWN_INSTRUCTION = 5

#: Why a run ended early: `code` as in `regmap.ERRORS`, absolute address.
FailureLayout = ErrorLayout

#: Fields of its instructions that an engine does not look at: other engines do.
UNUSED = {
    "memory": ("x_base", "x_stride", "a_base", "a_stride", "s_base", "s_stride", "y_base",
               "vectors", "table_base", "accumulate", "inv_dim", "eps"),
    "matmul": ("addr",),
    "vector": (),
}

#: Scalars of the pass that each engine looks at.
SCALARS = {
    "memory": ("position", "positions"),
    "matmul": ("position", "positions"),
    "vector": ("position", "positions", "index", "head", "logits"),
}


def code_bits(engine):
    """Positions of the bits of an instruction that `engine` looks at, in ascending order."""
    used = {"op"}.union(*(OPCODES[op] for op, engines in ENGINES.items() if engine in engines))
    used -= set(UNUSED[engine])
    return sorted({bit for name in used
                   for bit in range(FIELDS[name].offset, FIELDS[name].offset + FIELDS[name].bits)})


class CommandQueue(wiring.Component):
    """Commands of one engine, as far as its instructions use their bits. The others are 0.

    Parameters
    ----------
    engine : str
        One of `ENGINE_NAMES`.
    depth : int
        Commands that it holds.

    Members
    -------
    i, o : ``In(stream.Signature(CommandLayout))``, ``Out(stream.Signature(CommandLayout))``
        Commands.
    """
    def __init__(self, engine, depth):
        self._engine = engine
        self._depth = depth
        super().__init__({"i": In(stream.Signature(CommandLayout)),
                          "o": Out(stream.Signature(CommandLayout))})

    def elaborate(self, platform):
        m = Module()
        bits, scalars = code_bits(self._engine), SCALARS[self._engine]

        def used(command):
            return Cat(*(command.code[bit] for bit in bits), *(command[name] for name in scalars))

        packed, unpacked = used(self.i.payload), used(self.o.payload)
        m.submodules.store = store = fifo.SyncFIFOBuffered(width=len(packed), depth=self._depth)
        m.d.comb += [
            store.w_data.eq(packed), store.w_en.eq(self.i.valid), self.i.ready.eq(store.w_rdy),
            unpacked.eq(store.r_data), self.o.valid.eq(store.r_rdy), store.r_en.eq(self.o.ready),
        ]
        return m


class Sequencer(wiring.Component):
    """Run a program once per pass.

    The program of a pass is fetched as soon as the memory system takes the request: while the
    engines still work on earlier passes. The first pass has `positions` positions from `position`
    on; every later one has the next position, and computes logits. Instructions with `head` are
    skipped in passes without logits. An instruction waits until the queues of all its engines
    have room.

    The run ends when all passes are done, at an unknown instruction, or at an error of the memory
    system, which wins over the others. After an error, only a reset of this unit, together with
    the engines, makes it ready for another start. A run of no passes is done at once; a program
    without instructions is an unknown instruction.

    Parameters
    ----------
    depth : int
        Commands in each queue.

    Members
    -------
    start : ``In(1)``
        Start a run; must not come while `busy`. The following six are constant during a run.
    base, program, instructions, passes : ``In(40)``, ``In(32)``, ``In(32)``, ``In(32)``
        As in the registers of these names.
    position, positions, head, logits : ``In(32)``, ``In(16)``, ``In(1)``, ``In(1)``
        Scalars of the first pass, sampled at `start`; `logits` of every pass.
    fetch, instruction : ``Out(stream.Signature(FetchLayout))``, ``In(stream.Signature(256))``
        Requests for a program, and its instructions.
    memory, matmul, vector : ``Out(stream.Signature(CommandLayout))``
        Commands of the engines.
    pass_done : ``In(1)``
        Pulse: a pass is complete.
    memory_error : ``In(FailureLayout)``
        Error of the memory system.
    busy : ``Out(1)``
        A run lasts.
    done_stb : ``Out(1)``
        Pulse: the run ended well.
    failure : ``Out(FailureLayout)``
        Pulse: the run ended with this error.
    passes_done : ``Out(32)``
        Passes completed in this run.
    """
    def __init__(self, config: Config, *, depth=8):
        self._config = config
        self._depth = depth
        command = stream.Signature(CommandLayout)
        super().__init__({
            "start": In(1),
            "base": In(40), "program": In(32), "instructions": In(32), "passes": In(32),
            "position": In(32), "positions": In(16), "head": In(1), "logits": In(1),
            "fetch": Out(stream.Signature(FetchLayout)),
            "instruction": In(stream.Signature(8 * INSTRUCTION_BYTES)),
            "memory": Out(command), "matmul": Out(command), "vector": Out(command),
            "pass_done": In(1),
            "memory_error": In(FailureLayout),
            "busy": Out(1), "done_stb": Out(1), "failure": Out(FailureLayout),
            "passes_done": Out(32),
        })

    def elaborate(self, platform):
        m = Module()

        queues = {}
        for name in ENGINE_NAMES:
            m.submodules[f"{name}_queue"] = queues[name] = CommandQueue(name, self._depth)
            wiring.connect(m, queues[name].o, wiring.flipped(getattr(self, name)))

        # Fetches.
        unfetched = Signal(32)
        m.d.comb += [
            self.fetch.valid.eq(self.busy & (unfetched != 0)),
            self.fetch.payload.addr.eq(self.program),
            self.fetch.payload.count.eq(self.instructions),
        ]
        with m.If(self.fetch.valid & self.fetch.ready):
            m.d.sync += unfetched.eq(unfetched - 1)

        # Dispatch.
        command = Signal(CommandLayout)
        left = Signal(32)                    # instructions of the pass after this one
        addr = Signal(40)                    # of this instruction
        known, room, empty = Signal(), Signal(init=1), Signal()
        targets = {name: Signal(name=f"to_{name}") for name in ENGINE_NAMES}
        op = field(command, "op")
        with m.Switch(op):
            for value in Op:
                with m.Case(int(value)):
                    m.d.comb += known.eq(1)
                    m.d.comb += [targets[name].eq(1) for name in ENGINES[value]]
        skip, go, unknown = Signal(), Signal(), Signal()
        m.d.comb += [
            command.code.eq(self.instruction.payload),
            room.eq(Cat(~targets[name] | queues[name].i.ready for name in ENGINE_NAMES).all()),
            skip.eq(field(command, "head") & ~command.head),
            empty.eq(self.instructions == 0),
            go.eq(self.busy & self.instruction.valid & known & (skip | room)),
            unknown.eq(self.busy & ((self.instruction.valid & ~known) | empty)),
            self.instruction.ready.eq(go),
        ]
        for name in ENGINE_NAMES:
            m.d.comb += [
                queues[name].i.payload.eq(command),
                queues[name].i.valid.eq(go & ~skip & targets[name]),
            ]

        # Scalars are kept beside the code, which is not stored here.
        position, positions, index, head = (Signal(32), Signal(16), Signal(16), Signal())
        m.d.comb += [
            command.position.eq(position), command.positions.eq(positions),
            command.index.eq(index), command.head.eq(head), command.logits.eq(self.logits),
        ]
        first = Signal(40)
        m.d.comb += first.eq(self.base + (self.program << 6))
        with m.If(go):
            m.d.sync += [left.eq(left - 1), addr.eq(addr + INSTRUCTION_BYTES)]
            with m.If(left == 0):
                m.d.sync += [
                    left.eq(self.instructions - 1), addr.eq(first),
                    position.eq(position + positions), positions.eq(1), index.eq(index + 1),
                    head.eq(1),
                ]

        # Beginning and end.
        all_done = Signal()                  # as of the cycle before
        m.d.sync += all_done.eq(self.passes_done == self.passes)
        with m.If(self.busy):
            with m.If(self.memory_error.valid):
                m.d.comb += self.failure.eq(self.memory_error)
            with m.Elif(all_done):
                m.d.comb += self.done_stb.eq(1)
            with m.Elif(unknown):
                m.d.comb += [self.failure.valid.eq(1), self.failure.code.eq(UNKNOWN_INSTRUCTION),
                             self.failure.addr.eq(addr)]
            with m.If(self.failure.valid | self.done_stb):
                m.d.sync += self.busy.eq(0)
            with m.If(self.pass_done):
                m.d.sync += self.passes_done.eq(self.passes_done + 1)
        with m.If(self.start):
            m.d.sync += [
                self.busy.eq(1), self.passes_done.eq(0), unfetched.eq(self.passes),
                all_done.eq(self.passes == 0),
                left.eq(self.instructions - 1), addr.eq(first),
                position.eq(self.position), positions.eq(self.positions), index.eq(0),
                head.eq(self.head),
            ]

        return m

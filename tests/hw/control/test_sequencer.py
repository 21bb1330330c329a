"""Sequencer: dispatch, skipping, running ahead, errors."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from headrace.hw.config import Config
from headrace.hw.control.sequencer import ENGINE_NAMES, UNUSED, Sequencer, code_bits
from headrace.hw.isa import ENGINES, FIELDS, OPCODES, Op, decode, encode


CONFIG = Config()


def random_instruction(rng, op=None, head=None):
    op = op or rng.choice([op for op in Op if op != Op.END])
    values = {name: rng.getrandbits(FIELDS[name].bits) for name in OPCODES[op]}
    head = rng.random() < 0.3 if head is None else head
    return encode(op, **values, head=int(head))


def make_program(rng, count):
    return [random_instruction(rng) for _ in range(count - 1)] + [
        random_instruction(rng, Op.END, head=False)]


def expected_commands(program, *, passes, position, positions, head, logits):
    """Commands of each engine, in order, as (fields, scalars)."""
    result = {name: [] for name in ENGINE_NAMES}
    for index in range(passes):
        for code in program:
            fields = decode(code)
            if fields["head"] and not head:
                continue
            for engine in ENGINES[fields["op"]]:
                result[engine].append((fields, position, positions, index, head))
        position, positions, head = (position + positions) % 2**32, 1, 1
    return result


class Bench:
    """The memory system and the engines around a sequencer."""

    def __init__(self, *, seed=1, stall=0.0, base=0x12_0000_1000, program=0x40):
        self.rng = random.Random(seed)
        self.stall = stall
        self.halt = Signal()
        self.dut = Sequencer(CONFIG)
        self.base, self.program = base, program
        self.commands = {name: [] for name in ENGINE_NAMES}
        self.blocked = set()                 # engines that take nothing
        self.fetches = 0
        self.pending = []                    # instructions on their way
        self.ended = 0                       # END instructions taken by the vector unit
        self.auto_done = True

    def wants(self):
        return self.rng.random() >= self.stall

    async def start(self, ctx, code, *, passes=1, position=0, positions=1, head=0, logits=0):
        dut = self.dut
        self.code = code
        for name, value in {"base": self.base, "program": self.program,
                            "instructions": len(code), "passes": passes, "position": position,
                            "positions": positions, "head": head, "logits": logits}.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)

    async def cycle(self, ctx):
        """One cycle; returns (done, failure)."""
        dut = self.dut
        ctx.set(dut.fetch.ready, self.wants())
        if self.pending and not ctx.get(dut.instruction.valid) and self.wants():
            ctx.set(dut.instruction.payload, int.from_bytes(self.pending[0], "little"))
            ctx.set(dut.instruction.valid, 1)
        ready = {name: name not in self.blocked and self.wants() for name in ENGINE_NAMES}
        for name in ENGINE_NAMES:
            ctx.set(getattr(dut, name).ready, ready[name])
        ended = 0
        for name in ENGINE_NAMES:
            port = getattr(dut, name)
            if ready[name] and ctx.get(port.valid):
                command = ctx.get(port.payload)
                fields = decode(command.code.to_bytes(32, "little"))
                self.commands[name].append((fields, command.position, command.positions,
                                            command.index, command.head, command.logits))
                ended += name == "vector" and fields["op"] == Op.END
        if ctx.get(dut.fetch.valid) and ctx.get(dut.fetch.ready):
            assert ctx.get(dut.fetch.payload.addr) == self.program
            assert ctx.get(dut.fetch.payload.count) == len(self.code)
            self.fetches += 1
            self.pending += self.code
        taken = ctx.get(dut.instruction.valid) and ctx.get(dut.instruction.ready)
        done, failure = ctx.get(dut.done_stb), ctx.get(dut.failure)
        await ctx.tick()
        ctx.set(dut.pass_done, ended if self.auto_done else 0)
        self.ended += ended
        if taken:
            self.pending.pop(0)
            ctx.set(dut.instruction.valid, 0)
        return done, failure

    async def until_end(self, ctx, limit=4000):
        for _ in range(limit):
            done, failure = await self.cycle(ctx)
            if done or failure.valid:
                assert not ctx.get(self.dut.busy)
                # Engines other than the last one may still have commands in their queues.
                for _ in range(20 * (1 + int(20 * self.stall)) if done else 0):
                    await self.cycle(ctx)
                return done, failure
            assert ctx.get(self.dut.busy)
        raise AssertionError(f"no end in {limit} cycles")

    def run(self, testbench):
        simulator = Simulator(ResetInserter(self.halt)(self.dut))
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        simulator.run()

    def check(self, program, *, logits=0, **run):
        want = expected_commands(program, **run, logits=logits)
        for name in ENGINE_NAMES:
            assert len(self.commands[name]) == len(want[name])
            for got, (fields, position, positions, index, head) in zip(self.commands[name],
                                                                       want[name]):
                unused = dict.fromkeys(UNUSED[name], 0)
                assert {**got[0], **unused, "head": 0} == {**fields, **unused, "head": 0}
                assert got[1:3] == (position, positions)
                if name == "vector":
                    assert got[3:] == (index, head, logits)


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("head, logits", [(0, 0), (1, 1)])
def test_every_instruction_reaches_its_engines(stall, head, logits):
    bench = Bench(seed=11, stall=stall)
    program = make_program(random.Random(4), 40)
    run = {"passes": 3, "position": 0xfffffff0, "positions": 13, "head": head}

    async def testbench(ctx):
        await bench.start(ctx, program, **run, logits=logits)
        done, failure = await bench.until_end(ctx)
        assert done and not failure.valid
        assert ctx.get(bench.dut.passes_done) == 3
        assert bench.fetches == 3

    bench.run(testbench)
    bench.check(program, **run, logits=logits)


def test_runs_ahead_into_the_next_pass():
    bench = Bench()
    bench.auto_done = False                  # no pass ever ends
    program = [random_instruction(random.Random(1), op, head=False)
               for op in (Op.EMBED, Op.MATMUL, Op.END)]

    async def testbench(ctx):
        await bench.start(ctx, program, passes=5, head=1)
        for _ in range(100):
            await bench.cycle(ctx)
        assert ctx.get(bench.dut.busy)
        assert ctx.get(bench.dut.passes_done) == 0
        assert len(bench.commands["matmul"]) == 5
        assert [c[3] for c in bench.commands["vector"] if c[0]["op"] == Op.END] == [0, 1, 2, 3, 4]
        for _ in range(5):
            assert ctx.get(bench.dut.busy)
            ctx.set(bench.dut.pass_done, 1)
            await ctx.tick()
            ctx.set(bench.dut.pass_done, 0)
        for _ in range(3):
            await ctx.tick()
        assert not ctx.get(bench.dut.busy)

    bench.run(testbench)


def test_full_queue_of_one_engine_holds_back_only_what_comes_after():
    bench = Bench()
    bench.blocked = {"matmul"}
    rng = random.Random(2)
    program = [random_instruction(rng, Op.MATMUL, head=False) for _ in range(12)]
    program += [random_instruction(rng, Op.STORE, head=False),
                random_instruction(rng, Op.END, head=False)]

    async def testbench(ctx):
        await bench.start(ctx, program)
        for _ in range(100):
            await bench.cycle(ctx)
        # The queue and its output register hold some; each was given to both engines at once.
        assert 8 <= len(bench.commands["memory"]) <= 10
        assert not bench.commands["vector"]
        bench.blocked = set()
        assert (await bench.until_end(ctx))[0]

    bench.run(testbench)
    bench.check(program, passes=1, position=0, positions=1, head=0)


@pytest.mark.parametrize("opcode", [0, max(Op) + 1, 255])
@pytest.mark.parametrize("place", [0, 5])
def test_unknown_instruction_ends_the_run_and_a_reset_makes_it_usable(opcode, place):
    bench = Bench(seed=3, stall=0.3)
    good = make_program(random.Random(5), 8)
    bad = list(good)
    bad[place] = bytes([opcode]) + bad[place][1:]

    async def testbench(ctx):
        await bench.start(ctx, bad, passes=2, head=1)
        done, failure = await bench.until_end(ctx)
        assert not done
        assert failure.code == 5
        assert failure.addr == bench.base + 64 * bench.program + 32 * place
        count = sum(map(len, bench.commands.values()))
        # Nothing is dispatched any more: only what the queues held leaves.
        for _ in range(60):
            assert await bench.cycle(ctx) is not None
            assert not ctx.get(bench.dut.instruction.ready)
            assert not ctx.get(bench.dut.fetch.valid)
        assert sum(map(len, bench.commands.values())) - count <= 3 * 10

        ctx.set(bench.halt, 1)
        await ctx.tick()
        ctx.set(bench.halt, 0)
        ctx.set(bench.dut.instruction.valid, 0)
        bench.pending.clear()
        bench.commands = {name: [] for name in ENGINE_NAMES}
        await bench.start(ctx, good, passes=2, head=1)
        assert (await bench.until_end(ctx))[0]

    bench.run(testbench)
    bench.check(good, passes=2, position=0, positions=1, head=1)


def test_reset_in_the_middle_of_a_run_empties_the_queues():
    rng = random.Random(6)
    program = make_program(rng, 10)
    for cycles in (1, 2, 5, 9, 17):
        bench = Bench(seed=cycles, stall=0.5)
        bench.blocked = {"memory"}

        async def testbench(ctx, bench=bench, cycles=cycles):
            await bench.start(ctx, program, passes=9, head=1)
            for _ in range(cycles):
                await bench.cycle(ctx)
            ctx.set(bench.halt, 1)
            await ctx.tick()
            ctx.set(bench.halt, 0)
            ctx.set(bench.dut.instruction.valid, 0)
            ctx.set(bench.dut.pass_done, 0)
            for name in ENGINE_NAMES:
                assert not ctx.get(getattr(bench.dut, name).valid)
            assert not ctx.get(bench.dut.busy)
            bench.pending.clear()
            bench.blocked = set()
            bench.commands = {name: [] for name in ENGINE_NAMES}
            await bench.start(ctx, program, passes=2, position=7, positions=4)
            assert (await bench.until_end(ctx))[0]

        bench.run(testbench)
        bench.check(program, passes=2, position=7, positions=4, head=0)


def test_memory_error_ends_the_run():
    bench = Bench()
    bench.auto_done = False
    program = make_program(random.Random(7), 6)

    async def testbench(ctx):
        await bench.start(ctx, program, passes=2)
        for _ in range(10):
            await bench.cycle(ctx)
        ctx.set(bench.dut.memory_error, {"valid": 1, "code": 2, "addr": 0x1234})
        done, failure = await bench.until_end(ctx)
        assert (done, failure.code, failure.addr) == (0, 2, 0x1234)

    bench.run(testbench)


def test_no_passes_and_no_instructions():
    bench = Bench()

    async def testbench(ctx):
        await bench.start(ctx, make_program(random.Random(1), 4), passes=0)
        assert (await bench.until_end(ctx, 5))[0]
        assert bench.fetches == 0
        await bench.start(ctx, [], passes=1)
        done, failure = await bench.until_end(ctx, 5)
        assert (done, failure.code) == (0, 5)
        assert failure.addr == bench.base + 64 * bench.program

    bench.run(testbench)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_queue_carries_no_bits_that_its_engine_does_not_use(engine):
    bits = code_bits(engine)
    assert set(range(8)) <= set(bits)
    assert len(bits) <= {"memory": 176, "matmul": 208, "vector": 256}[engine]
    for op, engines in ENGINES.items():
        if engine in engines:
            for name in set(OPCODES[op]) - set(UNUSED[engine]):
                spec = FIELDS[name]
                assert set(range(spec.offset, spec.offset + spec.bits)) <= set(bits)

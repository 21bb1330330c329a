"""Bridge, registers, window, memory test and arbiter, from bytes to memory."""

import random
import zlib

import pytest
from amaranth import Elaboratable, Module, Signal
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from headrace.hw.axi import AXI4Signature
from headrace.hw.link import window as window_module
from headrace.hw.link.arbiter import IDS, Arbiter
from headrace.hw.link.bone import COMMANDS, Bone
from headrace.hw.link.decoder import Decoder
from headrace.hw.link.map import (
    BOARD,
    BOARD_ID,
    BOARD_REGISTERS,
    OPERATIONS,
    WINDOW,
    Region,
    board_address,
)
from headrace.hw.link.memory_test import MemoryTest
from headrace.hw.link.pattern import pattern
from headrace.hw.link.registers import BoardRegisters
from headrace.hw.link.window import Window
from tests.hw.link.far_side import memory_process


MEMORY_BYTES = 1 << 14
TIMEOUT = 200


class Bench(Elaboratable):
    """BoardCore without UART and accelerator."""

    def __init__(self, data_bits):
        self.bone = Bone(TIMEOUT)
        self.decoder = Decoder([BOARD, WINDOW])
        self.registers = BoardRegisters(clk_hz=5, baud=1, memory_bytes=MEMORY_BYTES)
        self.window = Window(40, data_bits, MEMORY_BYTES, IDS["window"])
        self.test = MemoryTest(40, data_bits, IDS["test"])
        self.arbiter = Arbiter(40, data_bits)
        self.accelerator = AXI4Signature(40, data_bits).create()
        self.ready = Signal(init=1)

    def elaborate(self, platform):
        m = Module()
        for name in ("bone", "decoder", "registers", "window", "test", "arbiter"):
            m.submodules[name] = getattr(self, name)
        connect(m, self.bone.bus, self.decoder.bus)
        connect(m, self.decoder.board, self.registers.axi)
        connect(m, self.decoder.window, self.window.bus)
        connect(m, self.window.axi, self.arbiter.window)
        connect(m, self.test.axi, self.arbiter.test)
        connect(m, self.accelerator, self.arbiter.accelerator)
        registers = self.registers
        m.d.comb += [
            self.window.ready.eq(self.ready), registers.memory_ready.eq(self.ready),
            registers.stuck.eq(self.window.stuck), registers.timeout.eq(self.bone.timed_out),
            registers.bus.eq(self.bone.failed),
            self.test.operation.eq(registers.operation),
            *(getattr(self.test, name).eq(getattr(registers, name))
              for name in ("lfsr", "load", "data")),
            *(getattr(registers, name).eq(getattr(self.test, name))
              for name in ("busy", "failed", "word", "left", "value", "result", "bad_word")),
        ]
        return m


class Host:
    """Commands as bytes, and their answers."""

    def __init__(self, ctx, bone):
        self.ctx, self.bone = ctx, bone

    async def send(self, data):
        ctx, stream = self.ctx, self.bone.i
        for byte in data:
            ctx.set(stream.payload, byte)
            ctx.set(stream.valid, 1)
            for _ in range(3000):
                _, _, ready = await ctx.tick().sample(stream.ready)
                if ready:
                    break
            else:
                raise AssertionError("a byte was not taken")
            ctx.set(stream.valid, 0)

    async def write(self, address, words, command="write"):
        await self.send([COMMANDS[command], len(words) & 255,
                         *(address // 4).to_bytes(4, "big"),
                         *b"".join(word.to_bytes(4, "big") for word in words)])

    async def read(self, address, count=None, command="read"):
        await self.send([COMMANDS[command], (count or 1) & 255, *(address // 4).to_bytes(4, "big")])
        raw, stream = bytearray(), self.bone.o
        self.ctx.set(stream.ready, 1)
        for _ in range(2000 * (count or 1)):
            _, _, valid, payload = await self.ctx.tick().sample(stream.valid, stream.payload)
            if valid:
                raw.append(payload)
            if len(raw) == 4 * (count or 1):
                break
        else:
            raise AssertionError("no answer")
        self.ctx.set(stream.ready, 0)
        words = [int.from_bytes(raw[at:at + 4], "big") for at in range(0, len(raw), 4)]
        return words if count else words[0]

    async def register(self, name, field=None):
        value = await self.read(board_address(name))
        if field is None:
            return value
        lsb, width = BOARD_REGISTERS[name].bits[field]
        return value >> lsb & (1 << width) - 1

    async def start(self, operation, address, words, seed=0, lfsr=0):
        await self.write(board_address("test_addr"), [address, words, seed])
        assert await self.read(board_address("test_addr"), 3) == [address, words, seed]
        await self.write(board_address("test_control"), [OPERATIONS[operation] | lfsr << 2])

    async def operate(self, operation, address, words, seed=0, lfsr=0):
        await self.start(operation, address, words, seed, lfsr)
        for _ in range(3000):
            if not await self.register("status", "busy"):
                return
        raise AssertionError(f"{operation} does not end")


def simulate(data_bits, body, *, memory=None, memory_args=None, others=()):
    bench = Bench(data_bits)
    memory = bytearray(MEMORY_BYTES) if memory is None else memory

    async def testbench(ctx):
        await body(ctx, Host(ctx, bench.bone), bench)

    simulator = Simulator(bench)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    if memory_args is not None:
        simulator.add_testbench(memory_process(bench.arbiter.axi, memory, **memory_args),
                                background=True)
    for other in others:
        simulator.add_testbench(other(bench), background=True)
    simulator.run()
    return memory


def test_registers():
    async def body(ctx, host, bench):
        assert await host.register("id") == BOARD_ID
        assert await host.read(board_address("clk_hz"), 3) == [5, 1, MEMORY_BYTES >> 10]
        await host.write(board_address("test_seed"), [0x12345678])
        assert await host.register("test_seed") == 0x12345678
        assert await host.read(board_address("test_seed"), 3, "read_fixed") == [0x12345678] * 3
        await host.write(board_address("test_seed"), [1, 2, 3], "write_fixed")
        assert await host.register("test_seed") == 3
        assert await host.register("link_errors") == 0
        # A read-only register, a hole, an address of nobody: written and read.
        for count, address in enumerate((board_address("id"), BOARD.base + 0xffc, 0x2000_0000), 1):
            await host.write(address, [7])
            assert await host.register("link_errors", "bus") == 2 * count - 1
            expected = BOARD_ID if count == 1 else 0
            assert await host.read(address) == expected
            assert await host.register("link_errors", "bus") == 2 * count - (count == 1)
            if count == 1:               # as many errors as the other turns
                await host.write(address, [7])
        # Unknown commands are skipped byte by byte.
        await host.send([0, 5, 0xff, 0x80])
        assert await host.register("id") == BOARD_ID
    simulate(32, body)


def test_timeout():
    """After each number of bytes of a command the rest may be missing."""
    async def body(ctx, host, bench):
        full = [COMMANDS["write"], 2, *(board_address("test_seed") // 4).to_bytes(4, "big"),
                *range(8)]
        count = 0
        for size in range(1, len(full)):
            await host.send(full[:size])
            await ctx.tick().repeat(TIMEOUT + 10)
            count += 1
            assert await host.register("id") == BOARD_ID
            assert await host.register("link_errors", "timeout") == count
        # What comes slowly, but comes, is no fault.
        for byte in [COMMANDS["write"], 1, *full[2:6], 9, 8, 7, 6]:
            await host.send([byte])
            await ctx.tick().repeat(TIMEOUT - 10)
        assert await host.register("test_seed") == 0x09080706
        assert await host.register("link_errors", "timeout") == count
    simulate(32, body)


@pytest.mark.parametrize("data_bits", [32, 64, 128])
def test_window(data_bits):
    dice = random.Random(data_bits)
    memory = bytearray(dice.randbytes(MEMORY_BYTES))
    expected = bytearray(memory)

    async def body(ctx, host, bench):
        for _ in range(6):
            count = dice.choice([1, 2, 7, 33])
            at = 4 * dice.randrange(MEMORY_BYTES // 4 - count)
            words = [dice.getrandbits(32) for _ in range(count)]
            await host.write(WINDOW.base + at, words)
            expected[at:at + 4 * count] = b"".join(word.to_bytes(4, "little") for word in words)
            at = max(0, at - 8)
            count = min(count + 4, MEMORY_BYTES // 4 - at // 4)
            found = await host.read(WINDOW.base + at, count)
            assert b"".join(word.to_bytes(4, "little") for word in found) == (
                expected[at:at + 4 * count])
        # 256 words, written as 0.
        found = await host.read(WINDOW.base, 256)
        assert b"".join(word.to_bytes(4, "little") for word in found) == expected[:1024]
        assert await host.register("link_errors") == 0
        await host.write(WINDOW.base + MEMORY_BYTES, [1])
        assert await host.read(WINDOW.base + MEMORY_BYTES) == 0
        assert await host.register("link_errors", "bus") == 2
        # Memory answers with an error.
        await host.read(WINDOW.base + 4096)
        await host.write(WINDOW.base + 4096, [1])
        assert await host.register("link_errors", "bus") == 4
        ctx.set(bench.ready, 0)
        await host.read(WINDOW.base)
        await host.write(WINDOW.base, [1])
        assert await host.register("link_errors", "bus") == 6
        assert await host.register("status", "memory_ready") == 0

    simulate(data_bits, body, memory=memory,
             memory_args={"seed": data_bits, "bad": range(4096, 4096 + data_bits // 8)})
    # The last write before the errors has landed, and no byte beside what was written.
    assert memory == expected


def test_memory_hangs(monkeypatch):
    """An answer that is overdue fails its access and those after it; then all is well again."""
    monkeypatch.setattr(window_module, "PATIENCE", 100)

    async def body(ctx, host, bench):
        axi = bench.arbiter.axi
        for write in (0, 1):
            if write:
                await host.write(WINDOW.base + 4, [0xabcd])
                await host.write(WINDOW.base + 8, [0x1234])
            else:
                await host.read(WINDOW.base + 4)
                await host.read(WINDOW.base + 8)
            assert await host.register("status", "stuck") == 1
            assert await host.register("link_errors", "bus") == 2 * write + 2
            assert ctx.get(axi.awvalid if write else axi.arvalid)
            assert ctx.get(axi.awaddr if write else axi.araddr) == 4
            if write:
                assert ctx.get(axi.wvalid) and ctx.get(axi.wdata) == 0xabcd
            for name in ("awready", "wready", "arready"):
                ctx.set(getattr(axi, name), 1)
            await ctx.tick().repeat(2)
            valid, id_ = (axi.bvalid, axi.bid) if write else (axi.rvalid, axi.rid)
            ctx.set(id_, IDS["window"])
            ctx.set(valid, 1)
            await ctx.tick()
            ctx.set(valid, 0)
            for name in ("awready", "wready", "arready"):
                ctx.set(getattr(axi, name), 0)
            assert await host.register("status", "stuck") == 0
    simulate(32, body)


@pytest.mark.parametrize("data_bits", [32, 64, 128])
def test_memory_test(data_bits):
    dice = random.Random(1000 + data_bits)
    memory = bytearray(dice.randbytes(MEMORY_BYTES))
    expected = bytearray(memory)

    async def body(ctx, host, bench):
        for words in (1, 2, 3, 16, 67, 200):
            at = 4 * dice.randrange(2048 - words)
            seed = dice.getrandbits(32) | 1
            span = slice(at, at + 4 * words)
            await host.operate("fill", at, words, seed, 1)
            expected[span] = b"".join(word.to_bytes(4, "little") for word in pattern(seed, words))
            assert memory == expected
            await host.operate("check", at, words, seed, 1)
            assert await host.register("test_result") == 0
            await host.operate("crc", at, words)
            assert await host.register("test_result") == zlib.crc32(memory[span])
            # One bit, then two words.
            first = at + 4 * dice.randrange(words)
            memory[first] ^= 0x10
            await host.operate("check", at, words, seed, 1)
            assert await host.register("test_result") == 1
            assert await host.register("test_bad_addr") == first
            await host.operate("check", at, words, seed ^ 2, 1)
            assert await host.register("test_result") == words
            assert await host.register("test_bad_addr") == at
            memory[first] ^= 0x10
            assert await host.register("test_words") == 0
        # A constant; and nothing at all.
        await host.operate("fill", 8, 5, 0xa5a5_0001)
        expected[8:28] = bytes.fromhex("0100a5a5") * 5
        await host.operate("fill", 4, 0, 0xffff_ffff)
        await host.operate("crc", 4, 0)
        assert await host.register("test_result") == 0
        assert await host.register("status", "failed") == 0
        for operation in OPERATIONS:
            await host.operate(operation, 8192, 64, 1, 1)
            assert await host.register("status", "failed") == 1
        await host.operate("crc", 0, 16)
        assert await host.register("status", "failed") == 0
        assert await host.register("test_result") == zlib.crc32(memory[:64])

    simulate(data_bits, body, memory=memory,
             memory_args={"seed": data_bits, "bad": range(8192, 8192 + 256)})
    assert memory == expected


@pytest.mark.parametrize("seed", range(3))
def test_arbiter(seed):
    """Three masters at once, with random stalls: every byte lands, and nobody waits for ever."""
    dice = random.Random(seed)
    memory = bytearray(dice.randbytes(MEMORY_BYTES))
    expected = bytearray(memory)
    log, done = [], {"reads": 0, "writes": 0}
    beat = 8

    def reader(bench):
        axi = bench.accelerator

        async def run(ctx):
            # Always an address on offer: the window must come in between.
            chance = random.Random(seed + 10)
            pending = []
            address, beats, id_ = 0, 4, 1
            while True:
                ctx.set(axi.arvalid, 1)
                ctx.set(axi.araddr, address)
                ctx.set(axi.arlen, beats - 1)
                ctx.set(axi.arid, id_)
                take = int(chance.random() < 0.9)
                ctx.set(axi.rready, take)
                _, _, taken, valid, data, rid, last = await ctx.tick().sample(
                    axi.arready, axi.rvalid, axi.rdata, axi.rid, axi.rlast)
                if taken:
                    pending += [(address + beat * index, id_, index == beats - 1)
                                for index in range(beats)]
                    beats, id_ = chance.randrange(1, 9), chance.randrange(6)
                    address = beat * chance.randrange(512)
                    address -= max(0, address % 4096 + beat * beats - 4096)
                if valid and take:
                    at, expected_id, expected_last = pending.pop(0)
                    # The lower half of memory is only read.
                    assert data == int.from_bytes(expected[at:at + beat], "little")
                    assert (rid, last) == (expected_id, expected_last)
                    done["reads"] += 1
        return run

    def writer(bench):
        axi = bench.accelerator

        async def run(ctx):
            chance = random.Random(seed + 20)
            ctx.set(axi.bready, 1)
            ctx.set(axi.wstrb, 255)
            while True:
                # Data may run ahead of its address, or behind.
                beats = chance.randrange(1, 5)
                at = 8192 + beat * chance.randrange(256)
                values = [chance.getrandbits(64) for _ in range(beats)]
                lead = chance.randrange(-3, 4)
                address_at, data_at = max(0, -lead), max(0, lead)
                sent, addressed, cycle = 0, False, 0
                ctx.set(axi.awaddr, at)
                ctx.set(axi.awlen, beats - 1)
                ctx.set(axi.awid, 2)
                while sent < beats or not addressed:
                    offer_a = not addressed and cycle >= address_at
                    offer_w = sent < beats and cycle >= data_at
                    ctx.set(axi.awvalid, offer_a)
                    ctx.set(axi.wvalid, offer_w)
                    ctx.set(axi.wdata, values[sent] if sent < beats else 0)
                    ctx.set(axi.wlast, sent == beats - 1)
                    _, _, a, w = await ctx.tick().sample(axi.awready, axi.wready)
                    addressed |= offer_a and a
                    sent += bool(offer_w and w)
                    cycle += 1
                ctx.set(axi.awvalid, 0)
                ctx.set(axi.wvalid, 0)
                for index, value in enumerate(values):
                    span = slice(at + beat * index, at + beat * (index + 1))
                    expected[span] = value.to_bytes(beat, "little")
                done["writes"] += 1
                for _ in range(chance.randrange(1, 8)):
                    await ctx.tick()
        return run

    async def body(ctx, host, bench):
        for turn in range(8):
            at = 12288 + 4 * dice.randrange(256)
            words = [dice.getrandbits(32) for _ in range(3)]
            await host.start("fill", 14336, 40, turn + 1, 1)
            await host.write(WINDOW.base + at, words)
            expected[at:at + 12] = b"".join(word.to_bytes(4, "little") for word in words)
            assert await host.read(WINDOW.base + at, 3) == words
            for _ in range(300):
                if not await host.register("status", "busy"):
                    break
            await host.operate("check", 14336, 40, turn + 1, 1)
            assert await host.register("test_result") == 0
        expected[14336:14336 + 160] = b"".join(
            word.to_bytes(4, "little") for word in pattern(8, 40))
        # Let the last writes land.
        ctx.set(bench.accelerator.arvalid, 0)

    simulate(64, body, memory=memory, memory_args={"seed": seed, "log": log},
             others=[reader, writer])
    assert memory[:4096] == expected[:4096]
    assert memory[12288:] == expected[12288:]
    assert done["reads"] > 500 and done["writes"] > 50
    assert {id_ for kind, id_, *_ in log if kind == "read"} >= {0, 5, IDS["window"], IDS["test"]}


def test_pass_through():
    """The accelerator's reads go through without an idle cycle while nobody else asks."""
    bench = Bench(64)

    async def body(ctx):
        axi, out = bench.accelerator, bench.arbiter.axi
        ctx.set(axi.arvalid, 1)
        ctx.set(axi.rready, 1)
        ctx.set(out.arready, 1)
        ctx.set(out.rvalid, 1)
        for index in range(20):
            ctx.set(axi.araddr, 64 * index)
            await ctx.delay(1e-8)
            assert ctx.get(axi.arready) and ctx.get(out.arvalid)
            assert ctx.get(out.araddr) == 64 * index
            assert ctx.get(axi.rvalid) and ctx.get(out.rready)
            await ctx.tick()

    simulator = Simulator(bench)
    simulator.add_clock(1e-6)
    simulator.add_testbench(body)
    simulator.run()


def test_decoder_refuses():
    with pytest.raises(ValueError, match="region 'odd': expected a power of two"):
        Decoder([Region("odd", 0x100, 0x1000, "")])
    assert Decoder([BOARD]).board.signature.addr_bits == 12

"""Registers, AXI4-Lite and counters."""

import random

import pytest
from amaranth.sim import Simulator

from headrace.hw.config import CLASSES, Config
from headrace.hw.control import Control, CounterBank, IncrementLayout
from headrace.hw.regmap import COUNTER_BASE, COUNTERS, ID, REGISTERS, VERSION, offset


CONFIG = Config(rows=3, cols=10, lanes=2, port_bits=64)
WIDE = Config(rows=1, cols=128, lanes=16, port_bits=512, ring_bytes=1 << 19, x_bytes=1 << 16)

#: Widths of writable registers that do not hold 32 bits.
NARROW = {"irq_enable": 1, "base_hi": 8, "positions": 16, "flags": 2}


class Host:
    """AXI4-Lite manager with its own order and delays on each channel."""

    def __init__(self, ctx, axi, rng=None):
        self.ctx, self.axi = ctx, axi
        self.rng = rng

    def _delay(self):
        return self.rng.randrange(4) if self.rng else 0

    async def _until(self, signal):
        for _ in range(300):
            if self.ctx.get(signal):
                return
            await self.ctx.tick()
        raise AssertionError("no answer in 300 cycles")

    async def write(self, addr, value, *, strb=15, aw_delay=None, w_delay=None, b_delay=None):
        ctx, axi = self.ctx, self.axi
        aw = self._delay() if aw_delay is None else aw_delay
        w = self._delay() if w_delay is None else w_delay
        b = self._delay() if b_delay is None else b_delay
        waiting = {"aw", "w"}
        for cycle in range(300):
            if "aw" in waiting and cycle >= aw:
                ctx.set(axi.awvalid, 1)
                ctx.set(axi.awaddr, addr)
            if "w" in waiting and cycle >= w:
                ctx.set(axi.wvalid, 1)
                ctx.set(axi.wdata, value)
                ctx.set(axi.wstrb, strb)
            taken = {name for name, valid, ready in (("aw", axi.awvalid, axi.awready),
                                                     ("w", axi.wvalid, axi.wready))
                     if ctx.get(valid) and ctx.get(ready)}
            assert not ctx.get(axi.bvalid), "answered before address and data"
            await ctx.tick()
            for name in taken:
                ctx.set(getattr(axi, f"{name}valid"), 0)
            waiting -= taken
            if not waiting:
                break
        else:
            raise AssertionError("write not taken")
        await self._until(axi.bvalid)
        for _ in range(b):
            await ctx.tick()
            assert ctx.get(axi.bvalid)
        resp = ctx.get(axi.bresp)
        ctx.set(axi.bready, 1)
        await ctx.tick()
        ctx.set(axi.bready, 0)
        return resp

    async def read(self, addr):
        ctx, axi = self.ctx, self.axi
        for _ in range(self._delay()):
            await ctx.tick()
        ctx.set(axi.arvalid, 1)
        ctx.set(axi.araddr, addr)
        await self._until(axi.arready)
        await ctx.tick()
        ctx.set(axi.arvalid, 0)
        await self._until(axi.rvalid)
        data, resp = ctx.get(axi.rdata), ctx.get(axi.rresp)
        for _ in range(self._delay()):
            await ctx.tick()
            assert (ctx.get(axi.rvalid), ctx.get(axi.rdata)) == (1, data)
        ctx.set(axi.rready, 1)
        await ctx.tick()
        ctx.set(axi.rready, 0)
        return data, resp


def simulate(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


async def pulse(ctx, signal, value=1):
    ctx.set(signal, value)
    await ctx.tick()
    ctx.set(signal, 0 if isinstance(value, int) else dict.fromkeys(value, 0))


@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["3x10", "1x128"])
def test_identification(config):
    dut = Control(config)

    async def testbench(ctx):
        host = Host(ctx, dut.axi, random.Random(1))
        expected = {
            "id": ID, "version": VERSION, "fingerprint": config.fingerprint,
            "size": config.rows | config.cols << 8 | config.port_bytes << 16 | config.lanes << 24,
            "limits": config.chunk_positions | config.streams << 16,
            "status": 0, "irq": 0, "error_code": 0, "passes_done": 0,
        }
        for name, value in expected.items():
            assert await host.read(offset(name)) == (value, 0), name

    simulate(dut, testbench)


def test_writable_registers_hold_their_value_and_nothing_else_does():
    dut = Control(CONFIG)

    async def testbench(ctx):
        host = Host(ctx, dut.axi, random.Random(2))
        rng = random.Random(3)
        values = {}
        for name, register in REGISTERS.items():
            if register.access == "rw":
                values[name] = rng.getrandbits(32) | 0x8000_0001
                assert await host.write(register.offset, values[name]) == 0
        for name, value in values.items():
            want = value & (1 << NARROW.get(name, 32)) - 1
            assert await host.read(offset(name)) == (want, 0), name
        assert ctx.get(dut.base) == (values["base_hi"] & 0xff) << 32 | values["base_lo"]
        assert ctx.get(dut.kv_pinned) == values["kv_pinned"]
        assert (ctx.get(dut.head), ctx.get(dut.logits)) == (1, values["flags"] >> 1 & 1)
        for register in REGISTERS.values():
            if register.access == "ro":
                before = await host.read(register.offset)
                assert await host.write(register.offset, 0xffffffff) == 2
                assert await host.read(register.offset) == before
        # Strobes: only the enabled bytes change.
        assert await host.write(offset("program"), 0x11223344) == 0
        assert await host.write(offset("program"), 0xaabbccdd, strb=0b0101) == 0
        assert await host.read(offset("program")) == (0x11bb33dd, 0)
        assert await host.write(offset("control"), 3, strb=0b1110) == 0

    simulate(dut, testbench)


def test_address_without_register_reads_0_with_slverr():
    dut = Control(CONFIG)
    used = {register.offset for register in REGISTERS.values()}
    used |= {COUNTER_BASE + 4 * i for i in range(2 * len(COUNTERS))}

    async def testbench(ctx):
        host = Host(ctx, dut.axi)
        for addr in (0x014, 0x03c, 0x070, COUNTER_BASE - 4, COUNTER_BASE + 8 * len(COUNTERS),
                     0xffc):
            assert addr not in used
            assert await host.read(addr) == (0, 2), hex(addr)
            assert await host.write(addr, 1) == 2

    simulate(dut, testbench)


@pytest.mark.parametrize("aw, w", [(0, 0), (0, 1), (1, 0), (0, 7), (7, 0), (3, 3)])
@pytest.mark.parametrize("b", [0, 5])
def test_address_and_data_in_any_order(aw, w, b):
    dut = Control(CONFIG)

    async def testbench(ctx):
        host = Host(ctx, dut.axi)
        for value in (5, 6, 7):
            assert await host.write(offset("passes"), value, aw_delay=aw, w_delay=w,
                                    b_delay=b) == 0
            assert ctx.get(dut.passes) == value

    simulate(dut, testbench)


def test_next_write_may_be_offered_before_the_answer_is_taken():
    dut = Control(CONFIG)

    async def testbench(ctx):
        axi = dut.axi
        ctx.set(axi.wstrb, 15)
        taken, answers = {"aw": 0, "w": 0}, 0
        for cycle in range(60):
            for name in taken:
                ctx.set(getattr(axi, f"{name}valid"), taken[name] < 3)
            ctx.set(axi.awaddr, offset("program") if taken["aw"] == 0 else offset("passes"))
            ctx.set(axi.wdata, 10 + taken["w"])
            ctx.set(axi.bready, cycle % 7 == 6)
            fire = {name: ctx.get(getattr(axi, f"{name}valid"))
                    and ctx.get(getattr(axi, f"{name}ready")) for name in taken}
            answers += ctx.get(axi.bvalid) and ctx.get(axi.bready)
            await ctx.tick()
            for name in taken:
                taken[name] += fire[name]
        assert (taken, answers) == ({"aw": 3, "w": 3}, 3)
        assert (ctx.get(dut.program), ctx.get(dut.passes)) == (10, 12)

    simulate(dut, testbench)


def test_start_reset_error_and_interrupt():
    dut = Control(CONFIG)

    async def testbench(ctx):
        host = Host(ctx, dut.axi)
        pulses = []

        async def control(value):
            # A write acts in the cycle before its answer.
            seen = 0
            ctx.set(dut.axi.awvalid, 1)
            ctx.set(dut.axi.wvalid, 1)
            ctx.set(dut.axi.awaddr, offset("control"))
            ctx.set(dut.axi.wdata, value)
            ctx.set(dut.axi.wstrb, 15)
            await ctx.tick()
            ctx.set(dut.axi.awvalid, 0)
            ctx.set(dut.axi.wvalid, 0)
            ctx.set(dut.axi.bready, 1)
            for _ in range(4):
                seen |= ctx.get(dut.start) | ctx.get(dut.reset) << 1
                await ctx.tick()
            ctx.set(dut.axi.bready, 0)
            pulses.append(seen)
            return seen

        async def status():
            return (await host.read(offset("status")))[0]

        assert await control(1) == 1
        ctx.set(dut.busy, 1)
        assert await status() == 1
        assert await control(1) == 0                     # ignored: busy
        ctx.set(dut.busy, 0)
        await pulse(ctx, dut.done_stb)
        assert await status() == 2
        assert not ctx.get(dut.irq)                      # pending, but not enabled
        assert await host.read(offset("irq")) == (1, 0)
        await host.write(offset("irq_enable"), 1)
        assert ctx.get(dut.irq)
        await host.write(offset("irq"), 0)
        assert ctx.get(dut.irq)                          # only a 1 clears
        await host.write(offset("irq"), 1)
        assert not ctx.get(dut.irq)

        assert await control(1) == 1
        assert await status() == 0
        await pulse(ctx, dut.failure, {"valid": 1, "code": 5, "addr": 0x12_3456_7890})
        assert ctx.get(dut.irq)
        assert await status() == 4
        assert await host.read(offset("error_code")) == (5, 0)
        assert await host.read(offset("error_addr_lo")) == (0x34567890, 0)
        assert await host.read(offset("error_addr_hi")) == (0x12, 0)
        assert await control(1) == 0                     # ignored: needs a reset
        assert await control(3) == 2                     # reset wins over the start beside it
        ctx.set(dut.resetting, 1)
        assert await status() == 8
        assert await control(1) == 0                     # ignored: resetting
        ctx.set(dut.resetting, 0)
        assert await host.read(offset("error_code")) == (0, 0)
        assert await control(1) == 1

        ctx.set(dut.token, 0xdeadbeef)
        await pulse(ctx, dut.token_stb)
        ctx.set(dut.token, 0)
        assert await host.read(offset("token")) == (0xdeadbeef, 0)
        ctx.set(dut.passes_done, 77)
        assert await host.read(offset("passes_done")) == (77, 0)

    simulate(dut, testbench)


def extremes(layout):
    """Least and greatest increment of each counter."""
    result = {}
    for name, field in layout:
        shape = field.shape
        if isinstance(shape, int):
            result[name] = (0, (1 << shape) - 1)
        elif isinstance(shape, range):
            result[name] = (shape.start, shape.stop - 1)
        elif shape.signed:
            result[name] = (-(1 << shape.width - 1), (1 << shape.width - 1) - 1)
        else:
            result[name] = (0, (1 << shape.width) - 1)
    return result


@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["3x10", "1x128"])
def test_counters_add_up_at_every_snapshot(config):
    dut = CounterBank(config)
    layout = IncrementLayout(config)
    limits = extremes(layout)

    async def testbench(ctx):
        rng = random.Random(5)
        totals = dict.fromkeys(COUNTERS, 0)
        held, words, index, wait = None, [], 0, 0
        snapshots = 0
        previous = None              # of the cycle that is counted at the next edge
        for _run in range(2):
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            totals = dict.fromkeys(COUNTERS, 0)
            previous = None
            for cycle in range(2500):
                running = cycle < 2300 and rng.random() < 0.9
                # Long stretches of the greatest increments, then of random ones.
                values = {name: high if cycle < 1000 else rng.choice([0, low, high])
                          for name, (low, high) in limits.items()}
                if cycle == 0:
                    values = dict.fromkeys(limits, 0)
                ctx.set(dut.run, running)
                ctx.set(dut.increments, values)
                hold = held is None and rng.random() < 0.05
                ctx.set(dut.hold, hold)
                if hold:
                    held, words, index, wait = dict(totals), [], 0, 2
                    ctx.set(dut.index, 0)
                elif held is not None:
                    wait -= 1
                    if wait == 0:
                        words.append(ctx.get(dut.word))
                        index += 1
                        if index == 2 * len(COUNTERS):
                            record = {name: words[2 * i] | words[2 * i + 1] << 32
                                      for i, name in enumerate(COUNTERS)}
                            assert record == {name: value % 2**64
                                              for name, value in held.items()}
                            held = None
                            snapshots += 1
                        else:
                            ctx.set(dut.index, index)
                            wait = 3
                await ctx.tick()
                if previous is not None:
                    for name, value in previous.items():
                        totals[name] += value
                previous = {**values, "cycles": 1} if running else None
            held = None
        assert snapshots > 10
        # Reads, when nothing counts any more.
        for number, name in enumerate(COUNTERS):
            ctx.set(dut.read, 1)
            ctx.set(dut.read_index, number)
            for _ in range(100):
                if ctx.get(dut.read_done):
                    break
                await ctx.tick()
            else:
                raise AssertionError("no answer to a read")
            assert ctx.get(dut.read_data) == totals[name] % 2**64, name
            await ctx.tick()
            ctx.set(dut.read, 0)
            for _ in range(rng.randrange(4)):
                await ctx.tick()
        assert totals["cycles"] > 1000

    simulate(dut, testbench)


def test_low_half_of_a_counter_holds_its_high_half():
    dut = Control(CONFIG)

    async def testbench(ctx):
        host = Host(ctx, dut.axi, random.Random(8))
        ctx.set(dut.busy, 1)
        ctx.set(dut.increments, {"macs": extremes(IncrementLayout(CONFIG))["macs"][1],
                                 "port_busy": 1, "read_kv": CONFIG.port_bytes})
        values = []
        for _ in range(6):
            low, _resp = await host.read(COUNTER_BASE + 8 * COUNTERS.index("macs"))
            high, _resp = await host.read(COUNTER_BASE + 8 * COUNTERS.index("macs") + 4)
            values.append(high << 32 | low)
        assert values == sorted(set(values))
        ctx.set(dut.busy, 0)
        for _ in range(3):
            await ctx.tick()
        read = {}
        for name in ("cycles", "port_busy", "read_kv", "macs", "port_wait_memory"):
            low, _resp = await host.read(COUNTER_BASE + 8 * COUNTERS.index(name))
            read[name] = low
        assert read["cycles"] == read["port_busy"] > 50
        assert read["read_kv"] == CONFIG.port_bytes * read["cycles"]
        assert read["port_wait_memory"] == 0

    simulate(dut, testbench)


def test_classes_have_counters():
    assert {f"read_{name}" for name in CLASSES} <= set(COUNTERS)

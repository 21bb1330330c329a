"""Controllers of boards: what they are generated from, their start, registers, and the PLL."""

import dataclasses

import pytest
from amaranth.sim import Simulator

from headrace.boards.catalogue import BOARDS, find_board
from headrace.boards.dram import ControllerSpec, controller_spec, generate_controller
from headrace.boards.dram.registers import RegisterBridge
from headrace.boards.ecp5 import pll_dividers
from headrace.sw.errors import HeadraceError


pytest.importorskip("litedram")

DRAM_BOARDS = [name for name, board in BOARDS.items() if board.memory.kind in ("SDR", "DDR3")]
SDR = {"kind": "SDR", "module": "IS42S16160", "data_bits": 16, "clk_hz": 50_000_000,
       "rate": "1:2"}


@pytest.mark.parametrize("changes, message", (
    ({"kind": "PS"}, "no kind 'PS': expected one of SDR, DDR3; a memory of kind PS has its own"),
    ({"rate": "1:4"}, "rate '1:4' of SDR: expected one of 1:1, 1:2"),
    ({"data_bits": 12}, "12 data bits: expected 8, 16, 32 or 64"),
    ({"model": True}, "SDR SDRAM is simulated at its pins"),
))
def test_bad_specifications(changes, message):
    with pytest.raises(HeadraceError, match=message):
        ControllerSpec(**{**SDR, **changes})


@pytest.mark.parametrize("module", ("X1", "MT41K256M16"))
def test_an_unknown_chip(module):
    with pytest.raises(HeadraceError, match=f"LiteDRAM has no SDR chip '{module}'"):
        generate_controller(ControllerSpec(**{**SDR, "module": module}))


def test_clocks_that_do_not_fit():
    board = find_board("ulx3s")
    memory = dataclasses.replace(board.memory, clock_hz=133_000_000)
    with pytest.raises(HeadraceError, match="board ulx3s: its DRAM runs at 133000000 Hz, but 1:2 "
                                            "of its clock of 32500000 Hz makes 65000000 Hz"):
        controller_spec(dataclasses.replace(board, memory=memory))


@pytest.mark.parametrize("name", DRAM_BOARDS)
def test_every_board_has_a_controller(name):
    board = find_board(name)
    spec = controller_spec(board)
    facts = generate_controller(spec).facts
    assert facts["size_bytes"] >= board.memory.size_bytes
    assert facts["data_bits"] == spec.width
    assert spec.peak * spec.clk_hz / 8 == board.memory.peak_bytes
    assert spec.width >= spec.peak


def test_the_start_of_sdr_sdram():
    """Clock enable, a long wait, precharge, the mode with two words a burst, two refreshes."""
    facts = generate_controller(ControllerSpec(**SDR)).facts
    first, *others = facts["start"]
    assert first["cs_n"] == 1 and first["wait"] >= 50e6 * 200e-6
    codes = [(step["ras_n"], step["cas_n"], step["we_n"]) for step in others]
    assert codes[0] == (0, 1, 0) and others[0]["a"] >> 10 & 1
    assert codes.count((0, 0, 1)) == 2
    assert codes[-1] == (0, 0, 0) and others[-1]["a"] == 2 << 4 | 1
    assert min(step["wait"] for step in others) >= 4


def test_generated_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    first = generate_controller(ControllerSpec(**SDR))
    # Nothing of the day or the machine is in the text, and the second is the first.
    assert "// " not in first.verilog[:200] and first.verilog.startswith("module litedram")
    assert generate_controller(ControllerSpec(**SDR)) == first
    assert len(list((tmp_path / "controllers").glob("*/litedram.v"))) == 1


def test_without_litedram(monkeypatch):
    import importlib.util
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: None if name == "litex" else object())
    with pytest.raises(HeadraceError, match=r"no litex: LiteDRAM generates .* pip install "
                                            r"'headrace\[boards\]'"):
        generate_controller(ControllerSpec(**SDR))


@pytest.mark.parametrize("input_hz, first_hz, second_hz", (
    (25_000_000, 100_000_000, 50_000_000), (48_000_000, 150_000_000, 25_000_000),
    (30_000_000, 150_000_000, 25_000_000), (12_000_000, 96_000_000, 48_000_000)))
def test_dividers_of_the_pll(input_hz, first_hz, second_hz):
    found = pll_dividers(input_hz, first_hz, second_hz)
    assert input_hz * found.feedback == first_hz * found.input
    vco = first_hz * found.first
    assert 400e6 <= vco <= 800e6 and vco == second_hz * found.second
    assert input_hz / found.input >= 3.125e6


def test_clocks_that_the_pll_cannot_make():
    with pytest.raises(HeadraceError, match="makes no 100 and 37 MHz from 25 MHz"):
        pll_dividers(25_000_000, 100_000_000, 37_000_000)


def test_registers_behind_axi4_lite():
    dut = RegisterBridge(16)
    memory, log = {}, []

    async def far_side(ctx):
        answer = None
        for _ in range(80):
            if answer is not None:
                ctx.set(dut.bus.dat_r, answer)
            answer = 0
            adr = ctx.get(dut.bus.adr)
            if ctx.get(dut.bus.we):
                memory[adr] = ctx.get(dut.bus.dat_w)
                log.append(("write", adr))
            if ctx.get(dut.bus.re):
                log.append(("read", adr))
                answer = memory.get(adr, 0xdead)
            await ctx.tick()

    async def host(ctx):
        axi = dut.axi
        for step in range(3):
            ctx.set(axi.awaddr, 0x1004 + 4 * step)
            ctx.set(axi.wdata, 77 + step)
            ctx.set(axi.awvalid, 1)
            await ctx.tick()
            ctx.set(axi.wvalid, 1)         # data after the address
            await ctx.tick().until(axi.awready & axi.wready)
            ctx.set(axi.awvalid, 0)
            ctx.set(axi.wvalid, 0)
            ctx.set(axi.bready, 1)
            await ctx.tick().until(axi.bvalid)
            ctx.set(axi.bready, 0)
        for step in range(3):
            ctx.set(axi.araddr, 0x1004 + 4 * step)
            ctx.set(axi.arvalid, 1)
            await ctx.tick().until(axi.arready)
            ctx.set(axi.arvalid, 0)
            await ctx.tick().repeat(step + 1)
            ctx.set(axi.rready, 1)
            data, = await ctx.tick().sample(axi.rdata).until(axi.rvalid)
            ctx.set(axi.rready, 0)
            assert data == 77 + step

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    # The far side looks at each cycle after the host has changed its side.
    simulator.add_testbench(host)
    simulator.add_testbench(far_side)
    simulator.run()
    assert log == [(kind, 0x401 + step) for kind in ("write", "read") for step in range(3)]

"""Boards: what their files say agrees with itself, with the parts, and with the memory's chips."""

import json

import pytest
from typer.testing import CliRunner

from headrace.boards.bitstream import build_bitstream
from headrace.boards.catalogue import BOARDS, find_board
from headrace.boards.constraints import lpf
from headrace.boards.families import FAMILIES
from headrace.hw.config import PRESETS
from headrace.sim.dram import find_dram
from headrace.sw.cli import app
from headrace.sw.errors import HeadraceError
from headrace.sw.links.url import parse_link


OPEN = [board for board in BOARDS.values() if not board.vivado]


def pins_verilog(board):
    """A design that uses every pin of a board, as it is meant to be used."""
    kinds = {"i": "input", "o": "output", "io": "inout"}
    ports, body = [], []
    for pins in board.pins:
        n = len(pins.sites)
        ports.append(f"{kinds[pins.direction]} wire {f'[{n - 1}:0] ' if n > 1 else ''}{pins.port}")
        level = pins.level
        value = f"{{{n}{{{'count[7]' if level is None else level}}}}}"
        if pins.direction == "o":
            body.append(f"assign {pins.port} = {value};")
        elif pins.direction == "io":
            body.append(f"assign {pins.port} = count[0] ? {value} : {n}'bz;")
    seen = ", ".join(pins.port for pins in board.pins
                     if pins.direction != "o" and pins.port != "clk")
    return (f"module top ({', '.join(ports)});\nreg [7:0] count = 0;\n"
            f"always @(posedge clk) count <= count + 1 + ^{{{seen}}};\n" + "\n".join(body)
            + "\nendmodule\n")


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.name)
def test_a_board_agrees_with_itself(board):
    config = board.config
    assert config.fingerprint == PRESETS[board.preset].fingerprint or board.changes
    assert (config.clk_hz, config.memory_bytes) == (board.clk_hz, board.memory.size_bytes)
    assert board.part in FAMILIES[board.family].parts
    assert find_dram(config.memory).name == board.memory.dram
    assert board.preset in (board.presets or (board.preset,))
    assert (board.processor is None) == bool(board.pins)
    assert board.link.url.startswith("uart://" if board.pins else "devmem://")
    link = parse_link(board.link.url)
    # The host trains DDR3, so it must know the board.
    assert link.options.get("board") == (board.name if board.memory.kind == "DDR3" else None)
    if board.pins:
        assert link.number("baud") == board.link.baud
        # A bit of the UART has enough clocks to be sampled in its middle.
        assert board.clk_hz >= 8 * board.link.baud
        ratio = int(board.memory.rate.partition(":")[2])
        assert board.memory.clock_hz == ratio * board.clk_hz


@pytest.mark.parametrize("board", OPEN, ids=lambda board: board.name)
def test_pins_are_named_once(board):
    balls = [ball for pins in board.pins for ball in pins.sites]
    assert len(balls) == len(set(balls))
    names = [pins.port for pins in board.pins]
    assert len(names) == len(set(names)) and {"clk", "uart_rx", "uart_tx"} <= set(names)
    assert len(board.port("clk").sites) == 1
    with pytest.raises(KeyError, match="nothing"):
        board.port("nothing")


@pytest.mark.parametrize("board", OPEN, ids=lambda board: board.name)
def test_pins_of_the_memory_are_those_of_its_chip(board):
    modules = pytest.importorskip("litedram.modules")
    chip = getattr(modules, board.memory.module)
    prefix = "sdram" if board.memory.kind == "SDR" else "ddram"

    def width(name):
        return len(board.port(f"{prefix}_{name}").sites)

    assert (1 << width("a"), 1 << width("ba")) == (chip.nrows, chip.nbanks)
    assert width("dq") == board.memory.data_bits and width("dm") == board.memory.data_bits // 8
    assert chip.nrows * chip.nbanks * chip.ncols * width("dq") // 8 == board.memory.size_bytes
    assert chip.memtype == board.memory.kind


@pytest.mark.parametrize("board", OPEN, ids=lambda board: board.name)
def test_every_pin_is_placed(board, tmp_path):
    # Balls exist in the package, and standards of a bank go together: nextpnr checks both.
    build = build_bitstream(board, board.config, tmp_path, verilog=pins_verilog(board))
    assert build.routing.used["pins"] == sum(len(pins.sites) for pins in board.pins)
    clock, = build.routing.clocks
    assert clock.name == "clk" and clock.goal_mhz == pytest.approx(board.input_hz / 1e6, rel=1e-3)
    assert (tmp_path / f"{board.name}.bit").stat().st_size > 50_000


def test_constraints():
    board = find_board("ulx3s")
    text = lpf(board, {"clk": 1, "sdram_ba": 2})
    assert 'LOCATE COMP "clk" SITE "G2";\nIOBUF PORT "clk" IO_TYPE=LVCMOS33;' in text
    assert ('LOCATE COMP "sdram_ba[1]" SITE "N20";\nIOBUF PORT "sdram_ba[1]" IO_TYPE=LVCMOS33 '
            'SLEWRATE=FAST DRIVE=4 PULLMODE=NONE;') in text
    assert 'FREQUENCY PORT "clk" 25 MHZ;' in text
    with pytest.raises(HeadraceError, match="a port 'irq' and the board no such pins: expected"):
        lpf(board, {"irq": 1})
    with pytest.raises(HeadraceError, match="port 'sdram_ba' has 3 bits, and the board 2 pins"):
        lpf(board, {"sdram_ba": 3})


def test_no_such_board():
    with pytest.raises(HeadraceError, match="no board 'arty': expected one of ulx3s, orangecrab"):
        find_board("arty")


def test_peak_of_the_memory():
    # SDR: 16 bits a clock; DDR: 16 bits twice a clock.
    assert find_board("ulx3s").memory.peak_bytes == 2 * find_board("ulx3s").memory.clock_hz
    assert find_board("orangecrab").memory.peak_bytes == 600e6
    assert find_board("kv260").memory.peak_bytes == 19.2e9


def test_command():
    listed = json.loads(CliRunner().invoke(app.app, ["boards", "--json"]).stdout)
    assert [facts["name"] for facts in listed] == list(BOARDS)
    one = json.loads(CliRunner().invoke(app.app, ["boards", "ulx3s", "--json"]).stdout)
    assert one == listed[0] and one["fingerprint"] == PRESETS["tiny"].fingerprint
    table = CliRunner().invoke(app.app, ["boards"]).stdout
    assert all(name in table for name in BOARDS)
    detail = CliRunner().invoke(app.app, ["boards", "orangecrab"]).stdout
    assert "ddram_dqs_p" in detail and "B15 G18" in detail and "always 1" in detail

"""Every board's own top elaborates, and its ports are the board's pins."""

import json
import re

import pytest
from amaranth.hdl import Module
from typer.testing import CliRunner

from headrace.boards.catalogue import BOARDS
from headrace.boards.constraints import lpf
from headrace.boards.design import top_verilog
from headrace.hw.config import Config
from headrace.hw.device import Headrace
from headrace.hw.link import core
from headrace.sw.cli import app


OPEN = [board for board in BOARDS.values() if not board.vivado]

#: The smallest accelerator: what is around it does not depend on its size.
SMALL = {"rows": 1, "cols": 2, "chunk_positions": 1, "streams": 4, "ring_bytes": 1024,
         "x_bytes": 8192, "a_bytes": 2048, "table_elems": 256, "kv_bytes": 0, "head_dim": 32}


def ports(text):
    """Ports of the module ``top`` in a Verilog text: bits and directions."""
    body = re.search(r"^module top\(.*?^endmodule", text, re.MULTILINE | re.DOTALL)[0]
    found = re.findall(r"^  (input|output|inout) (?:\[(\d+):0\] )?(\w+);", body, re.MULTILINE)
    return {name: (int(high or 0) + 1, direction) for direction, high, name in found}


@pytest.mark.parametrize("board", OPEN, ids=lambda board: board.name)
def test_top_has_the_pins_of_the_board(board):
    config = board.fit(Config(name="small", port_bits=board.config.port_bits, **SMALL))
    found = ports(top_verilog(board, config))
    # All of them: a memory with a pin that nobody drives does not work.
    assert {name: bits for name, (bits, _) in found.items()} == {
        pins.port: len(pins.sites) for pins in board.pins}
    # What a cell of the part drives by itself has no direction in Verilog.
    kinds = {"i": ("input",), "o": ("output", "inout"), "io": ("inout",)}
    assert all(found[pins.port][1] in kinds[pins.direction] for pins in board.pins)
    text = lpf(board, {name: bits for name, (bits, _) in found.items()})
    assert text.count("LOCATE COMP") == sum(len(pins.sites) for pins in board.pins)


class Idle(Headrace):
    """The ports of an accelerator: what is around it is placed and routed in a minute or two."""

    def elaborate(self, platform):
        return Module()


@pytest.mark.slow
@pytest.mark.parametrize("board", OPEN, ids=lambda board: board.name)
def test_top_becomes_a_bitstream(board, tmp_path, monkeypatch):
    # Link, memory test, arbiter, DRAM controller, clocks and all pins, without an accelerator.
    monkeypatch.setattr(core, "Headrace", Idle)
    done = CliRunner().invoke(app.app, ["build", board.name, "-o", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.exception
    facts = json.loads(done.stdout)
    routing = facts["routing"]
    assert routing["met"] and (tmp_path / facts["bitstream"]).stat().st_size > 200_000
    assert routing["used"]["PLL"] == 1
    assert routing["used"]["pins"] == sum(len(pins.sites) for pins in board.pins)
    # The accelerator's clock has its goal, and so has the DRAM's where registers run on it.
    goals = {round(clock["goal_mhz"]) for clock in routing["clocks"]}
    assert round(board.clk_hz / 1e6) in goals
    assert board.memory.kind == "DDR3" or round(board.memory.clock_hz / 1e6) in goals
    assert routing["used"].get("DQS buffer", 0) == (
        board.memory.data_bits // 8 if board.memory.kind == "DDR3" else 0)

"""Every board's own top elaborates, and its ports are the board's pins."""

import re

import pytest

from headrace.boards.catalogue import BOARDS
from headrace.boards.constraints import lpf
from headrace.boards.design import top_verilog
from headrace.hw.config import Config


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

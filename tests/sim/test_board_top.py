"""The simulation's top around a board, and what a simulated board refuses."""

import pytest

from headrace.boards.catalogue import find_board
from headrace.sim.board_device import SimulatedBoard
from headrace.sim.board_top import wrap_board
from headrace.sw.cli.machine import open_device
from headrace.sw.errors import HeadraceError
from tests.e2e.machines import TINY, synthetic


PINS = {"a": 13, "ba": 2, "cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1, "cke": 1, "dm": 2,
        "dq_o": 16, "dq_oe": 16}


def design(ratio=2, without=""):
    """Verilog of a design with the pins of a chip, as Amaranth writes it."""
    ports = {"clk": "input ", "rst": "input ", "rx": "input ", "tx": "output ",
             **({"clk2x": "input "} if ratio == 2 else {}),
             **{f"chip__{name}": f"output [{width - 1}:0] " if width > 1 else "output "
                for name, width in PINS.items()}, "chip__dq_i": "input [15:0] "}
    ports.pop(without, None)
    lines = [f"module headrace({', '.join(ports)});"]
    return "\n".join([*lines, *(f"  {kind}{name};" for name, kind in ports.items()), "endmodule"])


@pytest.mark.parametrize("ratio, edge", ((2, "posedge clk2x"), (1, "negedge clk")))
def test_a_chip_at_the_pins(ratio, edge):
    text, ports = wrap_board(design(ratio), ratio=ratio)
    assert f"always @({edge}) begin" in text
    names = {port.name for port in ports}
    assert names == {"clk", "rst", "rx", "tx", "memory", "sample", "violation",
                     *(["clk2x"] if ratio == 2 else [])}
    # Clocks are not sampled, everything else is.
    assert "device_rst <= rst;" in text and "device_rx <= rx;" in text
    assert "device_clk" not in text


@pytest.mark.parametrize("without", ("clk2x", "chip__dq_i", "chip__a"))
def test_a_pin_is_missing(without):
    with pytest.raises(HeadraceError, match=f"device 'headrace' has no port '{without}'"):
        wrap_board(design(without=without), ratio=2)


def test_without_a_chip():
    text, _ = wrap_board(design(), ratio=2, chip=False)
    assert "headrace_sdr_tick" not in text and "assign violation = 0;" in text


def test_not_open():
    with pytest.raises(HeadraceError, match="sim:ulx3s: the device is not open: use it as a"):
        SimulatedBoard(find_board("ulx3s")).simulation.run(1)


@pytest.mark.parametrize("board, options, message", (
    ("sim:nothing", {}, "no board 'nothing': expected one of ulx3s, orangecrab"),
    ("sim:ulx3s", {"activity": True}, "sim:ulx3s: a simulated board does not record what its"),
    ("sim:zcu104", {}, "DRAM controller: no kind 'PS': expected one of SDR, DDR3"),
))
def test_boards_that_cannot_be_opened(board, options, message):
    with pytest.raises(HeadraceError, match=message):
        open_device(board, synthetic(TINY), **options)


def test_a_model_that_is_too_large(monkeypatch):
    image = synthetic(TINY)
    monkeypatch.setattr(type(image), "total_bytes", property(lambda self: 64 << 20))
    with pytest.raises(HeadraceError, match="sim:ulx3s: the model takes 67,108,864 bytes of "
                                            "memory: the board has 33,554,432"):
        open_device("sim:ulx3s", image)

"""Ports read from Verilog, and the top around a device."""

import pytest

from headrace.sim.ports import Port, read_ports
from headrace.sim.tops import wrap
from headrace.sw.errors import HeadraceError
from tests.sim.masters import Copier, to_verilog


def test_read_ports():
    text = """
module inner(a);
  input a;
endmodule
module outer(clk, x, y);
  input clk;
  wire clk;
  input [11:0] x;
  output [0:0] y;
  reg [4:0] z;
endmodule
"""
    assert read_ports(text, "outer") == {
        "clk": Port("clk", "input", 1), "x": Port("x", "input", 12), "y": Port("y", "output", 1)}
    assert read_ports(text, "outer")["x"].declaration == "input logic [11:0] x"
    assert list(read_ports(text, "inner")) == ["a"]


@pytest.mark.parametrize("text, message", [
    ("module other(a);\n  input a;\nendmodule", "the Verilog text has no module 'top'"),
    ("module top(input a);\nendmodule", "module 'top' declares no ports in the style"),
])
def test_unreadable_ports(text, message):
    with pytest.raises(HeadraceError, match=message):
        read_ports(text, "top")


@pytest.mark.parametrize("old, new, message", [
    ("axi__wlast", "other", "device 'headrace' has no port 'axi__wlast'"),
    ("input clk;", "output clk;", "port 'clk' of device 'headrace' is an output, must be an input"),
    ("[63:0] axi__rdata", "[62:0] axi__rdata", "port 'axi__rdata' has 63 bits: AXI4 data widths"),
    ("[7:0] axi__wstrb", "[3:0] axi__wstrb", "port 'axi__wstrb' has 4 bits, must have 8 beside 64"),
])
def test_impossible_devices(old, new, message):
    verilog = to_verilog(Copier, 64)
    assert old in verilog
    with pytest.raises(HeadraceError, match=message):
        wrap(verilog.replace(old, new))


def test_top_has_all_other_ports():
    names = {port.name for port in wrap(to_verilog(Copier, 32))[1]}
    assert names >= {"clk", "rst", "irq", "memory", "violation", "ctrl__awvalid", "ctrl__rdata"}
    assert not any(name.startswith("axi__") for name in names)

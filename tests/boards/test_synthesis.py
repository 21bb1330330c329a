"""Synthesis: figures of known designs, cells told apart by unit, failures that say why."""

import json

import pytest

from headrace.boards import tools
from headrace.boards.families import FAMILIES
from headrace.boards.synthesis import load_resources, synthesise
from headrace.sw.errors import HeadraceError


DESIGN = """
module product(input clk, input signed [17:0] a, input signed [17:0] b,
               output reg signed [35:0] o);
    // The product's own name: a cell at the border is named for the signal outside.
    reg signed [35:0] kept;
    always @(posedge clk) begin kept <= a * b; o <= ~kept; end
endmodule
module store(input clk, input we, input [9:0] addr, input [17:0] d, output reg [17:0] q);
    reg [17:0] mem [1023:0];
    reg [17:0] kept;
    always @(posedge clk) begin if (we) mem[addr] <= d; kept <= mem[addr]; q <= ~kept; end
endmodule
module top(input clk, input we, input [9:0] addr, input [17:0] a, input [17:0] b,
           output reg [35:0] o, output reg [17:0] q);
    wire [35:0] o_in;
    wire [17:0] q_in;
    product product (.clk(clk), .a(a), .b(b), .o(o_in));
    store store (.clk(clk), .we(we), .addr(addr), .d(a), .q(q_in));
    always @(posedge clk) begin o <= ~o_in; q <= ~q_in; end
endmodule
"""


@pytest.mark.parametrize("family, multiplier, memory", [
    ("ecp5", "DSP 18x18", "block RAM 18 Kb"), ("xcup", "DSP48E2", "BRAM36"),
    ("xc7", "DSP48E1", "BRAM36")])
def test_counts_cells_by_unit(tmp_path, family, multiplier, memory):
    shown = []
    result = synthesise(DESIGN, tmp_path, family=family, top="top", progress=shown.append)
    assert result.used[multiplier] == 1 and 0 < result.used[memory] <= 1
    assert result.units["product"][multiplier] == 1 and memory not in result.units["product"]
    assert result.units["store"][memory] == result.used[memory]
    assert multiplier not in result.units["store"]
    assert result.fits and all(not result.excess(part) for part in FAMILIES[family].parts)
    assert any(text.startswith("Yosys: ") for text in shown)
    assert load_resources(tmp_path) == result


def test_what_does_not_fit(tmp_path):
    result = synthesise(DESIGN, tmp_path, top="top")
    facts = json.loads((tmp_path / "resources.json").read_text())
    facts["used"]["DSP 18x18"] = 157
    (tmp_path / "resources.json").write_text(json.dumps(facts))
    larger = load_resources(tmp_path)
    assert result.fits and not larger.fits
    assert larger.excess("LFE5U-85F") == {"DSP 18x18": 1}


def test_broken_design(tmp_path):
    with pytest.raises(HeadraceError, match="Yosys failed: .*syntax error"):
        synthesise("module top(", tmp_path, top="top")


def test_no_tool(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda *args, **kwargs: None)
    with pytest.raises(HeadraceError, match=r"no nextpnr-ecp5: .* pip install"):
        tools.find_tool("nextpnr-ecp5")


def test_a_tool_that_does_not_end(tmp_path):
    with pytest.raises(HeadraceError, match="sleep has not ended within 1 s"):
        tools.run_tool("sleep", ["sleep", "60"], tmp_path, "log", str.strip, limit_s=1)

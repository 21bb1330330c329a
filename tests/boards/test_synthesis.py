"""Synthesis: figures of a known design, and failures that say why."""

import pytest

from headrace.boards import synthesis
from headrace.sw.errors import HeadraceError


COUNTER = """
module counter(input clk, input [17:0] a, input [17:0] b, output reg [35:0] o);
    always @(posedge clk) o <= a * b;
endmodule
"""


def test_counts_cells():
    result = synthesis.synthesise(COUNTER, top="counter")
    assert result.used["DSP 18x18"] == 1 and result.used["FF"] == 36
    assert result.used["block RAM 18 Kb"] == 0 and result.fits


def test_broken_design():
    with pytest.raises(HeadraceError, match="Yosys failed: "):
        synthesis.synthesise("module counter(", top="counter")


def test_no_yosys(monkeypatch):
    monkeypatch.setattr(synthesis.shutil, "which", lambda *args, **kwargs: None)
    with pytest.raises(HeadraceError, match=r"no Yosys: .* pip install"):
        synthesis.find_yosys()

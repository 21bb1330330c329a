"""A small component through the whole flow, and the page from its results."""

import json

import pytest
from typer.testing import CliRunner

from headrace.boards import area, area_page
from headrace.boards.harness import Harness
from headrace.boards.placement import load_timing, place
from headrace.boards.synthesis import synthesise
from headrace.hw.config import Config
from headrace.hw.fp import Adder
from headrace.hw.matmul.array import SystolicArray
from headrace.sw.cli import app
from headrace.sw.errors import HeadraceError


SMALL = Config(rows=1, cols=2)


@pytest.fixture(scope="module")
def adder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adder")
    resources = synthesise(area.harnessed(Adder()), folder, top="harness", netlist=True)
    return folder, resources


def test_the_harness_keeps_the_unit(adder):
    _, resources = adder
    harness = Harness(Adder())
    assert (harness.inputs, harness.outputs) == (65, 32)
    # Three levels of the exclusive or: 32, 8, 2 and 1 bits.
    assert harness.registers == 65 + 32 + 8 + 2 + 1
    # The rest belongs to the adder; docs/number-formats.md has its size alone.
    assert 180 <= resources.used["FF"] - harness.registers <= 190
    assert 400 < resources.units["device"]["LUT4"] <= resources.used["LUT4"] < 700


def test_place_and_route(adder, tmp_path):
    folder, resources = adder
    shown = []
    timing = place(folder / "netlist.json", tmp_path, clk_hz=20_000_000, progress=shown.append)
    assert timing.goal_mhz == pytest.approx(20, abs=0.1) and 50 < timing.fmax_mhz < 300
    assert timing.met and timing.used["TRELLIS_FF"] == resources.used["FF"]
    # The slowest path has our names, and its parts are the period.
    assert len(timing.path) > 2 and any(cell.startswith("device.") for cell in timing.path)
    assert timing.logic_ns + timing.routing_ns == pytest.approx(1000 / timing.fmax_mhz, rel=0.01)
    assert load_timing(tmp_path) == timing and any("nextpnr: " in text for text in shown)


def test_no_place_and_route(adder, tmp_path):
    folder, _ = adder
    with pytest.raises(HeadraceError, match="no place and route for family 'xcup'"):
        place(folder / "netlist.json", tmp_path, family="xcup")


def test_array_alone_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    alone = area.array_area(SMALL)
    assert alone.cells["MULT18X18D"] == 2 and 10 < alone.luts_per_mac
    monkeypatch.setattr(area, "synthesise", None)
    assert area.array_area(SMALL) == alone


def test_more_multipliers_than_the_part(tmp_path, monkeypatch):
    text = area.harnessed(SystolicArray(SMALL))
    kind = area.FAMILIES["ecp5"]
    available = kind.parts["LFE5U-85F"]
    assert not synthesise(text, tmp_path, top="harness").lean
    monkeypatch.setitem(available, "DSP 18x18", 1)
    lean = synthesise(text, tmp_path, top="harness")
    # Operands of 8 bits are no narrow ones.
    assert lean.lean and not lean.fits and lean.excess("LFE5U-85F") == {"DSP 18x18": 1}


def test_page(adder, tmp_path):
    folder, resources = adder
    timing = place(folder / "netlist.json", tmp_path, clk_hz=20_000_000)
    alone = area.ArrayArea(rows=4, cols=8, luts=1290, cells={"LUT4": 594, "CCU2C": 348})
    text = area_page.write_page({"tiny": resources}, {"tiny": timing}, {"tiny": alone},
                                ["Yosys 1", "nextpnr 2"])
    assert f"| LUT4 | {resources.used['LUT4']:,.0f} | 83,640 |" in text
    assert f"| `tiny` | 20 | {timing.fmax_mhz:.1f} | yes | 1 |" in text
    assert "| `tiny` | 4 x 8 | 594 | 348 | 0 | 0 | 40.3 |" in text
    assert "Measured with Yosys 1 and nextpnr 2, no board" in text


@pytest.mark.parametrize("options, message", [
    (["--family", "ice40"], "no family 'ice40': expected one of ecp5, xcup, xc7"),
    (["--family", "xcup", "--place"], "--place: nextpnr has no family 'xcup'"),
    (["--page", "."], "--page .: is a folder"),
])
def test_refused(options, message):
    result = CliRunner().invoke(app.app, ["synth", *options])
    assert isinstance(result.exception, HeadraceError)
    assert message in str(result.exception)


@pytest.mark.slow
def test_whole_device(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    result = CliRunner().invoke(app.app, ["synth", "--config", "tiny", "--place", "--json"])
    facts = json.loads(result.stdout)
    assert result.exit_code == 0 and facts["fits"]
    assert facts["timing"]["fmax_mhz"] >= facts["timing"]["goal_mhz"]
    assert set(facts["units"]) >= {f"device.{unit}" for unit in (
        "control", "matmul", "memory", "sequencer", "softmax", "vector")}

"""The flow of a board: a small design becomes a bitstream, in steps that are done once."""

import dataclasses
import json
import subprocess
import sys

import pytest
from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal
from typer.testing import CliRunner

from headrace.boards import bitstream, design, routing, steps, tools
from headrace.boards import report as report_reader
from headrace.boards.bitstream import TimingMissed, build_bitstream
from headrace.boards.catalogue import find_board
from headrace.boards.harness import Harness
from headrace.hw.config import Config
from headrace.hw.emission import to_verilog
from headrace.hw.matmul.array import SystolicArray
from headrace.sw.cli import app
from headrace.sw.errors import HeadraceError


ULX3S = find_board("ulx3s")
SMALL = Config(name="small", rows=1, cols=2)
STEPS = ["verilog", "synthesis", "routing", "bitstream"]


class Top(Elaboratable):
    """An array at pins of a board: in at the UART's receiver, out at its transmitter."""

    def __init__(self, config):
        self.config = config
        self.domain = ClockDomain("sync", reset_less=True)
        self.rx, self.tx = Signal(name="uart_rx"), Signal(name="uart_tx")

    def elaborate(self, platform):
        m = Module()
        m.domains += self.domain
        m.submodules.harness = harness = Harness(SystolicArray(self.config))
        m.d.comb += [harness.scan_in.eq(self.rx), self.tx.eq(harness.scan_out)]
        return m


def array_verilog(config=SMALL):
    top = Top(config)
    return to_verilog(top, "top", ports=[top.domain.clk, top.rx, top.tx])


@pytest.fixture(scope="module")
def text():
    return array_verilog()


@pytest.fixture(scope="module")
def built(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ulx3s")
    shown = []
    return folder, build_bitstream(ULX3S, SMALL, folder, verilog=text,
                                   progress=shown.append), shown


def test_a_whole_bitstream(built):
    folder, build, shown = built
    image = (folder / "ulx3s.bit").read_bytes()
    # An ECP5 bitstream: comment, preamble, and the identification of the LFE5U-85.
    assert image.startswith(b"\xff\x00") and b"LFE5U-85F" in image[:200]
    assert b"\xff\xff\xbd\xb3" in image[:300] and b"\x41\x11\x30\x43" in image[:400]
    assert build.bitstream == "ulx3s.bit" and build.routing.met
    assert build.routing.used["DSP 18x18"] == 2 == build.resources.used["DSP 18x18"]
    assert build.routing.used["pins"] == 3 and build.routing.available["FF"] == 83640
    clock, = build.routing.clocks
    assert clock.name == "clk" and clock.goal_mhz == 25 and clock.fmax_mhz > 50
    # The slowest path has our names, and its parts are the period.
    assert len(clock.path) > 1 and any("harness.device." in cell for cell in clock.path)
    assert clock.logic_ns + clock.routing_ns == pytest.approx(1000 / clock.fmax_mhz, rel=0.01)
    assert list(build.seconds) == STEPS and build.skipped == []
    assert 50e6 < build.peak_bytes < 8e9
    assert json.loads((folder / "build.json").read_text()) == json.loads(
        json.dumps(build.facts()))
    assert {text.partition(":")[0] for text in shown} >= {
        "writing Verilog", "Yosys", "nextpnr", "ecppack"}
    assert not list(folder.glob(".work-*"))


def test_nothing_is_done_twice(built, text, monkeypatch):
    folder, build, _ = built
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.*")}
    for name in ("synthesise", "route", "run_tool"):
        monkeypatch.setattr(bitstream, name, None)
    again = build_bitstream(ULX3S, SMALL, folder, verilog=text)
    assert again.skipped == STEPS and again.routing == build.routing
    assert again.seconds == build.seconds
    after = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.*")}
    assert {name for name in before if before[name] != after[name]} == {".lock", "build.json"}


def test_only_what_changed_is_done(built, text, tmp_path):
    folder, build, _ = built
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    # A damaged output is made again from what is before it, and nothing else.
    (tmp_path / "ulx3s.bit").write_bytes(b"damaged")
    again = build_bitstream(ULX3S, SMALL, tmp_path, verilog=text)
    assert again.skipped == STEPS[:3]
    assert (tmp_path / "ulx3s.bit").read_bytes() == (folder / "ulx3s.bit").read_bytes()
    # Another seed begins with the placement.
    other = build_bitstream(ULX3S, SMALL, tmp_path, verilog=text, seed=2)
    assert other.skipped == STEPS[:2] and other.routing.seed == 2


def test_timing_that_is_missed(built, text, tmp_path, monkeypatch):
    folder, _, _ = built
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    fast = dataclasses.replace(ULX3S, input_hz=400_000_000)
    # Whole, through the command: exit code 1, the table, and no bitstream, not even the old one.
    monkeypatch.setattr(design, "top_verilog", lambda board, config: text)
    monkeypatch.setattr("headrace.boards.catalogue.BOARDS", {"ulx3s": fast})
    command = ["build", "ulx3s", "-o", str(tmp_path)]
    done = CliRunner().invoke(app.app, command)
    assert isinstance(done.exception, TimingMissed) and done.exception.exit_code == 1
    assert "ulx3s: timing is not met (clk: " in str(done.exception)
    assert "of 400). Try another --seed" in str(done.exception)
    assert "missed" in done.stdout and "harness.device." in done.stdout
    assert not (tmp_path / "ulx3s.bit").exists()
    facts = json.loads((tmp_path / "build.json").read_text())
    assert facts["bitstream"] == "" and not facts["routing"]["met"]
    done = CliRunner().invoke(app.app, [*command, "--allow-timing-failure", "--json"])
    assert done.exit_code == 0, done.exception
    facts = json.loads(done.stdout)
    assert facts["skipped"] == STEPS[:3] and not facts["routing"]["met"]
    assert not facts["routing"]["clocks"][0]["met"] and (tmp_path / facts["bitstream"]).is_file()


def test_ports_that_are_no_pins(tmp_path):
    with pytest.raises(HeadraceError, match="ulx3s: the top has a port 'other'"):
        build_bitstream(ULX3S, SMALL, tmp_path, verilog="module top(input clk, output reg "
                        "other); always @(posedge clk) other <= ~other; endmodule\n")
    assert not (tmp_path / "build.json").exists() and not (tmp_path / "board.config").exists()
    with pytest.raises(HeadraceError, match="kv260: its part needs the vendor's tools"):
        build_bitstream(find_board("kv260"), SMALL, tmp_path)


def test_a_step_appears_whole_or_not_at_all(tmp_path):
    def half(work):
        (work / "a").write_text("new")
        raise HeadraceError("broken off")

    def whole(work):
        (work / "a").write_text("1")
        (work / "b").write_text("2")

    with steps.Steps(tmp_path) as run:
        assert run.run("s", "key", ["a", "b"], whole) and not run.run("s", "key", ["a", "b"], half)
        with pytest.raises(HeadraceError, match="another build is at work in"):
            steps.Steps(tmp_path)
        with pytest.raises(HeadraceError, match="broken off"):
            run.run("s", "other", ["a", "b"], half)
        # What was there was made from other inputs.
        assert "s" not in run and {path.name for path in tmp_path.iterdir()} == {
            ".lock", ".steps.json"}
        with pytest.raises(FileNotFoundError):
            run.run("t", "key", ["never"], lambda work: None)
        assert run.run("s", "key", ["a", "b"], whole)
    (tmp_path / ".work-old").mkdir()
    with steps.Steps(tmp_path) as run:
        assert "s" in run and not (tmp_path / ".work-old").exists()
    # State that cannot be read is no state.
    (tmp_path / ".steps.json").write_text("{")
    with steps.Steps(tmp_path) as run:
        assert run.run("s", "key", ["a", "b"], whole)
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="cannot write to .*below: Not a directory: expected"):
        steps.Steps(tmp_path / "file" / "below")


def test_a_crash_is_tried_again(tmp_path, monkeypatch):
    runs = []

    def crash(*arguments, **options):
        runs.append(1)
        if len(runs) < 3:
            raise tools.ToolCrashed("nextpnr crashed (exit code -11): ")
        return 1.5

    monkeypatch.setattr(routing, "run_tool", crash)
    assert routing._run(["nextpnr"], tmp_path, lambda text: None) == 1.5 and len(runs) == 3
    runs[:] = [0] * -routing._ATTEMPTS
    monkeypatch.setattr(routing, "_ATTEMPTS", 2)
    with pytest.raises(tools.ToolCrashed):
        routing._run(["nextpnr"], tmp_path, lambda text: None)
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"]
    with pytest.raises(tools.ToolCrashed, match=r"tool crashed \(exit code -11\)"):
        tools.run_tool("tool", killed, tmp_path, "log", str.strip)


def test_reports_of_several_clocks():
    def path(name, other, *cells):
        return {"from": name, "to": other, "path": [
            {"type": "routing" if i % 2 else "logic", "delay": 1.0 + i, "from": {"cell": cell},
             "to": {"cell": after}} for i, (cell, after) in enumerate(zip(cells, cells[1:]))]}

    report = {
        "fmax": {"$glbnet$clk": {"achieved": 60.0, "constraint": 50.0},
                 "fast": {"achieved": 90.0, "constraint": 100.0}},
        "critical_paths": [path("posedge $glbnet$clk", "posedge $glbnet$clk", "a", "b", "b", "c"),
                           path("posedge fast", "posedge fast", "d", "e"),
                           path("posedge fast", "posedge $glbnet$clk", "x", "y"),
                           path("posedge $glbnet$clk", "posedge pads", "x", "z"),
                           path("<async>", "<async>", "x", "y")],
        "utilization": {"TRELLIS_COMB": {"used": 7, "available": 10},
                        "DCUA": {"used": 1, "available": 2}}}
    result = report_reader.read_report(report, 3, 2.04, 150.0)
    assert [(clock.name, clock.met) for clock in result.clocks] == [("clk", True), ("fast", False)]
    assert result.clocks[0].path == ["a", "b", "c"] and result.clocks[1].path == ["d", "e"]
    assert (result.clocks[0].logic_ns, result.clocks[0].routing_ns) == (4.0, 2.0)
    crossing, pads = result.crossings
    assert (crossing.start, crossing.end, crossing.path) == ("fast", "clk", ["x", "y"])
    # Held to a period of the faster clock.
    assert (crossing.delay_ns, crossing.limit_ns, crossing.met) == (1.0, 10.0, True)
    # A clock without a path of its own is in no list: its goal is the DRAM's.
    assert (pads.start, pads.end, pads.limit_ns) == ("clk", "pads", 6.667)
    slow = dataclasses.replace(crossing, delay_ns=10.1)
    assert result.missed == ["fast: 90.0 MHz of 100"]
    assert dataclasses.replace(result, clocks=result.clocks[:1], crossings=[slow]).missed == [
        "fast to clk: 10.1 ns, at most 10.0"]
    assert dataclasses.replace(result, clocks=result.clocks[:1]).met
    assert not result.met and result.used == {"LUT4": 7} and result.seconds == 2.0
    with pytest.raises(HeadraceError, match="nextpnr reports no clock"):
        report_reader.read_report({**report, "fmax": {}}, 1, 0, 150.0)


def test_parts_of_nextpnr():
    assert routing.options(find_board("butterstick"))[0] == "--um5g-85k"
    with pytest.raises(HeadraceError, match="nextpnr-ecp5 has no part LIFCL-40"):
        routing.options(dataclasses.replace(ULX3S, order="LIFCL-40"))


def test_refused_options():
    done = CliRunner().invoke(app.app, ["build", "ulx3s", "--estimate"])
    assert "--estimate is for boards of AMD" in str(done.exception)


def test_inputs_of_the_verilog_are_its_sources():
    found = dict(design.inputs())
    assert found["amaranth"] and {"device.py", "matmul/array.py", "harness.py"} <= set(found)


@pytest.fixture
def loader(tmp_path, monkeypatch):
    """A stand-in for openFPGALoader that says how it was called."""
    tool = tmp_path / "bin" / "openFPGALoader"
    tool.parent.mkdir()
    tool.write_text(f"#!{sys.executable}\nimport sys\n"
                    f"open({str(tmp_path / 'called')!r}, 'w').write(' '.join(sys.argv[1:]))\n"
                    "if 'bad' in sys.argv[-1]:\n    print('unable to open ftdi device: -3')\n"
                    "    sys.exit(1)\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "called"


def test_flash(loader, tmp_path):
    place = tmp_path / "build" / "ulx3s" / "ulx3s.bit"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"bits")
    done = CliRunner().invoke(app.app, ["flash", "ulx3s"])
    assert done.exit_code == 0 and "headrace run demo --device 'uart:///dev/ttyUSB0" in done.stdout
    assert loader.read_text() == "--board ulx3s build/ulx3s/ulx3s.bit"
    CliRunner().invoke(app.app, ["flash", "orangecrab", "--bitstream", str(place), "--keep",
                                 "--cable", "dirtyJtag"])
    assert loader.read_text() == f"--board orangeCrab --cable dirtyJtag --write-flash {place}"
    CliRunner().invoke(app.app, ["flash", "butterstick", "--bitstream", str(place)])
    assert loader.read_text() == f"--cable ft2232 {place}"


def test_flash_says_what_is_wrong(loader, tmp_path, monkeypatch):
    def refused(*arguments):
        done = CliRunner().invoke(app.app, ["flash", *arguments])
        assert isinstance(done.exception, HeadraceError) and done.exception.exit_code == 2
        return str(done.exception)

    assert "no bitstream build/ulx3s/ulx3s.bit: make it with `headrace build ulx3s`" in refused(
        "ulx3s")
    assert "kv260: its bitstream is loaded by its own Linux" in refused("kv260")
    bad = tmp_path / "bad.bit"
    bad.touch()
    assert "openFPGALoader failed: unable to open ftdi device: -3. Is Radiona" in refused(
        "ulx3s", "--bitstream", str(bad))
    (tmp_path / "build.json").write_text(json.dumps({"board": "ulx3s", "bitstream": "bad.bit"}))
    assert "was built for ulx3s, not for orangecrab" in refused(
        "orangecrab", "--bitstream", str(bad))
    monkeypatch.setenv("PATH", "")
    assert "no openFPGALoader on PATH: install it" in refused("ulx3s", "--bitstream", str(bad))


def test_loading_that_does_not_end(tmp_path, monkeypatch):
    from headrace.boards import loading
    (tmp_path / "a.bit").touch()
    monkeypatch.setattr(loading.shutil, "which", lambda name: name)

    def hang(command, *, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(loading.subprocess, "run", hang)
    with pytest.raises(HeadraceError, match="has not ended within 5 s: it was stopped"):
        loading.load_bitstream(ULX3S, tmp_path / "a.bit", limit_s=5)

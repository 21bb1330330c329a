"""Projects for Vivado: their Tcl runs against a model of Vivado's commands, their RTL is whole."""

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.boards.catalogue import BOARDS, find_board
from headrace.boards.families import FAMILIES
from headrace.boards.synthesis import Resources
from headrace.boards.tools import find_tool
from headrace.boards.vivado import project_files
from headrace.boards.vivado.block_design import memory_segment
from headrace.hw.config import PRESETS, Config
from headrace.sw.cli import app
from headrace.sw.errors import HeadraceError


SMALL = Config(name="small", rows=1, cols=2, port_bits=64, kv_bytes=0)
AMD = [board for board in BOARDS.values() if board.vivado]
PARTS = ["xilinx.com:kv260_som:part0:1.4", "xilinx.com:zcu104:part0:1.1"]

MODEL = (Path(__file__).parent / "vivado.tcl").read_text()
INTERFACES = "m_axi s_axi aclk aresetn irq"


@pytest.fixture(scope="module")
def rtl():
    """Files of a small accelerator, made once: the RTL is the same for every board."""
    return project_files(find_board("kv260"), SMALL)


def write(folder, board, rtl):
    files = {**rtl, **project_files_without_rtl(board)}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "work" / "run").mkdir(parents=True, exist_ok=True)
    (folder / "work" / "run" / "system_wrapper.bit").write_text("bits")
    return files


def project_files_without_rtl(board):
    from headrace.boards.vivado.block_design import block_design
    from headrace.boards.vivado.implementation import implementation
    from headrace.boards.vivado.packaging import package_ip
    return {"package_ip.tcl": package_ip(board), "block_design.tcl": block_design(board),
            "build.tcl": implementation(board)}


def run(folder, *, parts=PARTS, slack="0.1", interfaces=INTERFACES):
    """Both scripts, one after the other; returns the exit code, output and errors."""
    script = folder / "run.tcl"
    script.write_text(f"""set ::script_path {{{folder / "build.tcl"}}}
set ::board_parts {{{" ".join(parts)}}}
set ::slack {slack}
set ::known_interfaces {{{interfaces}}}
{MODEL}
source {{{folder / "package_ip.tcl"}}}
if {{!$::saved}} {{ error "the IP was not saved" }}
source {{{folder / "build.tcl"}}}
puts [join [list $::addresses $::settings $::cells [dict get $::property board_part]] "\\n"]
""")
    if shutil.which("tclsh"):
        done = subprocess.run(["tclsh", str(script)], text=True, capture_output=True, timeout=60,
                              check=False)
        return done.returncode, done.stdout, done.stderr
    tkinter = pytest.importorskip("tkinter", reason="neither tclsh nor tkinter is installed")
    interpreter, printed = tkinter.Tcl(), []
    interpreter.createcommand("puts", lambda *words: printed.append(words[-1]))
    try:
        interpreter.eval(f"source {{{script}}}")
        return 0, "\n".join(printed), ""
    except tkinter.TclError as error:
        return 1, "\n".join(printed), str(error)


@pytest.mark.parametrize("board", AMD, ids=lambda board: board.name)
def test_scripts_run(board, rtl, tmp_path):
    write(tmp_path, board, rtl)
    code, output, errors = run(tmp_path)
    assert code == 0, errors
    assert (tmp_path / f"{board.name}.bit").read_text() == "bits"
    segment, first, size = memory_segment(board)
    control = board.processor.control_base
    assert f"{{headrace/s_axi/reg0 {control} 4096}}" in output
    assert f"{{ps/{segment} {first} {size}}}" in output
    assert f"clock/CLKOUT1_REQUESTED_OUT_FREQ {board.clk_hz / 1e6:.3f}" in output
    # The accelerator reaches all of its memory.
    memory = board.processor.memory_base
    assert first <= memory and memory + board.memory.size_bytes <= first + size
    assert ("xilinx.com" in output.splitlines()[-1]) == (board.name != "pynq-z2")


@pytest.mark.parametrize("file, old, new, message", [
    ("build.tcl", "launch_runs impl_1", "launch_rums impl_1", "invalid command name"),
    ("build.tcl", "-to_step", "-until", "unknown switch -until"),
    ("block_design.tcl", "ps/pl_clk0", "ps/pl_clk9", "no pin ps/pl_clk9"),
    ("block_design.tcl", " [get_bd_pins headrace/aresetn]", "", "left open: headrace/aresetn"),
    ("block_design.tcl", "CONFIG.USE_LOCKED", "CONFIG.USE_LOCK", "no property CONFIG.USE_LOCK"),
    ("block_design.tcl", "-range 4096", "-range 8192", "reaches no 8192 bytes"),
    ("block_design.tcl", "headrace/m_axi] [get_bd_intf_pins memory/S00_AXI",
     "memory/S00_AXI] [get_bd_intf_pins headrace/m_axi", "slave master"),
    ("block_design.tcl", "SAXIGP2/HP0_QSPI", "SAXIGP2/HP0_QSPY", "HP0_QSPI is neither"),
    ("package_ip.tcl", "ipx::save_core", "set core", "the IP was not saved"),
    ("package_ip.tcl", "headrace_axi.v]", "headrace_ax.v]", "no file"),
])
def test_the_model_finds_faults(file, old, new, message, rtl, tmp_path):
    text = write(tmp_path, find_board("kv260"), rtl)[file]
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new))
    code, _, errors = run(tmp_path)
    assert code and message in errors


def test_scripts_say_what_is_wrong(rtl, tmp_path):
    write(tmp_path, find_board("zcu104"), rtl)
    for options, message in (({"slack": "-0.2"}, "timing is not met: see timing.txt"),
                             ({"parts": PARTS[:1]}, "Vivado does not know the board xilinx.com:z"),
                             ({"interfaces": "m_axi aclk aresetn irq"}, "interface s_axi was not")):
        code, _, errors = run(tmp_path, **options)
        assert code and message in errors, options


def test_wrapper_and_accelerator_fit(rtl, tmp_path):
    for name in ("headrace.v", "headrace_axi.v"):
        (tmp_path / name).write_text(rtl[name])
    (tmp_path / "run.ys").write_text(
        "read_verilog headrace.v headrace_axi.v\nhierarchy -check -top headrace_axi\nproc\n"
        "check -assert\nwrite_json -selected ports.json\n")
    done = subprocess.run([find_tool("yosys"), "-q", "run.ys"], cwd=tmp_path, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    modules = json.loads((tmp_path / "ports.json").read_text())["modules"]
    outside, inside = modules["headrace_axi"]["ports"], modules["headrace"]["ports"]
    # Every port of the accelerator goes out, in its direction and width.
    for name, port in inside.items():
        if name in ("clk", "rst"):
            continue
        same = outside[name.replace("axi__", "m_axi_").replace("ctrl__", "s_axi_")]
        assert (same["direction"], len(same["bits"])) == (port["direction"], len(port["bits"]))
    fixed = {name for name in outside if re.fullmatch(r"m_axi_a[rw](cache|prot|lock|qos)", name)}
    assert len(outside) == len(inside) + len(fixed) and len(fixed) == 8


def test_no_transparent_memory_in_the_rtl():
    # Vivado makes wrong hardware of memories that are read while the same word is written.
    import headrace.hw
    for path in (path for root in headrace.hw.__path__ for path in Path(root).rglob("*.py")):
        assert "transparent_for=" not in path.read_text(), path


def test_presets_of_amd_boards():
    for board in AMD:
        for name in board.presets or (board.preset,):
            config = board.fit(PRESETS[name])
            assert config.fingerprint == PRESETS[name].fingerprint
        assert board.part in FAMILIES[board.family].parts
    # Why the PYNQ-Z2 has `ecp5`: block RAM of the part, in bytes, against that of the presets.
    ram = 140 * 36 * 1024 // 8
    assert PRESETS["ecp5"].sram_bytes < ram < PRESETS["edge"].sram_bytes
    assert PRESETS["ecp5"].port_bits == find_board("pynq-z2").memory.port_bits


def test_memory_out_of_reach():
    board = find_board("zcu104")
    far = dataclasses.replace(board, processor=dataclasses.replace(
        board.processor, memory_base=0x1_0000_0000))
    with pytest.raises(HeadraceError, match="no port of the processor system reaches 1,073,741"):
        memory_segment(far)


def test_command(tmp_path, rtl, monkeypatch):
    monkeypatch.setattr("headrace.hw.verilog.generate", lambda config: rtl["headrace.v"])
    folder = tmp_path / "kv260"
    done = CliRunner().invoke(app.app, ["build", "kv260", "-o", str(folder), "--json"])
    assert done.exit_code == 0, done.exception
    facts = json.loads(done.stdout)
    assert {Path(file).name for file in facts["files"]} == {
        "headrace.v", "headrace.json", "headrace.h", "headrace_axi.v", "package_ip.tcl",
        "block_design.tcl", "build.tcl", "README.md", "kv260.bif"}
    text = (folder / "README.md").read_text()
    assert text.count("vivado -mode batch -source") == 2 and "0xa0000000" in text
    assert f"{facts['fingerprint']:#010x}" in text
    for options in (["--seed", "2"], ["--allow-timing-failure"]):
        refused = CliRunner().invoke(app.app, ["build", "kv260", *options])
        assert "this one takes Vivado" in str(refused.exception)
    with pytest.raises(HeadraceError, match="ulx3s: its part has no processor system"):
        project_files(find_board("ulx3s"), SMALL)


def test_estimate_is_shown(tmp_path, rtl, monkeypatch):
    board = find_board("pynq-z2")
    counted = Resources(family="xc7", used={"LUT": 26600, "FF": 5, "DSP48E1": 221, "BRAM36": 1.5},
                        cells={}, units={}, lean=False, seconds=1.0)
    monkeypatch.setattr("headrace.hw.verilog.generate", lambda config: rtl["headrace.v"])
    monkeypatch.setattr("headrace.boards.area.measure", lambda config, family, progress: counted)
    folder = tmp_path / "p"
    done = CliRunner().invoke(app.app, ["build", board.name, "-o", str(folder), "--estimate"])
    assert done.exit_code == 0 and "50 %" in done.stdout
    assert "| LUT | 26,600 | 53,200 | 50 % |" in (folder / "README.md").read_text()

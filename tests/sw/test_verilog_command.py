"""The files of ``headrace verilog``; the Verilog itself has tests of its own, and is left out."""

import json

import pytest

from headrace.hw import verilog as generator
from headrace.sw.c import driver_files
from headrace.sw.cli import main


@pytest.fixture(autouse=True)
def no_verilog(monkeypatch):
    monkeypatch.setattr(generator, "generate", lambda config: "module headrace; endmodule\n")


def _verilog(folder, *options):
    with pytest.raises(SystemExit) as caught:
        main(["verilog", "-o", str(folder), *options])
    return caught.value.code


def test_everything_is_written_by_default(tmp_path, capsys):
    assert _verilog(tmp_path / "out") == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"headrace.v", "headrace.json", "headrace.h", "headrace_board.h",
                     "headrace.core", "headrace.rdl", "csr.json", "csr.csv", "headrace.xml",
                     "package_ip.tcl", "headrace_instance.vh", *driver_files()}
    shown = capsys.readouterr().out.split()
    assert sorted(shown) == sorted(str(tmp_path / "out" / name) for name in names)
    assert json.loads((tmp_path / "out" / "csr.json").read_text())["csr_bases"] == {"headrace": 0}


def test_kinds_and_the_base_are_chosen(tmp_path):
    assert _verilog(tmp_path / "some", "--only", "litex,rdl", "--base", "0xf0000000") == 0
    assert {path.name for path in (tmp_path / "some").iterdir()} == {
        "headrace.v", "headrace.json", "headrace.rdl", "csr.json", "csr.csv"}
    tables = json.loads((tmp_path / "some" / "csr.json").read_text())
    assert tables["csr_registers"]["headrace_id"]["addr"] == 0xf000_0000
    assert _verilog(tmp_path / "none", "--only", "none") == 0
    assert len(list((tmp_path / "none").iterdir())) == 2


@pytest.mark.parametrize("options, message", [
    (("--only", "vhdl"), "no description 'vhdl': expected some of c, fusesoc, rdl, "),
    (("--base", "0x10"), "--base 0x10: expected a multiple of 4096 below 2**32"),
    (("--base", "0x100000000"), "--base 0x100000000: expected a multiple of 4096"),
    (("--base", "top"), "--base top: expected a multiple of 4096 below 2**32")])
def test_refusals_leave_nothing(tmp_path, capsys, options, message):
    assert _verilog(tmp_path / "out", *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

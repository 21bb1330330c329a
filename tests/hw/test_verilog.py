"""Verilog text, its description, and the C header."""

import json
import os
import re
import subprocess

import pytest
from amaranth import *
from amaranth.back import rtlil
from amaranth.back.verilog import YosysError
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from headrace.hw.config import PRESETS
from headrace.hw.emission import fill_memories, to_verilog
from headrace.hw.regmap import COUNTERS, REGISTERS
from headrace.hw.verilog import c_header, describe, generate, memories


SOURCE = """\
module m(clk);
  reg [31:0] sram [3:0];
  initial begin
    sram[0] = 32'd0;
    sram[1] = 32'd0;
    sram[2] = 32'd0;
    sram[3] = 32'd0;
  end
  reg [15:0] empty [7:0];
  reg  \\bit$1 ;
  reg [39:0] \\x$2  [1:0];
  initial begin
    \\x$2 [0] = 40'h0000000000;
    \\x$2 [1] = 40'h0000000000;
  end
  reg [7:0] rom [1:0];
  initial begin
    rom[0] = 8'h00;
    rom[1] = 8'h01;
  end
endmodule
"""


def test_srams_lose_their_contents_and_tables_keep_them():
    text = fill_memories(SOURCE, None)
    assert "sram[0]" not in text
    assert "\\x$2 [0]" not in text
    assert "rom[1] = 8'h01;" in text
    assert ("sram", 32, 4) in memories(text)
    assert ("x$2", 40, 2) in memories(text)
    assert ("rom", 8, 2) in memories(text)


def test_fill_is_a_loop():
    ones, seeded, other = (fill_memories(SOURCE, fill) for fill in ("ones", 3, 4))
    assert "sram[i] = {32{1'b1}};" in ones
    assert "\\x$2 [i] = w;" in seeded
    assert seeded != other
    for text in (ones, seeded):
        assert text.count("for (i = 0; i < ") == 3
        assert "for (i = 0; i < 8; i = i + 1)" in text
        assert "rom[1] = 8'h01;" in text


@pytest.mark.parametrize("fill", ["zeros", 1.5, True])
def test_bad_fill(fill):
    with pytest.raises(ValueError, match=re.escape(f"not {fill!r}")):
        generate(PRESETS["tiny"], fill)


@pytest.fixture(scope="module")
def tiny():
    return generate(PRESETS["tiny"], 1)


def test_device_has_exactly_the_described_ports(tiny):
    header = re.search(r"^module headrace\((.*?)\);", tiny, re.MULTILINE | re.DOTALL)[1]
    ports = {name.strip() for name in header.split(",")}
    description = describe(PRESETS["tiny"])
    prefixes = [port["prefix"] for port in description["ports"].values() if isinstance(port, dict)]
    rest = {name for name in ports if not name.startswith(tuple(prefixes))}
    assert rest == {"clk", "rst", "irq"}
    assert {"axi__araddr", "axi__wstrb", "ctrl__awaddr", "ctrl__rdata"} <= ports
    assert f"[{PRESETS['tiny'].port_bits - 1}:0] axi__rdata;" in tiny


def test_no_memory_of_the_device_is_written_word_by_word(tiny):
    lines = re.findall(r"^    \S+ ?\[\d+\] = \d+'\S+;$", tiny, re.MULTILINE)
    tables = [depth for name, _width, depth in memories(tiny) if name.startswith("rom")]
    assert len(lines) <= sum(tables)
    assert len(tiny) < 4_000_000


def test_device_passes_lint(tiny, tmp_path):
    from headrace.sim.toolchain import find_verilator

    (tmp_path / "headrace.v").write_text(tiny)
    verilator = find_verilator()
    result = subprocess.run(
        [*verilator.command, "--lint-only", "-Wno-fatal", "-Wno-WIDTH", "--top-module", "headrace",
         str(tmp_path / "headrace.v")],
        env=verilator.environment, capture_output=True, text=True, timeout=300)
    kinds = set(re.findall(r"%(?:Warning|Error)-?(\w*)", result.stderr))
    assert result.returncode == 0, result.stderr[-3000:]
    # FSMs have no default case, and a few intermediate values have no bits or are compared with 0.
    assert kinds <= {"CASEINCOMPLETE", "ASCRANGE", "UNSIGNED"}, result.stderr[-3000:]


def test_description_is_plain_data():
    for config in PRESETS.values():
        description = json.loads(json.dumps(describe(config)))
        assert description["fingerprint"] == config.fingerprint
        assert description["registers"]["status"]["bits"]["busy"] == [0, 1]
        assert set(description["registers"]) == set(REGISTERS)
        assert list(description["counters"]) == list(COUNTERS)


def test_c_header_compiles_and_agrees(tmp_path):
    (tmp_path / "headrace.h").write_text(c_header())
    checks = "\n".join(f"_Static_assert(HEADRACE_{name.upper()}_OFFSET == {register.offset}, \"\");"
                       for name, register in REGISTERS.items())
    (tmp_path / "check.c").write_text(
        f'#include "headrace.h"\n#include "headrace.h"\n{checks}\n'
        f'_Static_assert(HEADRACE_STATUS_ERROR_MASK == 4, "");\n'
        f'_Static_assert(HEADRACE_COUNTERS == {len(COUNTERS)}, "");\n'
        f'_Static_assert(HEADRACE_COUNTER_SOFTMAX_IDLE_OFFSET == '
        f'{0x200 + 8 * COUNTERS.index("softmax_idle")}, "");\n')
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "check.c"],
                   cwd=tmp_path, check=True, timeout=60)


class _Both(wiring.Component):
    """An SRAM and a table."""
    addr: In(4)
    o: Out(16)

    def elaborate(self, platform):
        m = Module()
        m.submodules.sram = sram = Memory(shape=8, depth=16, init=[])
        m.submodules.table = table = Memory(shape=8, depth=16, init=range(16))
        write, reads = sram.write_port(), [sram.read_port(), table.read_port()]
        m.d.comb += [write.addr.eq(self.addr), write.data.eq(self.addr), write.en.eq(1)]
        m.d.comb += [port.addr.eq(self.addr) for port in reads]
        m.d.comb += self.o.eq(Cat(port.data for port in reads))
        return m


def test_yosys_is_the_one_of_the_packages(tmp_path, monkeypatch):
    """One on PATH that is old or does not work changes nothing."""
    (tmp_path / "yosys").write_text("#!/bin/sh\nexit 2\n")
    (tmp_path / "yosys").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("AMARANTH_USE_YOSYS", raising=False)
    text = to_verilog(_Both(), "both")
    assert "AMARANTH_USE_YOSYS" not in os.environ
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "builtin")
    assert to_verilog(_Both(), "both") == text
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "system")
    with pytest.raises(YosysError):
        to_verilog(_Both(), "both")


def test_the_words_of_sram_are_not_even_emitted(monkeypatch):
    """Emitting them takes most of the time for a large machine; without the method, it is slow."""
    text = to_verilog(_Both(), "both")
    assert "  sram[0] =" not in text and "[15] = 8'h0f;" in text
    assert {name for name, *_ in memories(text)} == {"sram", "table"}
    emitted = []
    original = rtlil.convert_fragment

    def convert(*args, **kwargs):
        result = original(*args, **kwargs)
        emitted.append(result[0].count("cell $meminit_v2"))
        return result

    monkeypatch.setattr(rtlil, "convert_fragment", convert)
    to_verilog(_Both(), "both")
    assert emitted == [1]
    monkeypatch.delattr(rtlil.ModuleEmitter, "emit_memory")
    with pytest.raises(AttributeError):      # Amaranth itself needs it: there is no silent change
        to_verilog(_Both(), "both")

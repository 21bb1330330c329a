"""Enables in the events of registers: the same design, written for the simulator."""

import re

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from headrace.hw.config import PRESETS
from headrace.sim.bench import component_verilog
from headrace.sim.gating import LEAST, gate
from headrace.sim.generation import device_verilog


class _Inner(wiring.Component):
    """A pipeline below an enable, of which one stage never rests."""

    d: In(8)
    en: In(1)
    clear: In(1)
    o: Out(8)
    free: Out(8)
    deep: Out(8)

    def elaborate(self, platform):
        m = Module()
        value = self.d
        for stage in range(LEAST + 4):
            register = Signal(8, name=f"stage{stage}")
            with m.If(self.en):
                m.d.sync += register.eq(value + stage)
            value = register
        with m.If(self.clear):
            m.d.sync += value.eq(7)
        deep = self.d
        for stage in range(LEAST + 2):
            register = Signal(8, name=f"deep{stage}", reset_less=True)
            with m.If(self.clear):
                with m.If(self.en):
                    m.d.sync += register.eq(deep ^ stage)
            deep = register
        m.d.comb += self.deep.eq(deep)
        # Counts in every cycle, but for those in which the enable is high: it must not be gated.
        with m.If(self.en):
            m.d.sync += self.free.eq(0)
        with m.Else():
            m.d.sync += self.free.eq(self.free + 1)
        m.d.comb += self.o.eq(value)
        return m


class _Outer(wiring.Component):
    d: In(8)
    go: In(1)
    clear: In(1)
    o: Out(8)
    free: Out(8)
    deep: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = _Inner()
        m.d.comb += [inner.d.eq(self.d), inner.en.eq(self.go), inner.clear.eq(self.clear),
                     self.o.eq(inner.o), self.free.eq(inner.free),
                     self.deep.eq(inner.deep)]
        return m


def events(text):
    return re.findall(r"posedge clk iff \(([^)]*)\)", text)


def test_large_groups_only():
    text = component_verilog(_Outer(), "outer")
    gated = gate(text)
    found = events(gated)
    # All but the last register of the pipeline, which is cleared as well and would be alone. Of
    # nested conditions the outer one.
    counts = {tuple(sorted(re.findall(r"\w+", event))): found.count(event) for event in set(found)}
    assert counts == {("en", "rst"): LEAST + 3, ("clear",): LEAST + 2}
    # Nothing else is changed.
    assert re.sub(r" iff \([^)]*\)", "", gated) == text


def test_no_group_in_a_text_of_another_style():
    text = "module other (clk, q);\n  always @(posedge clk) q <= ~q;\nendmodule\n"
    assert gate(text) == text


def test_the_pipelines_of_a_device_are_found():
    """The units that rest: a change of style in the generated text would lose them silently."""
    verilog = device_verilog(PRESETS["tiny"], 1)
    gated = gate(verilog)
    assert re.sub(r" iff \([^)]*\)", "", gated) == verilog
    counts = dict.fromkeys(("matmul.accumulator", "vector.datapath.lanes", "vector.quantiser",
                            "softmax.exponent", "softmax.reduction", "softmax.quantiser"), 0)
    for match in re.finditer(r"^module (\S+).*?^endmodule", gated, re.MULTILINE | re.DOTALL):
        for name in counts:
            if name in match[1]:
                counts[name] += len(events(match[0]))
    assert all(count >= LEAST for count in counts.values()), counts


DRIVER = r"""
#include <cstdio>
#include <cstdint>
#include "Vtop.h"
#include "verilated.h"
int main() {
    VerilatedContext context;
    Vtop top{&context, ""};
    uint32_t random = 1;
    top.clk = 0; top.rst = 0; top.eval();
    for (int cycle = 0; cycle < 3000; cycle++) {
        random = random * 1664525 + 1013904223;
        top.d = random >> 24;
        top.go = (random >> 12 & 7) != 0;
        top.clear = (random >> 16 & 15) == 0;
        top.rst = (random >> 4 & 255) == 0;
        top.eval();
        top.clk = 1; top.eval();
        printf("%d %d %d\n", top.o, top.free, top.deep);
        top.clk = 0; top.eval();
    }
}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    import subprocess

    from headrace.sim.verilator import Design, build

    folder = tmp_path_factory.mktemp("gating")
    (folder / "driver.cpp").write_text(DRIVER)
    text = component_verilog(_Outer(), "outer")
    found = []
    for source in (text, gate(text)):
        program = build(Design(top="outer", sources={"outer.v": source},
                               driver=folder / "driver.cpp", output="run"))
        out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        found.append(np.array([line.split() for line in out.splitlines()], int))
    return found


def test_both_take_the_same_states(runs):
    plain, gated = runs
    states = [len(np.unique(column)) for column in plain.T]
    assert plain.shape == (3000, 3) and states[0] > 100 and states[1] > 2 and states[2] > 50
    assert np.array_equal(plain, gated)

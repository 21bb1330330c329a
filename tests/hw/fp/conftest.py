"""A Verilated design of all floating-point units, fed from files."""

import dataclasses
import pathlib
import subprocess

import numpy as np
import pytest
from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from headrace.hw import fp
from headrace.hw.emission import to_verilog
from headrace.sim.verilator import Design, build
from headrace.sw import numerics


@dataclasses.dataclass(frozen=True)
class Case:
    """A unit, the width of its operands and the function that it must agree with."""
    unit: wiring.Component
    model: object
    width: int = 32

    def expected(self, a, b):
        """Bits of the results as 32-bit words; integers are sign-extended."""
        if "b" in self.unit.signature.members:
            result = self.model(numerics.from_bits(a), numerics.from_bits(b))
        elif isinstance(self.unit, fp.FromInt):
            drop = np.int32(32 - self.width)
            result = self.model(a.view(np.int32) << drop >> drop)
        elif self.width == 16:
            result = self.model(a.astype(np.uint16))
        else:
            result = self.model(numerics.from_bits(a))
        if result.dtype == np.float32:
            return result.view(np.uint32)
        return result.astype(np.int32).view(np.uint32)


class ToInteger(wiring.Component):
    """Conversion of activations, of one width."""
    latency = fp.ToInt16.latency

    a: In(32)
    en: In(1)
    o: Out(signed(16))

    def __init__(self, *, wide: bool):
        self._wide = wide
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = fp.ToInt16()
        m.d.comb += [unit.a.eq(self.a), unit.en.eq(self.en), unit.wide.eq(self._wide),
                     self.o.eq(unit.o)]
        return m


def cases():
    return {
        "mul": Case(fp.Multiplier(), numerics.mul),
        "add": Case(fp.Adder(), numerics.add),
        "maximum": Case(fp.Maximum(), numerics.maximum),
        "from_int2": Case(fp.FromInt(2), numerics.from_int, 2),
        "from_int21": Case(fp.FromInt(21), numerics.from_int, 21),
        "from_int25": Case(fp.FromInt(25), numerics.from_int, 25),
        "from_int26": Case(fp.FromInt(26), numerics.from_int, 26),
        "from_int32": Case(fp.FromInt(32), numerics.from_int, 32),
        "from_fp16": Case(fp.FromFP16(), numerics.from_fp16, 16),
        "to_fp16": Case(fp.ToFP16(), numerics.to_fp16),
        "to_int8": Case(fp.ToInt8(), numerics.to_int8),
        "to_int16": Case(ToInteger(wide=True), numerics.to_int16),
        "to_int16_narrow": Case(ToInteger(wide=False), numerics.to_int8),
        "exp": Case(fp.Exponential(), numerics.exp),
        "rcp": Case(fp.Reciprocal(), numerics.rcp),
        "rsqrt": Case(fp.ReciprocalSqrt(), numerics.rsqrt),
    }


class Units(wiring.Component):
    """All units side by side on the same operands, results in 32-bit words."""

    def __init__(self):
        self.cases = cases()
        super().__init__({
            "a": In(32), "b": In(32), "en": In(1), "o": Out(32 * len(self.cases)),
        })

    def elaborate(self, platform):
        m = Module()
        for index, (name, case) in enumerate(self.cases.items()):
            m.submodules[name] = unit = case.unit
            m.d.comb += [unit.a.eq(self.a), unit.en.eq(self.en)]
            if hasattr(unit, "b"):
                m.d.comb += unit.b.eq(self.b)
            word = Signal(signed(32), name=f"{name}_word")
            m.d.comb += [word.eq(unit.o), self.o.word_select(index, 32).eq(word)]
        return m


class Bench:
    """Runs operands through the Verilated units."""

    def __init__(self, program, folder, cases):
        self.program = program
        self.folder = folder
        self.cases = cases

    def run(self, a, b, seed=0, stall=0.125):
        """Results of each unit, by name, for the operand words ``a`` and ``b``.

        Random cycles are not enabled and carry random operands; there no output may change.
        """
        rng = np.random.default_rng(seed)
        drain = 16
        enabled = np.ones(int((len(a) + drain) / (1 - stall)), dtype=bool)
        enabled[len(a) + drain:] = False
        rng.shuffle(enabled)
        words = rng.integers(0, 1 << 32, (len(enabled), 3), dtype=np.uint32)
        rows = np.flatnonzero(enabled)[:len(a)]
        words[rows, 0], words[rows, 1], words[:, 2] = a, b, enabled
        source, sink = self.folder / "operands.bin", self.folder / "results.bin"
        words.tofile(source)
        subprocess.run([self.program, source, sink], check=True)
        results = np.fromfile(sink, dtype=np.uint32).reshape(len(enabled), -1)
        still = np.flatnonzero(~enabled[1:]) + 1
        assert np.array_equal(results[still], results[still - 1])
        results = results[enabled]
        latencies = [case.unit.latency for case in self.cases.values()]
        return {name: results[latency - 1:latency - 1 + len(a), index]
                for index, (name, latency) in enumerate(zip(self.cases, latencies))}

    def check(self, a, b, seed=0):
        """Compare every unit with its model."""
        a, b = (np.ascontiguousarray(x, dtype=np.uint32) for x in (a, b))
        for name, got in self.run(a, b, seed).items():
            want = self.cases[name].expected(a, b)
            wrong = np.flatnonzero(got != want)
            assert not wrong.size, "\n".join(
                [f"{name}: {wrong.size} of {len(a)} results differ"]
                + [f"a={a[i]:08x} b={b[i]:08x} got={got[i]:08x} want={want[i]:08x}"
                   for i in wrong[:8]])


@pytest.fixture(scope="session")
def fp_bench(tmp_path_factory):
    """The bench, built once and then taken from the cache of builds."""
    units = Units()
    text = to_verilog(units, "units")
    design = Design(top="units", sources={"units.v": text}, output="units_bench",
                    driver=pathlib.Path(__file__).with_name("harness.cpp").resolve())
    # A missing tool is a failure: skipped, the comparison with NumPy would prove nothing.
    return Bench(build(design), tmp_path_factory.mktemp("fp"), units.cases)

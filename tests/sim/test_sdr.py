"""The simulated SDR SDRAM: data, latency, and every rule that it watches."""

import dataclasses

import numpy as np
import pytest

from headrace.sim.memory import ProtocolViolation
from headrace.sim.sdr import SdrChip, SdrTimings, find_chip, sdr_library
from headrace.sw.errors import HeadraceError


#: Small, with times that are all different in clocks of 10 ns.
CHIP = SdrTimings(name="small", rows=16, columns=64, rcd=30, rp=20, ras=60, rc=90, rfc=70, rrd=20,
                  wr=20, power_up=1000, refresh_ms=1)
NOP, ACT, READ, WRITE, PRE, REF, MODE, STOP = (
    0b10111, 0b10011, 0b10101, 0b10100, 0b10010, 0b10001, 0b10000, 0b10110)
ALL = 1 << 10


class Bench:
    """The chip, one call per clock."""

    def __init__(self, start=True, cl=2, burst=1, chip=CHIP):
        self.storage = np.random.default_rng(5).integers(0, 256, CHIP.size_bytes, np.uint8)
        self.chip = SdrChip(sdr_library(), self.storage, chip, 100_000_000, 1)
        self.bus = None
        if start:
            self.wait(100)
            self.go(PRE, a=ALL, then=3)
            for _ in range(2):
                self.go(REF, then=8)
            self.go(MODE, a=cl << 4 | burst, then=3)
            self.chip.check()

    def go(self, command, a=0, ba=0, dm=0, dq=None, then=1):
        self.bus = self.chip.tick(command, a, ba, dm, dq)
        self.wait(then - 1)

    def wait(self, clocks):
        for _ in range(clocks):
            self.bus = self.chip.tick(NOP)

    def word(self, row, bank, column):
        place = 2 * ((row * 4 + bank) * 64 + column)
        return int(self.storage[place]) | int(self.storage[place + 1]) << 8

    def broken(self):
        with pytest.raises(ProtocolViolation) as caught:
            self.chip.check()
        return str(caught.value)


@pytest.mark.parametrize("cl", (2, 3))
def test_a_burst_comes_after_the_latency(cl):
    bench = Bench(cl=cl, burst=2)
    bench.go(ACT, a=7, ba=2, then=3)
    expected = [bench.word(7, 2, 12 + column) for column in (2, 3, 0, 1)]
    bench.go(READ, a=14, ba=2)
    found = []
    for _ in range(cl + 3):
        found.append(bench.bus)
        bench.wait(1)
    # It begins at the column and wraps; the edge that is `cl` after the command finds its first
    # word on the bus.
    assert found[cl - 1:cl + 3] == expected
    assert bench.chip.violation is None


def test_written_bytes_and_masks():
    bench = Bench(burst=1)
    old = bench.word(3, 1, 9)
    bench.go(ACT, a=3, ba=1, then=3)
    bench.go(WRITE, a=8, ba=1, dq=0x1234)
    bench.go(NOP, dm=0b10, dq=0x5678)
    assert bench.word(3, 1, 8) == 0x1234
    assert bench.word(3, 1, 9) == old & 0xff00 | 0x78
    assert bench.chip.violation is None


def test_a_mask_takes_a_read_off_the_bus():
    bench = Bench(burst=0)
    bench.go(ACT, a=3, ba=1, then=3)
    word = bench.word(3, 1, 5)
    bench.go(READ, a=5, ba=1, dm=0b01)
    bench.wait(1)
    assert bench.bus >> 8 == word >> 8
    assert bench.bus & 0xff != word & 0xff
    assert bench.chip.violation is None


def test_statistics():
    bench = Bench(burst=1)
    bench.chip.reset_statistics()
    bench.go(ACT, a=3, ba=1, then=3)
    bench.go(READ, a=0, ba=1, then=4)
    bench.go(WRITE, a=2, ba=1, dq=1)
    bench.go(NOP, dq=2, then=4)
    bench.go(PRE, ba=1, then=2)
    assert bench.chip.statistics == {"clocks": 14, "reads": 1, "writes": 1, "activates": 1,
                                     "precharges": 1, "refreshes": 0, "words": 4}


def early(bench):
    bench.wait(90)
    bench.go(PRE, a=ALL)


def no_refresh(bench):
    bench.wait(101)
    bench.go(PRE, a=ALL, then=3)
    bench.go(MODE, a=0x20, then=3)
    bench.go(ACT)


def no_precharge(bench):
    bench.wait(101)
    bench.go(REF)


def opened(bench, row=3, bank=1, then=3):
    bench.go(ACT, a=row, ba=bank, then=then)


def steps(*commands):
    """Commands with their arguments: the last one breaks a rule."""
    def play(bench):
        for command, values in commands:
            assert bench.chip.violation is None
            bench.go(command, **values)
    return play


A = (ACT, {"a": 3, "ba": 1, "then": 3})
RULES = {
    "a command within the time of power-up": (early, False),
    "ACT before the mode register was loaded after two refreshes": (no_refresh, False),
    "refresh before all banks were closed": (no_precharge, False),
    "READ or WRITE within tRCD": (steps((ACT, {"ba": 1, "then": 2}), (READ, {"ba": 1})), True),
    "READ or WRITE of a bank that is closed": (steps(A, (READ, {"ba": 2})), True),
    "ACT of a bank that is open": (steps((ACT, {"ba": 1, "then": 9}), (ACT, {"ba": 1})), True),
    "ACT within tRRD": (steps((ACT, {"ba": 1, "then": 1}), (ACT, {"ba": 2})), True),
    "PRE within tRAS": (steps((ACT, {"ba": 1, "then": 5}), (PRE, {"ba": 1})), True),
    "ACT within tRP": (steps((ACT, {"ba": 1, "then": 8}), (PRE, {"ba": 1, "then": 1}),
                             (ACT, {"ba": 1})), True),
    "ACT within tRC": (steps((ACT, {"ba": 1, "then": 6}), (PRE, {"ba": 1, "then": 2}),
                             (ACT, {"ba": 1})), True),
    "PRE within tWR": (steps((ACT, {"ba": 1, "then": 9}), (WRITE, {"ba": 1, "dq": 1}),
                             (PRE, {"ba": 1})), True),
    "refresh while a bank is open": (steps(A, (REF, {})), True),
    "refresh within tRP": (steps((ACT, {"ba": 1, "then": 6}), (PRE, {"ba": 1, "then": 1}),
                                 (REF, {})), True),
    "a command while a refresh or a change of mode takes its time":
        (steps((REF, {"then": 6}), (ACT, {})), True),
    "the mode is changed while a bank is open": (steps(A, (MODE, {"a": 0x20})), True),
    "mode register: a CAS latency of 1 at this clock": (steps((MODE, {"a": 0x10})), True),
    "mode register: a burst length of a page is not modelled": (steps((MODE, {"a": 0x27})), True),
    "mode register: interleaved bursts are not modelled": (steps((MODE, {"a": 0x28})), True),
    "no such row": (steps((ACT, {"a": 16})), True),
    "WRITE of an undriven bus": (steps(A, (WRITE, {"ba": 1})), True),
    "the chip and the controller drive the bus together":
        (steps(A, (READ, {"ba": 1, "then": 2}), (NOP, {"dq": 0})), True),
    "9 refreshes are owed": (steps((NOP, {"then": 57_000})), True),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule):
    play, start = RULES[rule]
    bench = Bench(start=start, burst=0)
    play(bench)
    assert rule in bench.broken()


@pytest.mark.parametrize("rule, least", (("rcd", 3), ("rp", 2), ("ras", 6), ("rc", 9), ("wr", 2)))
def test_times_are_rounded_up_to_clocks(rule, least):
    assert CHIP.native(100_000_000, 1)[rule] == least
    longer = dataclasses.replace(CHIP, **{rule: getattr(CHIP, rule) + 0.5})
    assert longer.native(100_000_000, 1)[rule] == least + 1


def test_auto_precharge_closes_the_row():
    bench = Bench(burst=0)
    bench.go(ACT, a=3, ba=1, then=9)
    bench.go(READ, a=ALL, ba=1, then=3)
    bench.go(ACT, a=4, ba=1, then=3)
    assert bench.chip.violation is None
    bench.go(READ, a=0, ba=1)
    assert bench.chip.violation is None


def test_a_reset_of_the_design_keeps_the_content_and_starts_over():
    bench = Bench(burst=0)
    opened(bench)
    bench.chip.tick(0b01111)
    assert bench.chip.violation is None
    bench.wait(101)
    bench.go(PRE, a=ALL, then=3)
    bench.go(ACT)
    assert "ACT before the mode register" in bench.broken()


def test_faults_of_the_caller():
    with pytest.raises(HeadraceError, match="no simulated SDR SDRAM 'X1': expected one of IS42"):
        find_chip("X1")
    with pytest.raises(HeadraceError, match="a clock of 200 MHz: the chip goes up to 133.333 MHz"):
        CHIP.native(200_000_000, 2)
    with pytest.raises(HeadraceError, match="10 bytes of storage: expected 8192"):
        SdrChip(sdr_library(), np.zeros(10, np.uint8), CHIP, 100_000_000, 1)

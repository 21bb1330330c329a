"""Starting and training DDR3, against a PHY that reads well in some settings only."""

from types import SimpleNamespace

import pytest

from headrace.boards.catalogue import find_board
from headrace.boards.dram import controller_spec, generate_controller
from headrace.boards.dram.training import Ddr3Host, Lane, start_memory
from headrace.sw.errors import HeadraceError


PARTS = {
    "sdram": ["dfii_control0", *(f"dfii_pi{phase}_{name}" for phase in range(2) for name in (
        "command0", "command_issue", "address0", "baddress0", "wrdata1", "wrdata0", "rddata1",
        "rddata0"))],
    "ddrphy": ["dly_sel0", "rdly_dq_rst", "rdly_dq_inc", "rdly_dq_bitslip_rst", "rdly_dq_bitslip",
               "burstdet_clr", "burstdet_seen"],
    "control": ["init_done0", "init_error0"],
}
REGISTERS = {f"{part}_{name}": 0x800 * page + 4 * index
             for page, (part, names) in enumerate(PARTS.items())
             for index, name in enumerate(names)}
IDLE = {"a": 0, "ba": 0, "cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1}
FACTS = {
    "registers": REGISTERS, "phases": 2, "rdphase": 0, "wrphase": 1, "bitslips": 4, "delays": 8,
    "modules": 2, "dfi_bits": 64,
    "start": [{**IDLE, "control": ["odt", "reset_n"], "wait": 50000},
              {**IDLE, "control": ["cke", "odt", "reset_n"], "wait": 10000},
              {**IDLE, "a": 0x320, "cs_n": 0, "ras_n": 0, "cas_n": 0, "we_n": 0, "control": [],
               "wait": 200}],
}


class Phy:
    """Registers of the controller; lane `l` reads well at `good[l]`: a bitslip and delays."""

    def __init__(self, good, strobes=(True, True), registers=REGISTERS):
        self.good, self.strobes = good, strobes
        self.values = dict.fromkeys(registers, 0)
        self.names = {address: name for name, address in registers.items()}
        self.bitslip, self.delay = [1, 2], [5, 5]        # whatever was there before
        self.memory, self.modes, self.slept, self.open, self.seen = [0, 0], [], 0.0, False, 0
        self.changes = []

    def read(self, address):
        name = self.names[address]
        return self.seen if name == "ddrphy_burstdet_seen" else self.values[name]

    def write(self, address, value):
        name = self.names[address]
        self.values[name] = value
        if name.endswith("command_issue"):
            self.issue(int(name[len("sdram_dfii_pi")]))
        elif name == "ddrphy_burstdet_clr":
            self.seen = 0
        elif name.startswith("ddrphy_rdly"):
            for lane in range(2):
                if self.values["ddrphy_dly_sel0"] >> lane & 1:
                    self.adjust(lane, name.removeprefix("ddrphy_rdly_dq_"))
        elif name.startswith("control"):
            self.changes.append((name, value))

    def adjust(self, lane, what):
        if what == "rst":
            self.delay[lane] = 0
        elif what == "inc":
            self.delay[lane] = (self.delay[lane] + 1) % 8
        elif what == "bitslip_rst":
            self.bitslip[lane] = 0
        else:
            self.bitslip[lane] = (self.bitslip[lane] + 1) % 4

    def issue(self, phase):
        assert not self.values["sdram_dfii_control0"] & 1, "the controller has the chip"
        assert self.values["sdram_dfii_control0"] & 0b1010 == 0b1010, "no clock, or in reset"
        command = self.values[f"sdram_dfii_pi{phase}_command0"]
        if command == 0b001111:
            assert not self.open
            self.modes.append(self.values[f"sdram_dfii_pi{phase}_address0"])
        elif command == 0b000011:
            pass                                         # ZQ calibration
        elif command == 0b001001:
            assert not self.open
            self.open = True
        elif command == 0b001011:
            self.open = False
        elif command == 0b010111:
            assert self.open and phase == FACTS["wrphase"]
            self.memory = [self.values[f"sdram_dfii_pi{part}_wrdata1"] << 32
                           | self.values[f"sdram_dfii_pi{part}_wrdata0"] for part in range(2)]
        elif command == 0b100101:
            assert self.open and phase == FACTS["rdphase"]
            self.load()
        else:
            raise AssertionError(f"command {command:06b}")

    def load(self):
        for lane in range(2):
            self.seen |= self.strobes[lane] << lane
        for part in range(2):
            data = self.memory[part]
            for lane, (bitslip, delays) in enumerate(self.good):
                if self.bitslip[lane] != bitslip or self.delay[lane] not in delays:
                    data ^= 0x10 << 8 * lane + 16 * (part + self.delay[lane] % 2)
            self.values[f"sdram_dfii_pi{part}_rddata0"] = data & 0xffffffff
            self.values[f"sdram_dfii_pi{part}_rddata1"] = data >> 32

    def sleep(self, seconds):
        self.slept += seconds


def host(phy):
    return Ddr3Host(FACTS, 75_000_000, phy.read, phy.write, phy.sleep)


def test_each_byte_gets_the_middle_of_its_window():
    phy = Phy([(2, (0, 3, 4, 5, 6)), (0, (1, 2, 7))])
    assert host(phy).prepare() == [Lane(2, 4, 4), Lane(0, 1, 2)]
    assert (phy.bitslip, phy.delay) == ([2, 0], [4, 1])
    assert phy.modes == [0x320]
    assert phy.slept == pytest.approx(60200 / 75e6)
    # The controller has the chip before anyone may use memory.
    assert phy.values["sdram_dfii_control0"] == 1
    assert phy.changes == [("control_init_done0", 0), ("control_init_error0", 0),
                           ("control_init_done0", 1)]


@pytest.mark.parametrize("phy", (Phy([(1, (2, 3)), (0, ())]),
                                 Phy([(1, (2, 3)), (0, (4,))], strobes=(True, False))))
def test_a_byte_that_never_reads(phy):
    with pytest.raises(HeadraceError, match="no setting reads byte 1 of the data bus"):
        host(phy).prepare()
    assert phy.values["control_init_done0"] == 0
    assert phy.values["control_init_error0"] == 1


def test_start_alone():
    phy = Phy([(0, ()), (0, ())])
    assert host(phy).prepare(train=False) == []
    assert phy.modes == [0x320] and phy.values["control_init_done0"] == 1


def test_a_board_is_started_by_its_generated_facts():
    pytest.importorskip("litedram")
    board = find_board("orangecrab")
    registers = generate_controller(controller_spec(board)).facts["registers"]
    phy = Phy([(1, (2, 3, 4)), (3, (0, 1))], registers=registers)
    device = SimpleNamespace(read_dram=phy.read, write_dram=phy.write)
    start = start_memory(board, sleep=phy.sleep)
    assert start is not None
    start(device)
    assert (phy.bitslip, phy.delay) == ([1, 3], [3, 0])
    # CWL 5, nothing, no termination, CL 6 and bursts of eight.
    assert [mode >> 3 & 7 for mode in phy.modes[:1]] == [0] and len(phy.modes) == 4
    assert phy.values["control_init_done0"] == 1


def test_boards_that_start_by_themselves():
    assert start_memory(find_board("ulx3s")) is None

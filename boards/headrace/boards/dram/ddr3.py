"""The generator's part for DDR3 on an ECP5: clocks, PHY, registers for starting and training."""

from litedram.common import (
    PhySettings,
    get_default_cl_cwl,
    get_sys_latency,
    get_sys_phase,
)
from litedram.phy.ecp5ddrphy import ECP5DDRPHY
from litedram.phy.model import SDRAMPHYModel
from litex.soc.interconnect import csr_bus
from litex.soc.interconnect.csr import AutoCSR, CSRStorage
from migen import ClockDomain, Instance, Module, Record, Signal
from migen.genlib.resetsync import AsyncResetSynchronizer

from .spec import ControllerSpec


__all__ = ["PAGE", "Control", "Pins", "add_clocks", "add_registers", "make_model", "make_phy"]


#: Bytes of the address space of the registers of one part.
PAGE = 0x800

#: Parts with registers, in the order of their pages.
PARTS = ("sdram", "ddrphy", "control")

#: Width of word addresses of the registers.
ADDRESS_BITS = 14


class Pins(Record):
    """Pins of the chip, ``ddram_*``; of differential pairs the true side only."""

    def __init__(self, chip, data_bits: int):
        super().__init__([("a", chip.geom_settings.addressbits),
                          ("ba", chip.geom_settings.bankbits), ("ras_n", 1), ("cas_n", 1),
                          ("we_n", 1), ("cs_n", 1), ("dm", data_bits // 8), ("dq", data_bits),
                          ("dqs_p", data_bits // 8), ("clk_p", 1), ("cke", 1), ("odt", 1),
                          ("reset_n", 1)])
        for name, *_ in self.layout:
            getattr(self, name).name_override = f"ddram_{name}"


def make_phy(spec: ControllerSpec, pins: Pins):
    """LiteDRAM's PHY of the ECP5."""
    swap = {"dm_remapping": {0: 1, 1: 0}} if spec.options.get("dm_swap") else {}
    phy = ECP5DDRPHY(pins, sys_clk_freq=spec.clk_hz,
                     cmd_delay=int(spec.options.get("cmd_delay", 0)), **swap)
    electrical = {name: spec.options[name] for name in ("rtt_nom", "rtt_wr", "ron")
                  if name in spec.options}
    phy.settings.add_electrical_settings(**electrical)
    return phy


def make_model(spec: ControllerSpec, chip):
    """LiteDRAM's model of PHY and chip, with the phases and latencies of the ECP5's PHY."""
    phases = 2
    cl, cwl = get_default_cl_cwl("DDR3", 2 / (2 * phases * spec.clk_hz))
    cl_latency, cwl_latency = get_sys_latency(phases, cl), get_sys_latency(phases, cwl)
    settings = PhySettings(
        phytype="SDRAMPHYModel", memtype="DDR3", databits=spec.data_bits,
        dfi_databits=4 * spec.data_bits, nphases=phases,
        rdphase=get_sys_phase(phases, cl_latency, cl),
        wrphase=get_sys_phase(phases, cwl_latency, cwl), cl=cl, cwl=cwl,
        read_latency=cl_latency + 10, write_latency=cwl_latency)
    return SDRAMPHYModel(chip, settings, clk_freq=spec.clk_hz)


def add_clocks(top: Module, phy) -> set:
    """Clocks of controller and PHY from one of twice the frequency; their ports.

    In: ``eclk``, ``init_clk`` (any slow clock), ``locked``, whether both are good. Out:
    ``user_clk`` and ``user_rst``, the domain of controller and accelerator.
    """
    names = ("eclk", "init_clk", "locked", "user_clk", "user_rst")
    eclk, init_clk, locked, user_clk, user_rst = (Signal(name_override=name) for name in names)
    for name in ("init", "sys", "sys2x"):
        setattr(top.clock_domains, f"cd_{name}", ClockDomain(name))
    bridged = Signal()
    reset = ~locked | phy.init.reset
    top.comb += [top.cd_init.clk.eq(init_clk), user_clk.eq(top.cd_sys.clk),
                 user_rst.eq(top.cd_sys.rst)]
    top.specials += [
        Instance("ECLKBRIDGECS", i_CLK0=eclk, i_SEL=0, o_ECSOUT=bridged),
        Instance("ECLKSYNCB", i_ECLKI=bridged, i_STOP=phy.init.stop, o_ECLKO=top.cd_sys2x.clk),
        Instance("CLKDIVF", p_DIV="2.0", i_ALIGNWD=0, i_CLKI=top.cd_sys2x.clk,
                 i_RST=phy.init.reset, o_CDIVX=top.cd_sys.clk),
        AsyncResetSynchronizer(top.cd_init, ~locked),
        AsyncResetSynchronizer(top.cd_sys, reset),
        AsyncResetSynchronizer(top.cd_sys2x, reset),
    ]
    return {eclk, init_clk, locked, user_clk, user_rst}


class Control(Module, AutoCSR):
    """Said by whoever has started the DRAM: it can be used, or it cannot."""

    def __init__(self):
        self.init_done = CSRStorage()
        self.init_error = CSRStorage()
        self.ready = Signal(name_override="ready")
        self.sync += self.ready.eq(self.init_done.storage & ~self.init_error.storage)


def add_registers(top: Module, core, phy, control: Control) -> tuple[set, dict[str, int]]:
    """The registers of controller and PHY on LiteX' register bus; its ports, and their addresses.

    Ports: ``csr_adr``, of words, ``csr_re``, ``csr_we``, ``csr_dat_w``, and a cycle later
    ``csr_dat_r``.
    """
    source = type("Source", (), {})()
    source.sdram, source.ddrphy, source.control = core, phy, control
    bus = csr_bus.Interface(data_width=32, address_width=ADDRESS_BITS)
    top.submodules.registers = banks = csr_bus.CSRBankArray(
        source, lambda name, memory: PARTS.index(name), data_width=32,
        address_width=ADDRESS_BITS, paging=PAGE)
    top.submodules.interconnect = csr_bus.Interconnect(bus, banks.get_buses())
    for name, *_ in bus.layout:
        getattr(bus, name).name_override = f"csr_{name}"
    addresses = {f"{name}_{register.name}": PAGE * page + 4 * index
                 for name, _, page, bank in banks.banks
                 for index, register in enumerate(bank.simple_csrs)}
    return set(bus.flatten()), addresses

"""LiteDRAM's controller as Verilog. The only module that imports LiteDRAM, with its parts.

The controller, its crossbar and its AXI port are LiteDRAM's; around them there is no SoC, no bus
and no CPU, so that the module holds nothing but the controller.
"""

import copy
import re

from litedram import modules
from litedram.core import LiteDRAMCore
from litedram.core.controller import ControllerSettings
from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
from litedram.init import get_sdram_phy_init_sequence
from litex.build.lattice.common import lattice_ecp5_trellis_special_overrides
from litex.gen.fhdl.verilog import convert
from migen import ClockDomain, Module, Record, Signal

from headrace.hw.axi import ID_BITS

from . import ddr3, sdr
from .spec import ControllerSpec


__all__ = ["NAME", "write"]


#: Name of the Verilog module.
NAME = "litedram"

#: Nanoseconds that LiteDRAM's modules leave out, of the slowest chips of their kind: ACT to PRE
#: and ACT to ACT of another bank.
_MISSING = {"tRAS": 45, "tRRD": 15}

#: Nanoseconds from a refresh of DDR3 to the next command, by gigabits of a x16 device (JESD79-3F).
_DDR3_RFC = {1: 110, 2: 160, 4: 260, 8: 350}

#: Clocks that the sequences count in are those of the CPU in LiteX' examples; the longest wait,
#: before the first command, must be 200 us at least.
_POWER_UP_NS = 200_000


def _module(spec: ControllerSpec):
    """LiteDRAM's chip, with the timings that its class lacks."""
    found = getattr(modules, spec.module, None)
    if found is None or found.memtype != spec.kind:
        raise ValueError(f"LiteDRAM has no {spec.kind} chip {spec.module!r}")
    chip = type(spec.module, (found,), {})
    if spec.kind == "SDR":
        speed = copy.copy(found.speedgrade_timings["default"])
        technology = copy.copy(found.technology_timings)
        speed.tRAS = speed.tRAS or _MISSING["tRAS"]
        technology.tRRD = technology.tRRD or (None, _MISSING["tRRD"])
        chip.speedgrade_timings, chip.technology_timings = {"default": speed}, technology
    else:
        # LiteDRAM has this time in clocks of the chip's fastest grade, five times too long at
        # the clock of an ECP5.
        speed = copy.copy(found.speedgrade_timings["default"])
        gigabits = found.nbanks * found.nrows * found.ncols * 16 >> 30
        speed.tRFC = (None, _DDR3_RFC[gigabits])
        chip.speedgrade_timings = {"default": speed}
    if spec.model:
        chip.nrows = int(spec.options.get("model_rows", chip.nrows))
    made = chip(spec.clk_hz, spec.rate)
    # LiteDRAM rounds the period of refreshes up, so that all rows would take a little too long.
    made.timing_settings.tREFI = int(made.get("tREFI").ns * spec.clk_hz // 10**9)
    return made


def _sequence(spec: ControllerSpec, phy, chip) -> list[dict]:
    """LiteDRAM's commands after power-up: address, bank, level of the pins, clocks to wait."""
    steps, _ = get_sdram_phy_init_sequence(phy.settings, chip.timing_settings)
    power_up = -(-_POWER_UP_NS * spec.clk_hz // 10**9)
    found = []
    for index, (comment, address, bank, command, wait) in enumerate(steps):
        bits = command.split("|")
        issues = "DFII_COMMAND_CS" in bits
        control = [bit.removeprefix("DFII_CONTROL_").lower() for bit in bits
                   if bit.startswith("DFII_CONTROL_")]
        levels = {"cs_n": int(not issues)}
        levels |= {f"{name}_n": int(not (issues and f"DFII_COMMAND_{name.upper()}" in bits))
                   for name in ("ras", "cas", "we")}
        # Every command has the time of the longest of those that follow without a wait.
        least = max(chip.timing_settings.tRP, chip.timing_settings.tRFC, 4) + 1
        found.append({"comment": comment, "a": address, "ba": bank, **levels,
                      "control": control, "wait": max(wait, power_up if index == 0 else least)})
    return found


def write(spec: ControllerSpec) -> tuple[str, dict]:
    """Verilog of the controller, module :data:`NAME`, and what is to be known of it.

    Ports of SDR SDRAM: ``clk`` and, at half rate, ``clk2x``, twice as fast and in phase; ``rst``
    of the PHY; ``hold``, reset of the controller while ``start_*`` has the chip; ``axi_*``;
    ``sdram_*``. Of DDR3: ``axi_*``, ``ready``, ``ddram_*``, and those of ``add_clocks`` (``clk``
    and ``rst`` with the model) and ``add_registers`` of :mod:`headrace.boards.dram.ddr3`.
    """
    chip = _module(spec)
    top = Module()
    make = {"SDR": _write_sdr, "DDR3": _write_ddr3}[spec.kind]
    ports, overrides, core, phy, more = make(spec, chip, top)
    axi, depth = _add_port(spec, top, core)
    text = convert(top, ports | _axi_ports(axi), name=NAME, special_overrides=overrides
                   ).main_source
    facts = {"data_bits": axi.data_width, "addr_bits": axi.address_width,
             "a_bits": chip.geom_settings.addressbits, "ba_bits": chip.geom_settings.bankbits,
             "buffer_words": depth, "size_bytes": 1 << axi.address_width, "ratio": spec.ratio,
             "columns": chip.ncols, "rows": chip.nrows, "banks": chip.nbanks,
             "start": _sequence(spec, phy, chip), **more}
    return _strip(text), facts


def _write_sdr(spec: ControllerSpec, chip, top: Module):
    top.clock_domains.cd_sys = ClockDomain("sys")
    top.clock_domains.cd_phy = ClockDomain("phy")
    clk, rst, hold = (Signal(name_override=name) for name in ("clk", "rst", "hold"))
    ports = {clk, rst, hold}
    top.comb += [top.cd_sys.clk.eq(clk), top.cd_sys.rst.eq(hold | rst),
                 top.cd_phy.clk.eq(clk), top.cd_phy.rst.eq(rst)]
    if spec.ratio == 2:
        top.clock_domains.cd_phy2x = ClockDomain("phy2x", reset_less=True)
        clk2x = Signal(name_override="clk2x")
        ports |= {clk2x}
        top.comb += top.cd_phy2x.clk.eq(clk2x)

    pins = sdr.Pins(chip, spec.data_bits)
    top.submodules.phy = phy = sdr.make_phy(spec, pins)
    top.submodules.core = core = LiteDRAMCore(
        phy, chip.geom_settings, chip.timing_settings, spec.clk_hz,
        controller_settings=ControllerSettings())
    command = Record([("a", len(pins.a)), ("ba", len(pins.ba)), ("cs_n", 1), ("ras_n", 1),
                      ("cas_n", 1), ("we_n", 1), ("cke", 1)])
    for name in ("a", "ba", *sdr.COMMANDS, "cke"):
        getattr(command, name).name_override = f"start_{name}"
    sdr.connect_start(core, hold, command)
    ports |= pins.ports | set(command.flatten())
    return ports, sdr.overrides(pins), core, phy, {"cl": spec.cl}


def _write_ddr3(spec: ControllerSpec, chip, top: Module):
    if spec.model:
        top.clock_domains.cd_sys = ClockDomain("sys")
        clk, rst = Signal(name_override="clk"), Signal(name_override="rst")
        top.comb += [top.cd_sys.clk.eq(clk), top.cd_sys.rst.eq(rst)]
        ports = {clk, rst}
        top.submodules.phy = phy = ddr3.make_model(spec, chip)
    else:
        pins = ddr3.Pins(chip, spec.data_bits)
        ports = set(pins.flatten())
        top.submodules.phy = phy = ddr3.make_phy(spec, pins)
        ports |= ddr3.add_clocks(top, phy)
    top.submodules.core = core = LiteDRAMCore(
        phy, chip.geom_settings, chip.timing_settings, spec.clk_hz,
        controller_settings=ControllerSettings())
    top.submodules.control = control = ddr3.Control()
    registers, addresses = ddr3.add_registers(top, core, phy, control)
    ports |= registers | {control.ready}
    more = {"registers": addresses, "phases": phy.settings.nphases,
            "rdphase": phy.settings.rdphase, "wrphase": phy.settings.wrphase,
            "bitslips": 4, "delays": 8, "modules": spec.data_bits // 8,
            "dfi_bits": phy.settings.dfi_databits}
    return ports, lattice_ecp5_trellis_special_overrides, core, phy, more


def _add_port(spec: ControllerSpec, top: Module, core):
    """The AXI port, as wide as a word of the controller."""
    native = core.crossbar.get_port()
    axi = LiteDRAMAXIPort(data_width=native.data_width, id_width=ID_BITS,
                          address_width=native.address_width + (native.data_width // 8).bit_length()
                          - 1)
    depth = int(spec.options.get("buffer_words", 32))
    top.submodules.axi = LiteDRAMAXI2Native(axi, native, w_buffer_depth=depth,
                                            r_buffer_depth=depth)
    return axi, depth


def _axi_ports(axi) -> set:
    ports = set()
    for channel in ("aw", "w", "b", "ar", "r"):
        endpoint = getattr(axi, channel)
        names = {"aw": ("addr", "len", "size", "burst", "id"), "w": ("data", "strb"),
                 "b": ("resp", "id"), "ar": ("addr", "len", "size", "burst", "id"),
                 "r": ("data", "resp", "id")}[channel]
        flags = ("valid", "ready", *(("last",) if channel in ("w", "r") else ()))
        for name in (*flags, *names):
            signal = getattr(endpoint, name)
            signal.name_override = f"axi_{channel}{name}"
            ports.add(signal)
    return ports


def _strip(text: str) -> str:
    # Comments of the header name the day and the machine.
    text = re.sub(r"^//.*\n", "", text, flags=re.MULTILINE)
    return text.replace("`timescale 1ns / 1ps\n", "").lstrip()

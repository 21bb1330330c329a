"""What the project knows of a board: part, pins, clock, memory, link and configuration.

Plain data without Amaranth: the top, the flow, the simulation of a board, the driver and the
documents all read it from here.
"""

import dataclasses
from dataclasses import dataclass, field

from headrace.hw.config import PRESETS, Config


__all__ = ["Board", "Link", "Memory", "Pins", "Processor"]


@dataclass(frozen=True, kw_only=True)
class Pins:
    """A port of the top, and the balls of the package that its bits are connected to.

    Parameters
    ----------
    port : str
        Name of the port in the top's Verilog. Ports of a DRAM have the names of LiteDRAM's
        Verilog: ``sdram_a``, ``ddram_dq``, ...
    balls : str
        Balls, separated by spaces, bit 0 first. Of a differential pair, the true side only.
    direction : str
        ``i``, ``o`` or ``io``.
    io_type : str
        Standard of the pins, as the tools call it.
    options : dict of str to str
        More attributes of the pins.
    level : int or None
        Ports without logic: the level that all bits are driven to.
    """

    port: str
    balls: str
    direction: str
    io_type: str = "LVCMOS33"
    options: dict[str, str] = field(default_factory=dict)
    level: int | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        """The balls, one by one."""
        return tuple(self.balls.split())


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory beside the accelerator.

    Parameters
    ----------
    kind : str
        ``SDR`` or ``DDR3``: a DRAM on pins of the part, with a LiteDRAM controller. ``PS``: behind
        ports of the processor system, which has initialised it.
    title : str
        Chip and capacity, for readers.
    size_bytes : int
        Bytes that the accelerator can use.
    data_bits : int
        Width of the chip's data bus.
    clock_hz : int
        Clock of the DRAM; data moves twice per clock, or once in SDR SDRAM.
    dram : str
        Name in :data:`headrace.sim.dram.DRAMS` of the nearest timing model.
    module, phy : str
        Names of LiteDRAM's classes for the chip and the PHY; empty for ``PS``.
    rate : str
        Clock of the controller to clock of the DRAM, as LiteDRAM writes it: ``1:1``, ``1:2``.
    options : dict of str to int or str
        Further keys of ``litedram_gen``.
    port_bits : int
        Width of the one port that the accelerator's goes to, in bits per clock of the accelerator;
        0 where the port is made as wide as the accelerator's.
    """

    kind: str
    title: str
    size_bytes: int
    data_bits: int
    clock_hz: int
    dram: str
    module: str = ""
    phy: str = ""
    rate: str = ""
    options: dict[str, int | str] = field(default_factory=dict)
    port_bits: int = 0

    @property
    def peak_bytes(self) -> float:
        """Bytes per second of the data bus when it never rests."""
        return self.clock_hz * (1 if self.kind == "SDR" else 2) * self.data_bits / 8


@dataclass(frozen=True, kw_only=True)
class Link:
    """How the host reaches the accelerator.

    Parameters
    ----------
    kind : str
        ``uart`` or ``ps`` (registers and memory of the processor system).
    title : str
        Connector and adapter, for readers.
    url : str
        Address for ``--device``, with the device file that is most likely.
    baud : int
        Bits per second of a UART.
    """

    kind: str
    title: str
    url: str
    baud: int = 0


@dataclass(frozen=True, kw_only=True)
class Processor:
    """Processor system of a part, which has the memory and carries the driver.

    Parameters
    ----------
    kind : str
        Its IP in Vivado: ``zynq_ultra_ps_e`` or ``processing_system7``.
    board_part : str
        Pattern of the board's definition in Vivado, whose settings it takes.
    control_base : int
        Address of the accelerator's registers.
    memory_base : int
        Address of memory byte 0 of the accelerator: a range that Linux leaves alone.
    reserve : str
        Argument of the Linux kernel that makes it do so.
    """

    kind: str
    board_part: str
    control_base: int
    memory_base: int
    reserve: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """One board.

    Parameters
    ----------
    name, title : str
        Name for commands, and what it is called.
    family : str
        Family of the part, one of :data:`headrace.boards.families.FAMILIES`.
    part : str
        Name of the part in that family.
    order : str
        The part's full name, as the vendor's tools take it.
    package, speed : str
        Package and grade, as nextpnr takes them.
    preset : str
        Preset of the accelerator.
    clk_hz : int
        Clock of the accelerator, in the domain ``sync``.
    input_hz : int
        Clock at the pin ``clk``; 0 if clocks come from the processor system.
    memory : Memory
        Memory beside the accelerator.
    link : Link
        Way to the host.
    pins : tuple of Pins
        Every port of the top; empty where the top has none.
    loader : tuple of str
        Options of openFPGALoader; empty if it does not know the board.
    changes : dict of str to int
        Fields of :class:`headrace.hw.config.Config` that differ from the preset.
    pack : tuple of str
        Options of ecppack.
    processor : Processor or None
        Processor system with the memory; None if the part has none.
    presets : tuple of str
        Presets that the board is meant for, `preset` among them; empty for that one alone.
    source : str
        Where pins come from.
    notes : tuple of str
        What users of this board must know.
    """

    name: str
    title: str
    family: str
    part: str
    order: str
    package: str = ""
    speed: str = ""
    preset: str
    clk_hz: int
    input_hz: int = 0
    memory: Memory
    link: Link
    pins: tuple[Pins, ...] = ()
    loader: tuple[str, ...] = ()
    changes: dict[str, int] = field(default_factory=dict)
    pack: tuple[str, ...] = ()
    processor: Processor | None = None
    presets: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> Config:
        """Configuration of the accelerator on this board."""
        return self.fit(dataclasses.replace(PRESETS[self.preset], name=self.name, **self.changes))

    def fit(self, config: Config) -> Config:
        """A configuration with clock and memory of this board."""
        return dataclasses.replace(config, clk_hz=self.clk_hz, memory=self.memory.dram,
                                   memory_bytes=self.memory.size_bytes)

    @property
    def vivado(self) -> bool:
        """Whether the vendor's tools build it, from a generated project."""
        return self.processor is not None

    def port(self, name: str) -> Pins:
        """The pins of a port of the top.

        Raises
        ------
        KeyError
            If the board has no such port.
        """
        for pins in self.pins:
            if pins.port == name:
                return pins
        raise KeyError(name)

"""The top of a board: link, accelerator, DRAM controller, clocks and pins.

One design in two forms: with the pins of the part, for synthesis, and with the chip's pins behind
plain registers, for simulation.
"""

import dataclasses
import re

from amaranth import *
from amaranth.back import verilog
from amaranth.hdl import Fragment
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from headrace.hw.config import Config
from headrace.hw.link.core import BoardCore
from headrace.hw.verilog import fill_memories
from headrace.sw.errors import HeadraceError

from .catalogue import Board
from .direct import attach
from .dram import GeneratedController, controller_spec, generate_controller
from .dram.controller import DDR3_PINS, Ddr3Controller, SdrController
from .dram.pads import OUTPUTS, SdrRegisters
from .ecp5 import Platform, make_pll


__all__ = ["BoardSystem", "SimulatedTop", "board_verilog", "simulated_verilog"]


class BoardSystem(wiring.Component):
    """Everything between the UART and the DRAM controller's pins.

    Parameters
    ----------
    board : Board
    config : Config
        Configuration of the accelerator.
    controller : SdrController or Ddr3Controller
        Controller of the board's memory.
    baud : int
        Bits per second of the UART.

    Members
    -------
    rx, tx : ``In(1)``, ``Out(1)``
        UART.
    ready : ``Out(1)``
        Memory can be used.
    pins : ``Out(SdrPinsSignature)``
        The controller's side of the pins; SDR SDRAM only.
    eclk, init_clk, locked : ``In(1)``
        As those of :class:`headrace.boards.dram.controller.Ddr3Controller`, where it has them.
    """

    def __init__(self, board: Board, config: Config, controller, baud: int):
        self._config, self._controller = config, controller
        self._ddr3 = isinstance(controller, Ddr3Controller)
        self._core = BoardCore(config, clk_hz=board.clk_hz, uart_baud=baud,
                               memory_bytes=board.memory.size_bytes, dram_control=self._ddr3)
        inner = {name: member for name, member in controller.signature.members.items()
                 if name in ("pins", "eclk", "init_clk", "locked")}
        self._passed = tuple(name for name in inner if name != "pins")
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "ready": Out(1), **inner})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.controller = controller = self._controller
        attach(m, self._config, core.axi, controller.axi)
        if self._ddr3:
            connect(m, core.dram_control, controller.control)
        else:
            connect(m, controller.pins, flipped(self.pins))
        for name in self._passed:
            m.d.comb += getattr(controller, name).eq(getattr(self, name))
        m.d.comb += [core.rx.eq(self.rx), self.tx.eq(core.tx), self.ready.eq(controller.ready),
                     core.memory_ready.eq(controller.ready)]
        return m


class SimulatedTop(wiring.Component):
    """The system with the pins of an SDR SDRAM as ports, or with LiteDRAM's model of DDR3 inside.

    Members
    -------
    rx, tx, ready
        As those of :class:`BoardSystem`.
    chip : ``Out(SdrPinsSignature)``
        Pins of the chip; SDR SDRAM only.
    clk2x : ``In(1)``
        Clock of the chip, in phase with the domain ``sync``; SDR SDRAM at half rate only.
    """

    def __init__(self, board: Board, config: Config, generated: GeneratedController, baud: int):
        self._sdr = generated.spec.kind == "SDR"
        controller = SdrController(generated) if self._sdr else Ddr3Controller(generated)
        # The model of DDR3 has less memory than the chip.
        size = generated.facts["size_bytes"]
        memory = dataclasses.replace(board.memory, size_bytes=min(size, board.memory.size_bytes))
        self._system = BoardSystem(dataclasses.replace(board, memory=memory), config, controller,
                                   baud)
        self._fast = self._sdr and generated.facts["ratio"] == 2
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "ready": Out(1),
                          **({"chip": Out(self._system.pins.signature)} if self._sdr else {}),
                          **({"clk2x": In(1)} if self._fast else {})})

    def elaborate(self, platform):
        m = Module()
        if self._fast:
            m.domains.fast = ClockDomain("fast", reset_less=True)
            m.d.comb += ClockSignal("fast").eq(self.clk2x)
        m.submodules.system = system = self._system
        if self._sdr:
            m.submodules.registers = registers = SdrRegisters(
                system.pins.signature, "fast" if self._fast else "sync")
            connect(m, system.pins, registers.pins)
            connect(m, registers.chip, flipped(self.chip))
        m.d.comb += [system.rx.eq(self.rx), self.tx.eq(system.tx), self.ready.eq(system.ready)]
        return m


def simulated_verilog(board: Board, config: Config, generated: GeneratedController, baud: int,
                      fill: str | int | None = None) -> str:
    """Verilog of :class:`SimulatedTop` as module ``headrace``; the controller's module is apart."""
    text = verilog.convert(SimulatedTop(board, config, generated, baud), name="headrace",
                           strip_internal_attrs=True, emit_src=False)
    return fill_memories(text, fill)


class Ecp5Top(Elaboratable):
    """The system with clocks and pins of an ECP5."""

    def __init__(self, board: Board, config: Config, generated: GeneratedController):
        self._board, self._config, self._generated = board, config, generated

    def elaborate(self, platform):
        m = Module()
        board, generated = self._board, self._generated
        sdr = generated.spec.kind == "SDR"
        if sdr:
            controller = SdrController(generated)
        else:
            controller = Ddr3Controller(generated, {
                name: platform.port(f"ddram_{name}").io for name in DDR3_PINS})
        m.submodules.system = system = BoardSystem(board, self._config, controller,
                                                   board.link.baud)
        held, fast, slow = self._clocks(m, platform)
        if sdr:
            m.d.comb += ClockSignal("sync").eq(slow)
            m.submodules.reset = ResetSynchronizer(held, domain="sync")
            self._chip(m, platform, system.pins, fast)
        else:
            m.d.comb += [system.eclk.eq(fast), system.init_clk.eq(slow), system.locked.eq(~held)]

        m.submodules.rx = rx = io.Buffer("i", platform.port("uart_rx"))
        m.submodules.tx = tx = io.Buffer("o", platform.port("uart_tx"))
        m.d.comb += [system.rx.eq(rx.i), tx.o.eq(system.tx)]
        for pins in board.pins:
            if pins.level is not None:
                buffer = io.Buffer("o", platform.port(pins.port))
                m.submodules[pins.port] = buffer
                m.d.comb += buffer.o.eq(Const(pins.level).replicate(len(pins.sites)))
        self._lights(m, platform, system)
        return m

    def _clocks(self, m, platform):
        """Whether all is held in reset, the clock of the DRAM, and a slower one.

        That is the clock of ``sync`` with SDR SDRAM. With DDR3, whose controller makes the clock
        of ``sync`` from the DRAM's, it only starts the PHY.
        """
        board, spec = self._board, self._generated.spec
        m.submodules.clk = clk = io.Buffer("i", platform.port("clk"))
        m.domains.sync = ClockDomain("sync")
        fast, slow = Signal(name="pll_fast"), Signal(name="pll_slow")
        slow_hz = board.clk_hz if spec.kind == "SDR" else board.clk_hz // 3
        m.submodules.pll, locked = make_pll(clk.i, board.input_hz, (fast, spec.dram_hz),
                                            (slow, slow_hz))
        held = ~locked
        for pins in board.pins:
            if pins.port in ("reset_button", "reset_button_n"):
                m.submodules.reset_button = button = io.Buffer("i", platform.port(pins.port))
                held = held | (button.i ^ pins.port.endswith("_n"))
        return held, fast, slow

    def _chip(self, m, platform, pins, fast):
        """The pins of the DRAM: registers in their cells, and the clock half a period late."""
        domain = "fast"
        m.domains.fast = ClockDomain("fast", reset_less=True)
        m.d.comb += ClockSignal("fast").eq(fast)
        for name in OUTPUTS:
            buffer = io.FFBuffer("o", platform.port(f"sdram_{name}"), o_domain=domain)
            m.submodules[f"sdram_{name}"] = buffer
            m.d.comb += buffer.o.eq(getattr(pins, name))
        dq = io.FFBuffer("io", platform.port("sdram_dq"), i_domain=domain, o_domain=domain)
        m.submodules.sdram_dq = dq
        m.d.comb += [dq.o.eq(pins.dq_o), dq.oe.eq(pins.dq_oe[0]), pins.dq_i.eq(dq.i)]
        # What registers drive has half a period until the chip takes it.
        clock = io.DDRBuffer("o", platform.port("sdram_clock"), o_domain=domain)
        m.submodules.sdram_clock = clock
        m.d.comb += [clock.o[0].eq(0), clock.o[1].eq(1)]

    def _lights(self, m, platform, system):
        """Lights, where there are some: memory is ready; the UART is busy."""
        for pins in self._board.pins:
            if pins.port in ("led", "led_n"):
                lights = Signal(len(pins.sites))
                shown = Cat(system.ready, ~system.rx, ~system.tx)
                m.submodules.led = led = io.Buffer("o", platform.port(pins.port))
                m.d.comb += [lights.eq(shown),
                             led.o.eq(~lights if pins.port.endswith("_n") else lights)]


def board_verilog(board: Board, config: Config | None = None) -> str:
    """Verilog of a board's top, module ``top`` with the ports of `board.pins`, and all below it.

    Raises
    ------
    HeadraceError
        The board's memory has no controller here, or its clocks cannot be made.
    """
    if board.family != "ecp5":
        raise HeadraceError(f"board {board.name}: no top for family {board.family}: expected ecp5")
    config = config or board.config
    spec = controller_spec(board)
    if spec.kind == "SDR" and spec.ratio != 2:
        # At full rate the PHY wants the chip's clock a quarter of a period late.
        raise HeadraceError(f"board {board.name}: SDR SDRAM at {spec.rate}: the top for an ECP5 "
                            f"has half rate only, 1:2")
    generated = generate_controller(spec)
    platform = Platform(board)
    top = Ecp5Top(board, config, generated)
    # Pins become ports as the design asks for them, so it is elaborated first.
    fragment = Fragment.get(top, platform)
    text = verilog.convert(fragment, name="top", platform=platform, strip_internal_attrs=True,
                           emit_src=False,
                           ports={name: (port, None) for name, port in platform.ports.items()})
    return re.sub(r"\n{3,}", "\n\n", fill_memories(text, None) + "\n" + generated.verilog)

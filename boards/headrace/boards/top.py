"""The top of a board: link, accelerator, DRAM controller, clocks and pins.

One design in two forms: with the pins of the part, for synthesis, and with the chip's pins behind
plain registers, for simulation.
"""

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
from .dram.controller import SdrController
from .dram.pads import OUTPUTS, SdrRegisters
from .ecp5 import Platform, make_pll


__all__ = ["BoardSystem", "SimulatedTop", "board_verilog", "simulated_verilog"]


class BoardSystem(wiring.Component):
    """Everything between the UART and the registers of the chip's pins.

    Parameters
    ----------
    board : Board
    config : Config
        Configuration of the accelerator.
    generated : GeneratedController
        Controller of the board's memory.
    baud : int
        Bits per second of the UART.

    Members
    -------
    rx, tx : ``In(1)``, ``Out(1)``
        UART.
    pins : ``Out(SdrPinsSignature)``
        The controller's side of the pins.
    ready : ``Out(1)``
        Memory can be used.
    """

    def __init__(self, board: Board, config: Config, generated: GeneratedController, baud: int):
        self._config = config
        self._core = BoardCore(config, clk_hz=board.clk_hz, uart_baud=baud,
                               memory_bytes=board.memory.size_bytes, dram_control=False)
        self._controller = SdrController(generated)
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "ready": Out(1),
                          "pins": Out(self._controller.pins.signature)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.controller = controller = self._controller
        attach(m, self._config, core.axi, controller.axi)
        connect(m, controller.pins, flipped(self.pins))
        m.d.comb += [core.rx.eq(self.rx), self.tx.eq(core.tx), self.ready.eq(controller.ready),
                     core.memory_ready.eq(controller.ready)]
        return m


class SimulatedTop(wiring.Component):
    """The system with the chip's pins as ports.

    Members
    -------
    rx, tx, ready
        As those of :class:`BoardSystem`.
    chip : ``Out(SdrPinsSignature)``
        Pins of the chip.
    clk2x : ``In(1)``
        Clock of the chip, in phase with the domain ``sync``; at half rate only.
    """

    def __init__(self, board: Board, config: Config, generated: GeneratedController, baud: int):
        self._system = BoardSystem(board, config, generated, baud)
        self._fast = generated.facts["ratio"] == 2
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1), "ready": Out(1),
                          "chip": Out(self._system.pins.signature),
                          **({"clk2x": In(1)} if self._fast else {})})

    def elaborate(self, platform):
        m = Module()
        if self._fast:
            m.domains.fast = ClockDomain("fast", reset_less=True)
            m.d.comb += ClockSignal("fast").eq(self.clk2x)
        m.submodules.system = system = self._system
        m.submodules.registers = registers = SdrRegisters(system.pins.signature,
                                                          "fast" if self._fast else "sync")
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
        self._board, self._generated = board, generated
        self._system = BoardSystem(board, config, generated, board.link.baud)

    def elaborate(self, platform):
        m = Module()
        board = self._board
        self._clocks(m, platform)
        m.submodules.system = system = self._system

        m.submodules.rx = rx = io.Buffer("i", platform.port("uart_rx"))
        m.submodules.tx = tx = io.Buffer("o", platform.port("uart_tx"))
        m.d.comb += [system.rx.eq(rx.i), tx.o.eq(system.tx)]
        self._chip(m, platform, system.pins)
        for pins in board.pins:
            if pins.level is not None:
                buffer = io.Buffer("o", platform.port(pins.port))
                m.submodules[pins.port] = buffer
                m.d.comb += buffer.o.eq(Const(pins.level).replicate(len(pins.sites)))
        self._lights(m, platform, system)
        return m

    def _clocks(self, m, platform):
        """Domains ``sync`` and ``fast``, in phase, from the board's oscillator."""
        board, spec = self._board, self._generated.spec
        m.submodules.clk = clk = io.Buffer("i", platform.port("clk"))
        m.domains.sync = ClockDomain("sync")
        fast = Signal()
        slow = Signal()
        m.submodules.pll, locked = make_pll(clk.i, board.input_hz, (fast, spec.dram_hz),
                                            (slow, board.clk_hz))
        m.d.comb += ClockSignal("sync").eq(slow)
        if spec.ratio == 2:
            m.domains.fast = ClockDomain("fast", reset_less=True)
            m.d.comb += ClockSignal("fast").eq(fast)
        held = ~locked
        for pins in board.pins:
            if pins.port in ("reset_button", "reset_button_n"):
                m.submodules.reset_button = button = io.Buffer("i", platform.port(pins.port))
                held = held | (button.i ^ pins.port.endswith("_n"))
        m.submodules.reset = ResetSynchronizer(held, domain="sync")

    def _chip(self, m, platform, pins):
        """The pins of the DRAM: registers in their cells, and the clock half a period late."""
        domain = "fast" if self._generated.spec.ratio == 2 else "sync"
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
    generated = generate_controller(controller_spec(board))
    platform = Platform(board)
    top = Ecp5Top(board, config, generated)
    # Pins become ports as the design asks for them, so it is elaborated first.
    fragment = Fragment.get(top, platform)
    text = verilog.convert(fragment, name="top", platform=platform, strip_internal_attrs=True,
                           emit_src=False,
                           ports={name: (port, None) for name, port in platform.ports.items()})
    return re.sub(r"\n{3,}", "\n\n", fill_memories(text, None) + "\n" + generated.verilog)

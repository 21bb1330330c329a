"""The accelerator and a board's DRAM controller, and nothing between host and accelerator.

What measures the memory: the control port and the interrupt are ports of the top.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from headrace.hw.axi import AXI4LiteSignature
from headrace.hw.bridge import make_bridge
from headrace.hw.config import Config
from headrace.hw.control.control import ADDR_BITS
from headrace.hw.device import Headrace
from headrace.hw.emission import to_verilog

from .dram.controller import SdrController
from .dram.generated import GeneratedController
from .dram.pads import SdrRegisters


__all__ = ["Direct", "attach", "direct_verilog"]


def attach(m: Module, config: Config, initiator, memory) -> None:
    """Connect a port of the accelerator's width to a memory of any width."""
    source, target = initiator.signature, memory.signature
    m.submodules.bridge = bridge = make_bridge(
        source.addr_bits, source.data_bits, target.addr_bits, target.data_bits,
        max_beats=config.burst_beats, outstanding=config.outstanding)
    connect(m, initiator, bridge.i)
    connect(m, bridge.o, memory)


class Direct(wiring.Component):
    """Accelerator, controller and registers of the pins.

    Parameters
    ----------
    config : Config
        Configuration of the accelerator.
    generated : GeneratedController
        Controller of the memory.

    Members
    -------
    ctrl, irq
        As those of :class:`headrace.hw.device.Headrace`.
    chip : ``Out(SdrPinsSignature)``
        Pins of the chip.
    clk2x : ``In(1)``
        Clock of the chip, in phase with the domain ``sync``; at half rate only.
    """

    def __init__(self, config: Config, generated: GeneratedController):
        self._config, self._generated = config, generated
        self._controller = SdrController(generated)
        self._ratio = generated.facts["ratio"]
        super().__init__({
            "ctrl": In(AXI4LiteSignature(ADDR_BITS)), "irq": Out(1),
            "chip": Out(self._controller.pins.signature),
            **({"clk2x": In(1)} if self._ratio == 2 else {}),
        })

    def elaborate(self, platform):
        m = Module()
        if self._ratio == 2:
            m.domains.fast = ClockDomain("fast", reset_less=True)
            m.d.comb += ClockSignal("fast").eq(self.clk2x)

        m.submodules.accelerator = accelerator = Headrace(self._config)
        m.submodules.controller = controller = self._controller
        m.submodules.registers = registers = SdrRegisters(
            controller.pins.signature, "fast" if self._ratio == 2 else "sync")
        connect(m, flipped(self.ctrl), accelerator.ctrl)
        connect(m, controller.pins, registers.pins)
        connect(m, registers.chip, flipped(self.chip))
        m.d.comb += self.irq.eq(accelerator.irq)
        attach(m, self._config, accelerator.axi, controller.axi)
        return m


def direct_verilog(config: Config, generated: GeneratedController,
                   fill: str | int | None = None) -> str:
    """Verilog of :class:`Direct` as module ``headrace``; the controller's module is apart."""
    return to_verilog(Direct(config, generated), "headrace", fill)

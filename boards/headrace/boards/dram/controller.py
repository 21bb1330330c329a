"""Generated controllers as components."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from headrace.hw.axi import AXI4LiteSignature, AXI4Signature
from headrace.hw.link.map import DRAM

from .generated import GeneratedController
from .port import port_arguments
from .registers import RegisterBridge
from .start import Start


__all__ = ["DDR3_PINS", "Ddr3Controller", "SdrController", "SdrPinsSignature"]


#: Pins of a DDR3 chip; of differential pairs the true side only.
DDR3_PINS = ("a", "ba", "ras_n", "cas_n", "we_n", "cs_n", "dm", "dq", "dqs_p", "clk_p", "cke",
             "odt", "reset_n")


#: Width of addresses of a controller's registers.
_CONTROL_BITS = DRAM.addr_bits


class SdrPinsSignature(wiring.Signature):
    """Registers of the pins of an SDR SDRAM, from the controller's side.

    What a register is to drive from the next rising edge of the DRAM's clock on, and in `dq_i`
    what one has captured at the last.
    """

    def __init__(self, a_bits: int, ba_bits: int, data_bits: int):
        super().__init__({
            "a": Out(a_bits), "ba": Out(ba_bits), "cs_n": Out(1), "ras_n": Out(1),
            "cas_n": Out(1), "we_n": Out(1), "cke": Out(1), "dm": Out(data_bits // 8),
            "dq_o": Out(data_bits), "dq_oe": Out(data_bits), "dq_i": In(data_bits),
        })


class SdrController(wiring.Component):
    """LiteDRAM's controller of an SDR SDRAM, which starts the chip by itself.

    Until `ready` the chip gets the commands that LiteDRAM's own module of initialisation lists,
    while the controller is held in reset. Domains: ``sync``, and at half rate ``fast``, in phase
    with it and twice as fast.

    Parameters
    ----------
    generated : GeneratedController

    Members
    -------
    axi : ``In(AXI4Signature(addr_bits, data_bits))``
        Memory; responses come in the order of requests, and are always OKAY.
    pins : ``Out(SdrPinsSignature(...))``
        Registers of the chip's pins, in the domain of the DRAM's clock.
    ready : ``Out(1)``
        The chip has been started.
    """

    def __init__(self, generated: GeneratedController):
        self._facts = facts = generated.facts
        super().__init__({
            "axi": In(AXI4Signature(facts["addr_bits"], facts["data_bits"])),
            "pins": Out(SdrPinsSignature(facts["a_bits"], facts["ba_bits"],
                                         generated.spec.data_bits)),
            "ready": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        facts = self._facts

        m.submodules.start = start = Start(facts["start"], facts["a_bits"], facts["ba_bits"])
        m.d.comb += self.ready.eq(start.done)

        pins = {f"o_sdram_{name}": getattr(self.pins, name)
                for name in ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n", "cke", "dm", "dq_o",
                             "dq_oe")}
        m.submodules.litedram = Instance(
            "litedram", i_clk=ClockSignal(), i_rst=ResetSignal(), i_hold=~start.done,
            **({"i_clk2x": ClockSignal("fast")} if facts["ratio"] == 2 else {}),
            **port_arguments(m, self.axi, start.done, facts["buffer_words"]),
            **{f"i_start_{name}": start.command[name]
               for name in ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n", "cke")},
            **pins, i_sdram_dq_i=self.pins.dq_i)
        return m


class Ddr3Controller(wiring.Component):
    """LiteDRAM's controller of a DDR3 chip on an ECP5, started and trained by the host.

    Without pins it holds LiteDRAM's model of PHY and chip, in the domain ``sync``. With pins it
    makes that domain, from a clock of twice its frequency.

    Parameters
    ----------
    generated : GeneratedController
    pins : dict of str to IOPort, optional
        Pins of the chip by name, see :data:`DDR3_PINS`.

    Members
    -------
    axi : ``In(AXI4Signature(addr_bits, data_bits))``
        Memory; responses come in the order of requests, and are always OKAY.
    control : ``In(AXI4LiteSignature(16))``
        Registers of controller and PHY, at the addresses in `generated.facts`.
    ready : ``Out(1)``
        The host has said that the chip can be used.
    eclk, init_clk, locked : ``In(1)``
        Only with pins: twice the clock, any slow clock, whether they are good.
    """

    def __init__(self, generated: GeneratedController, pins=None):
        self._facts, self._pins = generated.facts, pins
        if generated.spec.model != (pins is None):
            raise ValueError("a DDR3 controller has either pins or the model of PHY and chip")
        clocks = ("eclk", "init_clk", "locked") if pins is not None else ()
        super().__init__({
            "axi": In(AXI4Signature(self._facts["addr_bits"], self._facts["data_bits"])),
            "control": In(AXI4LiteSignature(_CONTROL_BITS)), "ready": Out(1),
            **{name: In(1) for name in clocks},
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = RegisterBridge(_CONTROL_BITS)
        connect(m, flipped(self.control), registers.axi)
        bus = registers.bus
        arguments = port_arguments(m, self.axi, self.ready, self._facts["buffer_words"])
        if self._pins is None:
            arguments |= {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        else:
            arguments |= {f"i_{name}": getattr(self, name)
                          for name in ("eclk", "init_clk", "locked")}
            clk, rst = Signal(name="user_clk"), Signal(name="user_rst")
            m.d.comb += [ClockSignal().eq(clk), ResetSignal().eq(rst)]
            arguments |= {"o_user_clk": clk, "o_user_rst": rst,
                          **{f"io_ddram_{name}": self._pins[name] for name in DDR3_PINS}}
        m.submodules.litedram = Instance(
            "litedram", o_ready=self.ready, i_csr_adr=bus.adr, i_csr_re=bus.re, i_csr_we=bus.we,
            i_csr_dat_w=bus.dat_w, o_csr_dat_r=bus.dat_r, **arguments)
        return m

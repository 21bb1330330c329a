"""A generated controller of SDR SDRAM as a component."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from headrace.hw.axi import AXI4Signature

from .generated import GeneratedController
from .start import Start


__all__ = ["SdrController", "SdrPinsSignature"]


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

        # LiteDRAM loses responses of writes that find its buffer full: no more are let in. While
        # it is held in reset it says ready, and loses what it takes.
        owed = Signal(range(facts["buffer_words"] + 1))
        allowed = {"aw": start.done & (owed != facts["buffer_words"]), "w": start.done,
                   "ar": start.done}
        valid, ready = {}, {}
        for channel, condition in allowed.items():
            valid[channel] = getattr(self.axi, f"{channel}valid") & condition
            ready[channel] = Signal(name=f"{channel}ready")
            m.d.comb += getattr(self.axi, f"{channel}ready").eq(ready[channel] & condition)
        m.d.sync += owed.eq(owed + (self.axi.awvalid & self.axi.awready)
                            - (self.axi.bvalid & self.axi.bready))

        channels = {"i": ("awaddr", "awlen", "awsize", "awburst", "awid", "wdata", "wstrb",
                          "wlast", "bready", "araddr", "arlen", "arsize", "arburst", "arid",
                          "rready"),
                    "o": ("bvalid", "bid", "bresp", "rvalid", "rid", "rdata", "rresp", "rlast")}
        pins = {f"o_sdram_{name}": getattr(self.pins, name)
                for name in ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n", "cke", "dm", "dq_o",
                             "dq_oe")}
        m.submodules.litedram = Instance(
            "litedram", i_clk=ClockSignal(), i_rst=ResetSignal(), i_hold=~start.done,
            **({"i_clk2x": ClockSignal("fast")} if facts["ratio"] == 2 else {}),
            **{f"i_axi_{channel}valid": valid[channel] for channel in allowed},
            **{f"o_axi_{channel}ready": ready[channel] for channel in allowed},
            **{f"{side}_axi_{name}": getattr(self.axi, name)
               for side, names in channels.items() for name in names},
            **{f"i_start_{name}": start.command[name]
               for name in ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n", "cke")},
            **pins, i_sdram_dq_i=self.pins.dq_i)
        return m

"""Registers between a controller and the pins of an SDR SDRAM."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .controller import SdrPinsSignature


__all__ = ["OUTPUTS", "SdrRegisters"]


#: Pins that the controller only drives, with their registers' content before the first clock.
OUTPUTS = {"a": 0, "ba": 0, "cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1, "cke": 0, "dm": 0}


class SdrRegisters(wiring.Component):
    """The registers of the pins in plain logic, as a simulation has them.

    Parameters
    ----------
    signature : SdrPinsSignature
        The controller's side.
    domain : str
        Domain of the DRAM's clock.

    Members
    -------
    pins : ``In(SdrPinsSignature)``
        The controller.
    chip : ``Out(SdrPinsSignature)``
        The chip; `dq_o` is on the bus where `dq_oe` is high.
    """

    def __init__(self, signature: SdrPinsSignature, domain: str):
        self._domain = domain
        super().__init__({"pins": In(signature), "chip": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        domain = m.d[self._domain]
        for name, init in {**OUTPUTS, "dq_o": 0, "dq_oe": 0}.items():
            source = getattr(self.pins, name)
            register = Signal(source.shape(), name=name, init=init, reset_less=True)
            domain += register.eq(source)
            m.d.comb += getattr(self.chip, name).eq(register)
        captured = Signal.like(self.pins.dq_i, name="dq_i", reset_less=True)
        domain += captured.eq(self.chip.dq_i)
        m.d.comb += self.pins.dq_i.eq(captured)
        return m

"""Ports of the Verilog module, from the signatures that the RTL has."""

from dataclasses import dataclass

from amaranth.lib.wiring import Out

from ..axi import AXI4LiteSignature, AXI4Signature
from ..config import Config
from ..control.control import ADDR_BITS


__all__ = ["CTRL", "MEMORY", "Port", "ports"]


#: Prefixes of the ports of the two buses.
MEMORY, CTRL = "axi", "ctrl"


@dataclass(frozen=True)
class Port:
    """One port of the module.

    Attributes
    ----------
    name : str
        Name in Verilog.
    is_input : bool
        Its direction.
    bits : int
        Its width.
    bus, signal : str
        Bus that it belongs to and its name there, in lower case; empty for a port of its own.
    """

    name: str
    is_input: bool
    bits: int
    bus: str = ""
    signal: str = ""


def ports(config: Config) -> list[Port]:
    """Every port of module ``headrace``, in the order of the buses' signatures."""
    found = [Port("clk", True, 1), Port("rst", True, 1), Port("irq", False, 1)]
    # Signatures are from the initiator's side, which the accelerator is on the memory bus only.
    for bus, signature, initiator in (
            (CTRL, AXI4LiteSignature(ADDR_BITS), False),
            (MEMORY, AXI4Signature(config.addr_bits, config.port_bits), True)):
        for signal, member in signature.members.items():
            found.append(Port(f"{bus}__{signal}", (member.flow == Out) != initiator,
                              member.shape, bus, signal))
    return found

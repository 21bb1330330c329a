"""AXI4 to AXI4 of the same width: higher address bits are dropped."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import AXI4Signature


__all__ = ["FROM_FAR", "TO_FAR", "Same", "pass_through"]


#: Signals by channel, in the direction of the channel's payload, without its handshake.
TO_FAR = {"aw": ("addr", "len", "size", "burst", "id"), "w": ("data", "strb", "last"),
          "ar": ("addr", "len", "size", "burst", "id")}
FROM_FAR = {"b": ("id", "resp"), "r": ("id", "data", "resp", "last")}


def pass_through(m, i, o, *channels: str, but: tuple[str, ...] = ()) -> None:
    """Connect whole channels of two ports, except for the signals in `but`."""
    for channel in channels:
        there = channel in TO_FAR
        source, target = (i, o) if there else (o, i)
        for name in ("valid", *(TO_FAR[channel] if there else FROM_FAR[channel])):
            if channel + name not in but:
                m.d.comb += getattr(target, channel + name).eq(getattr(source, channel + name))
        if f"{channel}ready" not in but:
            m.d.comb += getattr(source, f"{channel}ready").eq(getattr(target, f"{channel}ready"))


class Same(wiring.Component):
    """Wires.

    Members
    -------
    i : ``In(AXI4Signature(i_addr_bits, data_bits))``
        Initiator.
    o : ``Out(AXI4Signature(o_addr_bits, data_bits))``
        Memory.
    """

    def __init__(self, i_addr_bits: int, o_addr_bits: int, data_bits: int):
        super().__init__({"i": In(AXI4Signature(i_addr_bits, data_bits)),
                          "o": Out(AXI4Signature(o_addr_bits, data_bits))})

    def elaborate(self, platform):
        m = Module()
        pass_through(m, self.i, self.o, "aw", "w", "b", "ar", "r")
        return m

"""AXI4 from a wide initiator to a narrow memory."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import AXI4Signature
from .same import pass_through


__all__ = ["Narrow"]


class Narrow(wiring.Component):
    """Each beat of the initiator becomes `ratio` beats of the memory, in the same burst.

    Latency: none; of a read, the beat leaves with the last of its parts. Bursts are INCR, of full
    width and aligned to it. The worst response of the parts is that of the beat.

    Parameters
    ----------
    i_addr_bits, i_data_bits, o_addr_bits, o_data_bits : int
        Widths of the ports.
    max_beats : int
        Longest burst of the initiator; ``max_beats * ratio`` must be at most 256.

    Members
    -------
    i : ``In(AXI4Signature(i_addr_bits, i_data_bits))``
        Initiator.
    o : ``Out(AXI4Signature(o_addr_bits, o_data_bits))``
        Memory.
    """

    def __init__(self, i_addr_bits: int, i_data_bits: int, o_addr_bits: int, o_data_bits: int, *,
                 max_beats: int):
        self.ratio, rest = divmod(i_data_bits, o_data_bits)
        if rest or self.ratio < 2 or self.ratio & (self.ratio - 1):
            raise ValueError(f"{i_data_bits} bits to {o_data_bits}: the first must be the second "
                             f"times a power of two above 1")
        if max_beats * self.ratio > 256:
            raise ValueError(f"bursts of {max_beats} beats of {i_data_bits} bits have "
                             f"{max_beats * self.ratio} of {o_data_bits}: AXI4 allows 256; make "
                             f"burst_beats at most {256 // self.ratio}")
        super().__init__({"i": In(AXI4Signature(i_addr_bits, i_data_bits)),
                          "o": Out(AXI4Signature(o_addr_bits, o_data_bits))})

    def elaborate(self, platform):
        m = Module()
        i, o, last = self.i, self.o, self.ratio - 1
        size = (len(o.wdata) // 8).bit_length() - 1

        for channel in ("aw", "ar"):
            pass_through(m, i, o, channel, but=(f"{channel}len", f"{channel}size"))
            m.d.comb += [
                getattr(o, f"{channel}len").eq(getattr(i, f"{channel}len") * self.ratio + last),
                getattr(o, f"{channel}size").eq(size)]
        pass_through(m, i, o, "b")

        part = Signal(range(self.ratio))
        at_end = part == last
        m.d.comb += [
            o.wvalid.eq(i.wvalid), i.wready.eq(o.wready & at_end),
            o.wdata.eq(i.wdata.word_select(part, len(o.wdata))),
            o.wstrb.eq(i.wstrb.word_select(part, len(o.wstrb))),
            o.wlast.eq(i.wlast & at_end)]
        with m.If(o.wvalid & o.wready):
            m.d.sync += part.eq(part + 1)

        parts = [Signal(len(o.rdata), name=f"part_{index}") for index in range(last)]
        count = Signal(range(self.ratio))
        worst = Signal(2)
        whole = count == last
        response = Mux(o.rresp > worst, o.rresp, worst)
        m.d.comb += [
            i.rvalid.eq(o.rvalid & whole), o.rready.eq(i.rready | ~whole),
            i.rdata.eq(Cat(*parts, o.rdata)), i.rid.eq(o.rid), i.rlast.eq(o.rlast),
            i.rresp.eq(response)]
        with m.If(o.rvalid & o.rready):
            m.d.sync += [count.eq(count + 1), worst.eq(Mux(whole, 0, response))]
            for index, register in enumerate(parts):
                with m.If(count == index):
                    m.d.sync += register.eq(o.rdata)
        return m

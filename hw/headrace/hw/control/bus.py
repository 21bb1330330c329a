"""AXI4-Lite slave in front of registers."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import RESP_OKAY, AXI4LiteSignature


__all__ = ["RESP_SLVERR", "RegisterBus"]


RESP_SLVERR = 2


class RegisterBus(wiring.Component):
    """One write and one read at a time, independent of each other.

    Address and data of a write come in any order. The low two bits of addresses are ignored.

    Parameters
    ----------
    addr_bits : int
        Width of byte addresses.

    Members
    -------
    axi : ``In(AXI4LiteSignature(addr_bits))``
        The bus.
    write_stb, write_word, write_data, write_strb : ``Out``
        A write, for one cycle, to word `write_word`.
    write_error : ``In(1)``
        In the same cycle: answer SLVERR.
    read, read_word : ``Out``
        A read, until `read_done`.
    read_done, read_data, read_error : ``In``
        Answer; with `read_error` it is SLVERR and the data are 0.
    """
    def __init__(self, addr_bits):
        super().__init__({
            "axi": In(AXI4LiteSignature(addr_bits)),
            "write_stb": Out(1), "write_word": Out(addr_bits - 2), "write_data": Out(32),
            "write_strb": Out(4), "write_error": In(1),
            "read": Out(1), "read_word": Out(addr_bits - 2),
            "read_done": In(1), "read_data": In(32), "read_error": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        axi = self.axi

        has_addr, has_data = Signal(), Signal()
        m.d.comb += [
            axi.awready.eq(~has_addr), axi.wready.eq(~has_data),
            self.write_stb.eq(has_addr & has_data & ~axi.bvalid),
        ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [has_addr.eq(1), self.write_word.eq(axi.awaddr[2:])]
        with m.If(axi.wvalid & axi.wready):
            m.d.sync += [has_data.eq(1), self.write_data.eq(axi.wdata),
                         self.write_strb.eq(axi.wstrb)]
        with m.If(self.write_stb):
            m.d.sync += [has_addr.eq(0), has_data.eq(0), axi.bvalid.eq(1),
                         axi.bresp.eq(Mux(self.write_error, RESP_SLVERR, RESP_OKAY))]
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += axi.bvalid.eq(0)

        m.d.comb += axi.arready.eq(~self.read & ~axi.rvalid)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [self.read.eq(1), self.read_word.eq(axi.araddr[2:])]
        with m.If(self.read & self.read_done):
            m.d.sync += [
                self.read.eq(0), axi.rvalid.eq(1),
                axi.rdata.eq(Mux(self.read_error, 0, self.read_data)),
                axi.rresp.eq(Mux(self.read_error, RESP_SLVERR, RESP_OKAY)),
            ]
        with m.If(axi.rvalid & axi.rready):
            m.d.sync += axi.rvalid.eq(0)

        return m

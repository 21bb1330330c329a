"""Registers of a generated controller behind AXI4-Lite."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from headrace.hw.axi import AXI4LiteSignature


__all__ = ["RegisterBridge", "RegisterBusSignature"]


class RegisterBusSignature(wiring.Signature):
    """LiteX' register bus: words of 32 bits; what is read comes a cycle after its address."""

    def __init__(self, addr_bits: int):
        super().__init__({"adr": Out(addr_bits), "re": Out(1), "we": Out(1), "dat_w": Out(32),
                          "dat_r": In(32)})


class RegisterBridge(wiring.Component):
    """AXI4-Lite to LiteX' register bus: one access at a time, whole words, always OKAY.

    Latency: 2 cycles.

    Members
    -------
    axi : ``In(AXI4LiteSignature(addr_bits))``
        Byte addresses.
    bus : ``Out(RegisterBusSignature(addr_bits - 2))``
        Word addresses.
    """

    def __init__(self, addr_bits: int):
        super().__init__({"axi": In(AXI4LiteSignature(addr_bits)),
                          "bus": Out(RegisterBusSignature(addr_bits - 2))})

    def elaborate(self, platform):
        m = Module()
        axi, bus = self.axi, self.bus
        write = axi.awvalid & axi.wvalid
        m.d.comb += [bus.adr.eq(Mux(write, axi.awaddr[2:], axi.araddr[2:])),
                     bus.dat_w.eq(axi.wdata)]
        with m.FSM(name="access"):
            with m.State("IDLE"):
                with m.If(write):
                    m.d.comb += [bus.we.eq(1), axi.awready.eq(1), axi.wready.eq(1)]
                    m.d.sync += axi.bvalid.eq(1)
                    m.next = "WRITTEN"
                with m.Elif(axi.arvalid):
                    m.d.comb += [bus.re.eq(1), axi.arready.eq(1)]
                    m.next = "READ"
            with m.State("WRITTEN"):
                with m.If(axi.bready):
                    m.d.sync += axi.bvalid.eq(0)
                    m.next = "IDLE"
            with m.State("READ"):
                m.d.sync += [axi.rdata.eq(bus.dat_r), axi.rvalid.eq(1)]
                m.next = "ANSWER"
            with m.State("ANSWER"):
                with m.If(axi.rready):
                    m.d.sync += axi.rvalid.eq(0)
                    m.next = "IDLE"
        return m

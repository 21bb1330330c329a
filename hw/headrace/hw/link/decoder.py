"""AXI4-Lite from one master to several slaves, by address."""

from collections.abc import Sequence

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import AXI4LiteSignature
from .map import Region


__all__ = ["Decoder", "RESP_DECERR"]


RESP_DECERR = 3


class Decoder(wiring.Component):
    """One write and one read at a time, independent of each other.

    Addresses outside all regions are answered with DECERR, and read as 0.

    Parameters
    ----------
    regions : sequence of Region
        A slave for each.

    Members
    -------
    bus : ``In(AXI4LiteSignature(32))``
        The master.
    <name of a region> : ``Out(AXI4LiteSignature(region.addr_bits))``
        A slave; it sees addresses from the beginning of the region.
    """
    def __init__(self, regions: Sequence[Region]):
        for region in regions:
            if region.size & (region.size - 1) or region.base % region.size:
                raise ValueError(f"region {region.name!r}: expected a power of two as size and a "
                                 f"multiple of it as base, not {region.size:#x} and "
                                 f"{region.base:#x}")
        self._regions = regions
        super().__init__({
            "bus": In(AXI4LiteSignature(32)),
            **{region.name: Out(AXI4LiteSignature(region.addr_bits)) for region in regions},
        })

    def _selects(self, address):
        return Cat(address[region.addr_bits:] == region.base >> region.addr_bits
                   for region in self._regions)

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        slaves = [getattr(self, region.name) for region in self._regions]
        nobody = len(slaves)             # the bit beside the slaves: no region

        write, read = Signal(nobody + 1), Signal(nobody + 1)
        with m.If(write == 0):
            with m.If(bus.awvalid):
                selects = Signal(nobody)
                m.d.comb += selects.eq(self._selects(bus.awaddr))
                m.d.sync += write.eq(Cat(selects, ~selects.any()))
        with m.Elif(bus.bvalid & bus.bready):
            m.d.sync += write.eq(0)
        with m.If(read == 0):
            with m.If(bus.arvalid):
                selects = Signal(nobody)
                m.d.comb += selects.eq(self._selects(bus.araddr))
                m.d.sync += read.eq(Cat(selects, ~selects.any()))
        with m.Elif(bus.rvalid & bus.rready):
            m.d.sync += read.eq(0)

        # Each part of a write passes once.
        has_addr, has_data = Signal(), Signal()
        m.d.sync += [
            has_addr.eq((write != 0) & (has_addr | (bus.awvalid & bus.awready))
                        & ~(bus.bvalid & bus.bready)),
            has_data.eq((write != 0) & (has_data | (bus.wvalid & bus.wready))
                        & ~(bus.bvalid & bus.bready)),
        ]
        sent = Signal()                  # the address of the read has passed
        m.d.sync += sent.eq((read != 0) & (sent | (bus.arvalid & bus.arready))
                            & ~(bus.rvalid & bus.rready))

        for index, slave in enumerate(slaves):
            m.d.comb += [
                slave.awaddr.eq(bus.awaddr), slave.wdata.eq(bus.wdata), slave.wstrb.eq(bus.wstrb),
                slave.awprot.eq(bus.awprot), slave.araddr.eq(bus.araddr),
                slave.arprot.eq(bus.arprot),
                slave.awvalid.eq(write[index] & bus.awvalid & ~has_addr),
                slave.wvalid.eq(write[index] & bus.wvalid & ~has_data),
                slave.bready.eq(write[index] & bus.bready),
                slave.arvalid.eq(read[index] & bus.arvalid & ~sent),
                slave.rready.eq(read[index] & bus.rready),
            ]

        def any_of(selected, name, own):
            picked = [Mux(selected[index], getattr(slave, name), 0)
                      for index, slave in enumerate(slaves)]
            result = selected[nobody] & own
            for value in picked:
                result = result | value
            return result

        m.d.comb += [
            bus.awready.eq(any_of(write, "awready", 1) & ~has_addr),
            bus.wready.eq(any_of(write, "wready", 1) & ~has_data),
            bus.bvalid.eq(any_of(write, "bvalid", has_addr & has_data)),
            bus.bresp.eq(any_of(write, "bresp", 0) | Mux(write[nobody], RESP_DECERR, 0)),
            bus.arready.eq(any_of(read, "arready", 1) & ~sent),
            bus.rvalid.eq(any_of(read, "rvalid", sent)),
            bus.rresp.eq(any_of(read, "rresp", 0) | Mux(read[nobody], RESP_DECERR, 0)),
            bus.rdata.eq(any_of(read, "rdata", 0)),
        ]
        return m

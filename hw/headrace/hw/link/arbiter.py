"""One memory port for the accelerator and those beside it."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import ID_BITS, AXI4Signature
from ..config import CLASSES


__all__ = ["Arbiter", "IDS"]


#: AXI IDs of those beside the accelerator, whose IDs are the classes of its traffic.
IDS = {"window": len(CLASSES), "test": len(CLASSES) + 1}


class Arbiter(wiring.Component):
    """Pass the accelerator through, and let others in when it asks for nothing, or in turn.

    Nothing is registered between the accelerator and memory: it loses a cycle only where another
    one's address goes out. When an address of the accelerator has been taken, those that wait come
    next, one read each; writes of others begin where the accelerator has none under way. Answers
    are told apart by ID.

    Parameters
    ----------
    addr_bits, data_bits : int
        Of all ports.

    Members
    -------
    accelerator, window, test : ``In(AXI4Signature(addr_bits, data_bits))``
        Masters; the last two have one access at a time and the IDs of :data:`IDS`.
    axi : ``Out(AXI4Signature(addr_bits, data_bits))``
        Memory.
    """
    def __init__(self, addr_bits: int, data_bits: int):
        assert max(IDS.values()) < 1 << ID_BITS
        signature = AXI4Signature(addr_bits, data_bits)
        super().__init__({"accelerator": In(signature), **{name: In(signature) for name in IDS},
                          "axi": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        masters = [self.accelerator, *(getattr(self, name) for name in IDS)]

        # Addresses of reads. An offered address stays until it is taken.
        reader = Signal(range(len(masters)))
        offered = [master.arvalid for master in masters]
        self._pass(m, reader, masters, ("araddr", "arlen", "arsize", "arburst", "arid"))
        with m.Switch(reader):
            for index, master in enumerate(masters):
                with m.Case(index):
                    m.d.comb += [axi.arvalid.eq(master.arvalid), master.arready.eq(axi.arready)]
        with m.If(~axi.arvalid | axi.arready):
            # Whoever was let in has offered already, so it goes back after its one address.
            m.d.sync += reader.eq(0)
            with m.If(reader == 0):
                for index in reversed(range(1, len(masters))):
                    with m.If(offered[index]):
                        m.d.sync += reader.eq(index)

        # Writes: who has the channels keeps them until as many last beats as addresses passed.
        writer = Signal(range(len(masters)))
        self._pass(m, writer, masters, ("awaddr", "awlen", "awsize", "awburst", "awid", "wdata",
                                        "wstrb", "wlast"))
        with m.Switch(writer):
            for index, master in enumerate(masters):
                with m.Case(index):
                    m.d.comb += [
                        axi.awvalid.eq(master.awvalid), master.awready.eq(axi.awready),
                        axi.wvalid.eq(master.wvalid), master.wready.eq(axi.wready),
                    ]
        owed = Signal(signed(10))        # addresses without data; below 0, data without address
        inside = Signal()                # of the data of a burst
        address, beat = axi.awvalid & axi.awready, axi.wvalid & axi.wready
        m.d.sync += owed.eq(owed + address - (beat & axi.wlast))
        with m.If(beat):
            m.d.sync += inside.eq(~axi.wlast)
        with m.If(~axi.awvalid & ~axi.wvalid & (owed == 0) & ~inside):
            m.d.sync += writer.eq(0)
            with m.If(writer == 0):
                for index in reversed(range(1, len(masters))):
                    with m.If(masters[index].awvalid):
                        m.d.sync += writer.eq(index)

        # Answers.
        m.d.comb += [axi.rready.eq(self.accelerator.rready), axi.bready.eq(self.accelerator.bready)]
        mine = {"r": [], "b": []}
        for name, number in IDS.items():
            master = getattr(self, name)
            for channel in mine:
                here = getattr(axi, f"{channel}id") == number
                mine[channel].append(here)
                m.d.comb += getattr(master, f"{channel}valid").eq(
                    getattr(axi, f"{channel}valid") & here)
                with m.If(here):
                    m.d.comb += getattr(axi, f"{channel}ready").eq(
                        getattr(master, f"{channel}ready"))
        for channel, others in mine.items():
            other = Cat(others).any()
            m.d.comb += getattr(self.accelerator, f"{channel}valid").eq(
                getattr(axi, f"{channel}valid") & ~other)
        for master in masters:
            m.d.comb += [getattr(master, name).eq(getattr(axi, name))
                         for name in ("rid", "rdata", "rresp", "rlast", "bid", "bresp")]
        return m

    def _pass(self, m, owner, masters, names):
        with m.Switch(owner):
            for index, master in enumerate(masters):
                with m.Case(index):
                    m.d.comb += [getattr(self.axi, name).eq(getattr(master, name))
                                 for name in names]

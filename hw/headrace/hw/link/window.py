"""Memory as the link sees it: words of 32 bits on a wider port."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import AXI4LiteSignature, AXI4Signature
from ..control.bus import RESP_SLVERR
from .decoder import RESP_DECERR
from .map import WINDOW


__all__ = ["PATIENCE", "Window"]


#: Cycles that memory may take to answer.
PATIENCE = 1 << 16


class Window(wiring.Component):
    """AXI4-Lite reads and writes as AXI4 bursts of one beat, one at a time, in order.

    A write is answered when memory has acknowledged it. Accesses beyond the memory are answered
    with DECERR, and with SLVERR while memory is not ready. If memory does not answer within
    :data:`PATIENCE` cycles, the access is answered with SLVERR, and so are all others until the
    answer has come: so a memory that hangs does not take the link with it.

    Parameters
    ----------
    addr_bits, data_bits : int
        Of the memory port.
    memory_bytes : int
        Size of the memory.
    id_ : int
        AXI ID.

    Members
    -------
    bus : ``In(AXI4LiteSignature(30))``
        The link.
    axi : ``Out(AXI4Signature(addr_bits, data_bits))``
        Memory.
    ready : ``In(1)``
        Memory is there.
    stuck : ``Out(1)``
        An answer is overdue.
    """
    def __init__(self, addr_bits: int, data_bits: int, memory_bytes: int, id_: int):
        self._memory_bytes, self._id = memory_bytes, id_
        super().__init__({
            "bus": In(AXI4LiteSignature(WINDOW.addr_bits)),
            "axi": Out(AXI4Signature(addr_bits, data_bits)),
            "ready": In(1), "stuck": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus, axi = self.bus, self.axi
        beat = len(axi.wdata) // 8
        lanes = beat // 4
        size = (beat - 1).bit_length()

        address = Signal(WINDOW.addr_bits - 2)       # in words
        lane = address[:size - 2]
        strobes = Signal(4)
        aligned = Cat(C(0, size), address[size - 2:])
        m.d.comb += [
            axi.awaddr.eq(aligned), axi.araddr.eq(aligned),
            axi.awsize.eq(size), axi.arsize.eq(size), axi.awburst.eq(1), axi.arburst.eq(1),
            axi.awid.eq(self._id), axi.arid.eq(self._id),
            axi.wlast.eq(1), axi.bready.eq(1), axi.rready.eq(1),
            axi.wstrb.eq(Cat(Mux(lane == index, strobes, 0) for index in range(lanes))
                         if lanes > 1 else strobes),
        ]
        word = Signal(32)
        m.d.comb += axi.wdata.eq(word.replicate(lanes))

        response, error = Signal(2), Signal(2)
        m.d.comb += [bus.bresp.eq(response), bus.rresp.eq(response)]
        with m.If(~self.ready | self.stuck):
            m.d.comb += error.eq(RESP_SLVERR)
        with m.Elif(address >= self._memory_bytes // 4):
            m.d.comb += error.eq(RESP_DECERR)

        with m.If(axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(axi.wready):
            m.d.sync += axi.wvalid.eq(0)
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        with m.If(axi.bvalid | axi.rvalid):
            m.d.sync += self.stuck.eq(0)

        left = Signal(range(PATIENCE))
        is_write = Signal()
        with m.FSM():
            with m.State("idle"):
                with m.If(bus.awvalid & bus.wvalid):
                    m.d.comb += [bus.awready.eq(1), bus.wready.eq(1)]
                    m.d.sync += is_write.eq(1)
                    # What is overdue may still be offered to memory.
                    with m.If(~self.stuck):
                        m.d.sync += [address.eq(bus.awaddr[2:]), strobes.eq(bus.wstrb),
                                     word.eq(bus.wdata)]
                    m.next = "check"
                with m.Elif(bus.arvalid):
                    m.d.comb += bus.arready.eq(1)
                    m.d.sync += is_write.eq(0)
                    with m.If(~self.stuck):
                        m.d.sync += address.eq(bus.araddr[2:])
                    m.next = "check"
            with m.State("check"):
                m.d.sync += [response.eq(error), left.eq(PATIENCE - 1), bus.rdata.eq(0)]
                m.next = "wait"
                with m.If(error):
                    m.next = "answer"
                with m.Elif(is_write):
                    m.d.sync += [axi.awvalid.eq(1), axi.wvalid.eq(1)]
                with m.Else():
                    m.d.sync += axi.arvalid.eq(1)
            with m.State("wait"):
                m.d.sync += left.eq(left - 1)
                with m.If(axi.bvalid | axi.rvalid):
                    m.d.sync += response.eq(Mux(is_write, axi.bresp, axi.rresp))
                    m.next = "answer"
                with m.Elif(left == 0):
                    m.d.sync += [response.eq(RESP_SLVERR), self.stuck.eq(1)]
                    m.next = "answer"
                with m.If(axi.rvalid):
                    m.d.sync += bus.rdata.eq(axi.rdata.word_select(lane, 32) if lanes > 1
                                             else axi.rdata)
            with m.State("answer"):
                m.d.comb += [bus.bvalid.eq(is_write), bus.rvalid.eq(~is_write)]
                with m.If(Mux(is_write, bus.bready, bus.rready)):
                    m.next = "idle"
        return m

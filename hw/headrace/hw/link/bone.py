"""Bus master behind a stream of bytes: the uartbone protocol of LiteX."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import RESP_OKAY, AXI4LiteSignature


__all__ = ["Bone", "COMMANDS"]


#: Commands by name: bursts with rising addresses, and to one address.
COMMANDS = {"write": 1, "read": 2, "write_fixed": 3, "read_fixed": 4}


class Bone(wiring.Component):
    """Reads and writes of 32-bit words, as a byte stream asks for them.

    A command is its code, the number of words (0 stands for 256), and the address divided by 4, in
    four bytes, the highest first. A write goes on with its words, highest byte first, and has no
    answer; the answer to a read is its words. Other codes are skipped. When nothing comes for
    `timeout` cycles inside a command, the rest of it is not expected any more: so host and board
    agree again after lost bytes. An access that the bus answers with an error reads as what the
    bus gave, and the burst goes on.

    Parameters
    ----------
    timeout : int
        Cycles.

    Members
    -------
    i, o : ``In(stream.Signature(8))``, ``Out(stream.Signature(8))``
        Bytes. A word can be written while the next one comes.
    bus : ``Out(AXI4LiteSignature(32))``
        One access at a time.
    timed_out, failed : ``Out(1)``
        Pulses: a command was given up, an access was answered with an error.
    """
    def __init__(self, timeout: int):
        self._timeout = timeout
        super().__init__({
            "i": In(stream.Signature(8)), "o": Out(stream.Signature(8)),
            "bus": Out(AXI4LiteSignature(32)),
            "timed_out": Out(1), "failed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus

        write, fixed = Signal(), Signal()
        later = Signal(8)                # words after this one
        count = Signal(2)                # bytes of the address or of a word so far
        word = Signal(30)                # address
        data = Signal(32)
        shifted = Cat(self.i.payload, data[:24])

        m.d.comb += [
            bus.awaddr.eq(Cat(C(0, 2), word)), bus.araddr.eq(bus.awaddr), bus.wstrb.eq(0b1111),
            self.o.payload.eq(data[24:]),
        ]
        with m.If(bus.awready):
            m.d.sync += bus.awvalid.eq(0)
        with m.If(bus.wready):
            m.d.sync += bus.wvalid.eq(0)
        with m.If(bus.bvalid & bus.bready):
            m.d.comb += self.failed.eq(bus.bresp != RESP_OKAY)
            m.d.sync += [bus.bready.eq(0), word.eq(word + ~fixed)]
        writing = bus.bready             # from the issue of a write to its response

        quiet = Signal(range(self._timeout + 1))
        waits = Signal()
        m.d.comb += self.timed_out.eq(waits & ~self.i.valid
                                               & (quiet == self._timeout))
        m.d.sync += quiet.eq(Mux(waits & ~self.i.valid, quiet + 1, 0))

        with m.FSM():
            with m.State("command"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += count.eq(0)
                with m.If(self.i.valid & (self.i.payload != 0) & (self.i.payload <= 4)):
                    m.d.sync += [write.eq(self.i.payload[0]), fixed.eq(self.i.payload > 2)]
                    m.next = "length"
            with m.State("length"):
                m.d.comb += [self.i.ready.eq(1), waits.eq(1)]
                with m.If(self.i.valid):
                    m.d.sync += later.eq(self.i.payload - 1)
                    m.next = "address"
                with m.If(self.timed_out):
                    m.next = "command"
            with m.State("address"):
                # The address still belongs to a write that is under way.
                m.d.comb += [self.i.ready.eq(~writing), waits.eq(1)]
                with m.If(self.i.valid & ~writing):
                    m.d.sync += [word.eq(Cat(self.i.payload, word)), count.eq(count + 1)]
                    with m.If(count == 3):
                        m.next = "read"
                        with m.If(write):
                            m.next = "write"
                with m.If(self.timed_out):
                    m.next = "command"
            with m.State("write"):
                m.d.comb += [self.i.ready.eq(~((count == 3) & writing)), waits.eq(1)]
                with m.If(self.i.valid & self.i.ready):
                    m.d.sync += [data.eq(shifted), count.eq(count + 1)]
                    with m.If(count == 3):
                        m.d.sync += [bus.wdata.eq(shifted), bus.awvalid.eq(1), bus.wvalid.eq(1),
                                     bus.bready.eq(1), later.eq(later - 1)]
                        with m.If(later == 0):
                            m.next = "command"
                with m.If(self.timed_out):
                    m.next = "command"
            with m.State("read"):
                m.d.sync += bus.arvalid.eq(1)
                m.next = "answer"
            with m.State("answer"):
                m.d.comb += bus.rready.eq(1)
                with m.If(bus.arready):
                    m.d.sync += bus.arvalid.eq(0)
                with m.If(bus.rvalid):
                    m.d.comb += self.failed.eq(bus.rresp != RESP_OKAY)
                    m.d.sync += [data.eq(bus.rdata), word.eq(word + ~fixed)]
                    m.next = "send"
            with m.State("send"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [data.eq(data << 8), count.eq(count + 1)]
                    with m.If(count == 3):
                        m.d.sync += later.eq(later - 1)
                        m.next = "read"
                        with m.If(later == 0):
                            m.next = "command"
        return m

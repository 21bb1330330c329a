"""SRAM that holds the beginning of the K/V cache."""

from amaranth import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .layouts import Sizes
from .queue import Queue


__all__ = ["KVBuffer"]


class KVBuffer(wiring.Component):
    """Answer bursts of the pinned part of the cache from SRAM, and keep it up to date.

    Byte ``i`` of the SRAM is byte ``origin + i`` of memory. Bursts are answered in order, ahead of
    their turn by what the registers hold. Hazards: a read of a word in the cycle in which the
    same word is written waits for the next cycle, so it returns the new contents and the memory's
    ports never meet on a word. A read that was started before a write returns the old contents;
    the *appended* token keeps reads of the blocks that an APPEND touches behind its writes.

    Latency: 4 cycles from an idle state. Throughput: one beat per cycle, across bursts.

    Parameters
    ----------
    config : Config
        Configuration; ``kv_bytes`` may be 0, then bursts that come are never answered.

    Members
    -------
    origin : ``In(addr_bits)``
        Address where the cache begins, a multiple of 64.
    request : ``In(stream.Signature({addr: addr_bits, beats: 8}))``
        Bursts of `beats` + 1 beats; wholly inside the SRAM, otherwise the data are undefined.
    o : ``Out(stream.Signature(port_bits))``
        Data.
    write_addr, write_data, write_strb : ``In(addr_bits)``, ``In(port_bits)``, ``In(port_bytes)``
        A beat to write in this cycle; no strobes, no write.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "origin": In(config.addr_bits),
            "request": In(stream.Signature(data.StructLayout({
                "addr": config.addr_bits, "beats": 8}))),
            "o": Out(stream.Signature(config.port_bits)),
            "write_addr": In(config.addr_bits),
            "write_data": In(config.port_bits),
            "write_strb": In(config.port_bytes),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config

        depth = config.kv_bytes // config.port_bytes
        if depth == 0:
            m.d.comb += self.request.ready.eq(1)
            return m

        m.submodules.sram = sram = memory.Memory(shape=unsigned(config.port_bits), depth=depth,
                                                 init=[])
        write_port = sram.write_port(granularity=8)
        read_port = sram.read_port()
        low = Sizes(config).beat_log2
        # The SRAM is a window that begins at the origin: the low bits of the difference suffice.
        bits = len(read_port.addr)

        def word(addr):
            return (addr - self.origin)[low:low + bits]

        m.d.comb += [
            write_port.addr.eq(word(self.write_addr)),
            write_port.data.eq(self.write_data),
            write_port.en.eq(self.write_strb),
        ]

        m.submodules.requests = requests = Queue(self.request.payload.shape(),
                                                 config.outstanding + 1)
        wiring.connect(m, wiring.flipped(self.request), requests.i)

        busy = Signal()
        addr = Signal(bits)
        left = Signal(8)
        advance = Signal()
        read = Signal()
        last = Signal()
        m.d.comb += [
            advance.eq(~self.o.valid | self.o.ready),
            read.eq(advance & busy & ~(self.write_strb.any() & (write_port.addr == addr))),
            last.eq(left == 0),
            requests.o.ready.eq(~busy | (read & last)),
            read_port.addr.eq(addr),
            read_port.en.eq(read),
            self.o.payload.eq(read_port.data),
        ]
        with m.If(advance):
            m.d.sync += self.o.valid.eq(read)
        with m.If(read):
            m.d.sync += [addr.eq(addr + 1), left.eq(left - 1)]
        with m.If(requests.o.ready):
            m.d.sync += [
                busy.eq(requests.o.valid),
                addr.eq(word(requests.o.payload.addr)),
                left.eq(requests.o.payload.beats),
            ]

        return m

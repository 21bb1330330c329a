"""AXI4 from a narrow initiator to a wide memory."""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..axi import AXI4Signature
from ..memory.queue import Queue
from .same import pass_through


__all__ = ["Widen"]


class Widen(wiring.Component):
    """Beats of the initiator are parts of beats of the memory: a burst stays a burst.

    A burst may begin and end inside a beat of the memory; bytes outside of it are not written.
    Throughput: one beat of the initiator per cycle. The memory must answer in order across IDs.
    Latency: none for reads, 1 cycle for the data of writes.

    Parameters
    ----------
    i_addr_bits, i_data_bits, o_addr_bits, o_data_bits : int
        Widths of the ports.
    outstanding : int
        Bursts in flight in each direction.

    Members
    -------
    i : ``In(AXI4Signature(i_addr_bits, i_data_bits))``
        Initiator: INCR bursts of full width, aligned to it.
    o : ``Out(AXI4Signature(o_addr_bits, o_data_bits))``
        Memory.
    """

    def __init__(self, i_addr_bits: int, i_data_bits: int, o_addr_bits: int, o_data_bits: int, *,
                 outstanding: int = 16):
        self.ratio, rest = divmod(o_data_bits, i_data_bits)
        if rest or self.ratio < 2 or self.ratio & (self.ratio - 1):
            raise ValueError(f"{i_data_bits} bits to {o_data_bits}: the second must be the first "
                             f"times a power of two above 1")
        self._outstanding = outstanding
        super().__init__({"i": In(AXI4Signature(i_addr_bits, i_data_bits)),
                          "o": Out(AXI4Signature(o_addr_bits, o_data_bits))})

    def elaborate(self, platform):
        m = Module()
        i, o, ratio = self.i, self.o, self.ratio
        low = (len(i.wdata) // 8).bit_length() - 1
        high = (len(o.wdata) // 8).bit_length() - 1
        burst = data.StructLayout({"first": range(ratio), "len": 8})
        reads = Queue(burst, self._outstanding)
        writes = Queue(burst, self._outstanding)
        m.submodules.reads, m.submodules.writes = reads, writes

        # Addresses: as many beats as the bytes touch; the burst is remembered.
        for channel, queue in (("ar", reads), ("aw", writes)):
            pass_through(m, i, o, channel, but=tuple(
                channel + name for name in ("len", "size", "addr", "valid", "ready")))
            addr, length = getattr(i, f"{channel}addr"), getattr(i, f"{channel}len")
            first = addr[low:high]
            valid, ready = getattr(i, f"{channel}valid"), getattr(o, f"{channel}ready")
            m.d.comb += [
                getattr(o, f"{channel}addr").eq(Cat(Const(0, high), addr[high:])),
                getattr(o, f"{channel}len").eq((first + length)[high - low:]),
                getattr(o, f"{channel}size").eq(high),
                getattr(o, f"{channel}valid").eq(valid & queue.i.ready),
                getattr(i, f"{channel}ready").eq(ready & queue.i.ready),
                queue.i.valid.eq(valid & ready),
                queue.i.payload.first.eq(first), queue.i.payload.len.eq(length)]
        pass_through(m, i, o, "b")

        self._read(m, reads.o)
        self._write(m, writes.o)
        return m

    def _read(self, m, burst):
        """Cut beats of the memory into those that were asked for."""
        i, o = self.i, self.o
        begun, count, part = Signal(), Signal(8), Signal(range(self.ratio))
        place = Mux(begun, part, burst.payload.first)
        last = Signal()
        m.d.comb += [
            last.eq(Mux(begun, count, 0) == burst.payload.len),
            i.rvalid.eq(o.rvalid & burst.valid),
            o.rready.eq(i.rready & burst.valid & (last | (place == self.ratio - 1))),
            i.rdata.eq(o.rdata.word_select(place, len(i.rdata))),
            i.rid.eq(o.rid), i.rresp.eq(o.rresp), i.rlast.eq(last),
            burst.ready.eq(i.rvalid & i.rready & last)]
        with m.If(i.rvalid & i.rready):
            m.d.sync += [begun.eq(~last), count.eq(Mux(begun, count, 0) + 1), part.eq(place + 1)]

    def _write(self, m, burst):
        """Gather beats of the initiator until a beat of the memory is full, or the burst ends."""
        i, o = self.i, self.o
        begun, part, full = Signal(), Signal(range(self.ratio)), Signal()
        place = Signal(range(self.ratio))
        taken = Signal()
        fresh = ~begun | (place == 0)          # the word holds nothing of this beat yet
        m.d.comb += [
            place.eq(Mux(begun, part, burst.payload.first)),
            i.wready.eq(burst.valid & (~full | o.wready)),
            taken.eq(i.wvalid & i.wready),
            o.wvalid.eq(full),
            burst.ready.eq(taken & i.wlast)]
        with m.If(o.wvalid & o.wready):
            m.d.sync += full.eq(0)
        with m.If(taken):
            m.d.sync += [begun.eq(~i.wlast), part.eq(place + 1), o.wlast.eq(i.wlast),
                         full.eq(i.wlast | (place == self.ratio - 1))]
            for index in range(self.ratio):
                strobes = o.wstrb.word_select(index, len(i.wstrb))
                with m.If(place == index):
                    m.d.sync += [strobes.eq(i.wstrb),
                                 o.wdata.word_select(index, len(i.wdata)).eq(i.wdata)]
                with m.Elif(fresh):
                    m.d.sync += strobes.eq(0)

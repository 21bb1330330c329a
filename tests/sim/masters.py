"""AXI masters for the tests of the memory model: one that copies, and one that obeys blindly."""

import functools

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from headrace.hw import emission
from headrace.hw.axi import AXI4LiteSignature, AXI4Signature


__all__ = ["Copier", "Puppet", "to_verilog"]


@functools.cache
def to_verilog(master: type, data_bits: int) -> str:
    """One of the masters as the device of a simulation."""
    return emission.to_verilog(master(data_bits), "headrace")


class _Master(wiring.Component):
    """Base: the ports of a device, and registers that the host writes and reads."""

    def __init__(self, data_bits: int = 64, addr_bits: int = 32):
        self.bus_bytes = data_bits // 8
        super().__init__({
            "axi": Out(AXI4Signature(addr_bits, data_bits)),
            "ctrl": In(AXI4LiteSignature(12)),
            "irq": Out(1),
        })

    def control(self, m, writable: dict[int, Value], readable: dict[int, Value]) -> dict:
        """Connect registers to the control port; returns a write strobe for each writable one.

        Every answer takes one cycle; unknown addresses answer DECERR.
        """
        ctrl = self.ctrl
        strobes = {addr: Signal(name=f"write_{addr:x}") for addr in writable}
        take = Signal()
        m.d.comb += [take.eq(ctrl.awvalid & ctrl.wvalid & ~ctrl.bvalid),
                     ctrl.awready.eq(take), ctrl.wready.eq(take),
                     ctrl.arready.eq(~ctrl.rvalid)]
        m.d.sync += [strobe.eq(0) for strobe in strobes.values()]
        with m.If(ctrl.bready):
            m.d.sync += ctrl.bvalid.eq(0)
        with m.If(take):
            m.d.sync += [ctrl.bvalid.eq(1), ctrl.bresp.eq(3)]
            for addr, register in writable.items():
                with m.If(ctrl.awaddr == addr):
                    m.d.sync += [register.eq(ctrl.wdata), strobes[addr].eq(1), ctrl.bresp.eq(0)]
        with m.If(ctrl.rready):
            m.d.sync += ctrl.rvalid.eq(0)
        with m.If(ctrl.arvalid & ctrl.arready):
            m.d.sync += [ctrl.rvalid.eq(1), ctrl.rresp.eq(3)]
            for addr, value in readable.items():
                with m.If(ctrl.araddr == addr):
                    m.d.sync += [ctrl.rdata.eq(value), ctrl.rresp.eq(0)]
        return strobes


class Copier(_Master):
    """Copy ``bursts`` bursts of ``beats`` beats each, with many reads in flight.

    Addresses are multiples of a burst, and a burst divides 4 KiB. Registers: 0 source, 4
    destination, 8 bursts, 0xC beats, 0x10 start (any write); reading 0x14 gives the cycles of the
    last copy, 0x18 the error responses of it. The interrupt is high from its end to the next start.
    """

    DEPTH = 64

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        source, target, bursts, beats, start = (Signal(32) for _ in range(5))
        cycles, errors = Signal(32), Signal(32)
        strobes = self.control(m, {0: source, 4: target, 8: bursts, 0xC: beats, 0x10: start},
                               {0x14: cycles, 0x18: errors})
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=len(axi.rdata), depth=self.DEPTH)
        bytes_log2 = (self.bus_bytes - 1).bit_length()
        to_read, to_write, to_answer = Signal(32), Signal(32), Signal(32)
        reserved = Signal(range(self.DEPTH + 1))  # beats in the queue or on their way into it
        busy = Signal()
        m.d.sync += errors.eq(errors + (axi.rvalid & (axi.rresp != 0))
                              + (axi.bvalid & (axi.bresp != 0)))
        with m.If(strobes[0x10]):
            m.d.sync += [to_read.eq(bursts), to_write.eq(bursts), to_answer.eq(bursts),
                         busy.eq(1), cycles.eq(0), errors.eq(0), self.irq.eq(0)]
        with m.Elif(busy):
            m.d.sync += cycles.eq(cycles + 1)
            with m.If(to_answer == 0):
                m.d.sync += [busy.eq(0), self.irq.eq(1)]

        m.d.comb += [axi.arsize.eq(bytes_log2), axi.awsize.eq(bytes_log2),
                     axi.arburst.eq(1), axi.awburst.eq(1), axi.arid.eq(2), axi.awid.eq(3)]

        accepted = axi.arvalid & axi.arready
        taken = axi.wvalid & axi.wready
        with m.If(accepted):
            m.d.sync += axi.arvalid.eq(0)
        with m.If((to_read != 0) & (~axi.arvalid | accepted) & (reserved + beats <= self.DEPTH)):
            m.d.sync += [axi.arvalid.eq(1), axi.araddr.eq(source), axi.arlen.eq(beats - 1),
                         source.eq(source + (beats << bytes_log2)), to_read.eq(to_read - 1),
                         reserved.eq(reserved + beats - taken)]
        with m.Else():
            m.d.sync += reserved.eq(reserved - taken)
        m.d.comb += [axi.rready.eq(1), fifo.w_en.eq(axi.rvalid), fifo.w_data.eq(axi.rdata)]

        left = Signal(9)  # beats that the open write burst still owes
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If((to_write != 0) & (left == 0) & ~axi.awvalid & (fifo.r_level >= beats)):
            m.d.sync += [axi.awvalid.eq(1), axi.awaddr.eq(target), axi.awlen.eq(beats - 1),
                         target.eq(target + (beats << bytes_log2)), to_write.eq(to_write - 1),
                         left.eq(beats)]
        m.d.comb += [axi.wvalid.eq(left != 0), axi.wdata.eq(fifo.r_data), axi.wlast.eq(left == 1),
                     axi.wstrb.eq(~0), fifo.r_en.eq(taken), axi.bready.eq(1)]
        with m.If(taken):
            m.d.sync += left.eq(left - 1)
        with m.If(axi.bvalid):
            m.d.sync += to_answer.eq(to_answer - 1)
        return m


class Puppet(_Master):
    """Drive each AXI signal as the host says, right or wrong.

    Registers: 0 ARADDR, 4 AR fields (``len | size << 8 | burst << 12 | id << 16``), 8 ARVALID;
    0x10, 0x14, 0x18 the same of AW; 0x20 WDATA (in every 32 bits of the bus), 0x24 WSTRB,
    0x28 ``WVALID | WLAST << 1``; 0x30 ``RREADY | BREADY << 1``; 0x34 VALID while in reset. A VALID
    falls with its handshake. Reading 0x40 gives ``RRESP | RLAST << 2 | RID << 4`` of the last beat,
    0x44 its low 32 data bits, 0x48 the number of beats, 0x4C ``BRESP | BID << 4`` of the last
    response, 0x50 the number of responses, 0x54 the low four data bits of the last eight beats,
    the newest lowest.
    """

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        signals = {addr: Signal(32) for addr in (0, 4, 8, 0x10, 0x14, 0x18, 0x20, 0x24, 0x28, 0x30)}
        in_reset = Signal(reset_less=True)
        last_r, last_data, beats, last_b, responses, history = (Signal(32) for _ in range(6))
        self.control(m, {**signals, 0x34: in_reset},
                     {0x40: last_r, 0x44: last_data, 0x48: beats, 0x4C: last_b, 0x50: responses,
                      0x54: history})
        for base, (valid, ready, addr, length, size, burst, ident) in {
            0x00: (axi.arvalid, axi.arready, axi.araddr, axi.arlen, axi.arsize, axi.arburst,
                   axi.arid),
            0x10: (axi.awvalid, axi.awready, axi.awaddr, axi.awlen, axi.awsize, axi.awburst,
                   axi.awid),
        }.items():
            fields, go = signals[base + 4], signals[base + 8]
            m.d.comb += [valid.eq(go[0] | in_reset), addr.eq(signals[base]),
                         length.eq(fields[:8]), size.eq(fields[8:11]), burst.eq(fields[12:14]),
                         ident.eq(fields[16:19])]
            with m.If(valid & ready):
                m.d.sync += go.eq(0)
        words = len(axi.wdata) // 32
        m.d.comb += [axi.wdata.eq(signals[0x20].replicate(words)), axi.wstrb.eq(signals[0x24]),
                     axi.wvalid.eq(signals[0x28][0]), axi.wlast.eq(signals[0x28][1]),
                     axi.rready.eq(signals[0x30][0]), axi.bready.eq(signals[0x30][1])]
        with m.If(axi.wvalid & axi.wready):
            m.d.sync += signals[0x28].eq(0)
        with m.If(axi.rvalid & axi.rready):
            m.d.sync += [last_r.eq(Cat(axi.rresp, axi.rlast, C(0, 1), axi.rid)),
                         last_data.eq(axi.rdata[:32]), beats.eq(beats + 1),
                         history.eq(Cat(axi.rdata[:4], history))]
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += [last_b.eq(Cat(axi.bresp, C(0, 2), axi.bid)), responses.eq(responses + 1)]
        return m

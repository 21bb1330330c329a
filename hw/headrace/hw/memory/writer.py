"""Write engine: bursts whose data are complete, to the AXI port."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import ID_BITS
from ..config import Config
from .layouts import Sizes
from .queue import Queue
from .reader import ErrorLayout
from .scatter import ScatterWriter


__all__ = ["DMAWriter"]


class DMAWriter(wiring.Component):
    """Issue write bursts and count their responses.

    A burst comes after its beats, so write data never wait for a producer once the address is
    out, and a reset finds every beat that it owes: these go out without strobes. Beats may
    precede the acceptance of their address, never its announcement. Responses must come in the
    order of the bursts, otherwise the address of an error is a wrong one; nothing else depends
    on it.

    Members
    -------
    beat, burst : from `ScatterWriter`
        Beats, and bursts of beats that came before.
    aw..., w..., b... : AXI
        Write channels.
    halt : ``In(1)``
        Issue nothing; send owed beats without strobes, and drop the others.
    idle : ``Out(1)``
        Nothing is waiting and every burst was answered.
    error : ``Out(ErrorLayout)``
        Error of the response in this cycle.
    sent, sent_cls, sent_bytes : ``Out(1)``, ``Out(ID_BITS)``, ``Out(range(port_bytes + 1))``
        A beat enters the data channel in this cycle, its class and its number of strobes.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "beat": In(stream.Signature(ScatterWriter.beat_layout(config))),
            "burst": In(stream.Signature(ScatterWriter.burst_layout(config))),
            "awvalid": Out(1), "awready": In(1), "awaddr": Out(config.addr_bits),
            "awlen": Out(8), "awid": Out(ID_BITS),
            "wvalid": Out(1), "wready": In(1), "wdata": Out(config.port_bits),
            "wstrb": Out(config.port_bytes), "wlast": Out(1),
            "bvalid": In(1), "bready": Out(1), "bresp": In(2),
            "halt": In(1), "idle": Out(1), "error": Out(ErrorLayout),
            "sent": Out(1), "sent_cls": Out(ID_BITS),
            "sent_bytes": Out(range(config.port_bytes + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        depth = config.outstanding

        store_depth = 2 * Sizes(config).write_chunk + 2
        clear = Signal()
        beats = Queue(self.beat.payload.shape(), store_depth)
        bursts = Queue(self.burst.payload.shape(), 4)
        m.submodules.beats = ResetInserter(clear)(beats)
        m.submodules.bursts = ResetInserter(self.halt)(bursts)
        m.submodules.answers = answers = Queue(config.addr_bits, depth + 1)
        wiring.connect(m, wiring.flipped(self.beat), beats.i)
        wiring.connect(m, wiring.flipped(self.burst), bursts.i)

        unanswered = Signal(range(depth + 1))
        issue = Signal()
        answer = Signal()
        m.d.comb += [
            issue.eq(bursts.o.valid & (~self.awvalid | self.awready) & (unanswered != depth)
                     & ~self.halt),
            bursts.o.ready.eq(issue),
            self.bready.eq(1),
            answer.eq(self.bvalid & (unanswered != 0)),
            answers.i.valid.eq(issue),
            answers.i.payload.eq(bursts.o.payload.addr),
            answers.o.ready.eq(answer),
        ]
        m.d.sync += unanswered.eq(unanswered + issue - answer)
        with m.If(self.awready):
            m.d.sync += self.awvalid.eq(0)
        with m.If(issue):
            m.d.sync += [
                self.awvalid.eq(1),
                self.awaddr.eq(bursts.o.payload.addr),
                self.awlen.eq(bursts.o.payload.beats),
                self.awid.eq(bursts.o.payload.cls),
            ]

        # Beats of issued bursts that have not entered the data channel.
        owed = Signal(range(store_depth + 1))
        send = Signal()
        m.d.comb += [
            send.eq(beats.o.valid & (owed != 0) & (~self.wvalid | self.wready)),
            beats.o.ready.eq(send),
            self.sent.eq(send & ~self.halt),
            self.sent_cls.eq(beats.o.payload.cls),
            self.sent_bytes.eq(beats.o.payload.bytes),
        ]
        m.d.sync += owed.eq(owed + Mux(issue, bursts.o.payload.beats + 1, 0) - send)
        with m.If(self.wready):
            m.d.sync += self.wvalid.eq(0)
        with m.If(send):
            m.d.sync += [
                self.wvalid.eq(1),
                self.wdata.eq(beats.o.payload.data),
                self.wstrb.eq(Mux(self.halt, 0, beats.o.payload.strb)),
                self.wlast.eq(beats.o.payload.last),
            ]

        settled = ~self.awvalid & ~self.wvalid & (owed == 0) & (unanswered == 0)
        m.d.comb += [
            self.idle.eq(settled & (self.halt | (beats.empty & bursts.empty))),
            clear.eq(self.halt & (owed == 0)),
        ]

        # Codes of `ERRORS`: 3 SLVERR, 4 DECERR.
        m.d.comb += [
            self.error.valid.eq(answer & self.bresp[1]),
            self.error.code.eq(3 + self.bresp[0]),
            self.error.addr.eq(answers.o.payload),
        ]

        return m

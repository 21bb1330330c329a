"""Memory test: fills memory with a pattern, checks it, and computes CRCs."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import RESP_OKAY, AXI4Signature
from .map import OPERATIONS
from .pattern import SHIFTS, crc_terms


__all__ = ["BURST_BEATS", "MemoryTest"]


#: Beats of the longest burst.
BURST_BEATS = 64

WORD_BITS = 30


class MemoryTest(wiring.Component):
    """Operations on a range of words of 32 bits, see :data:`.map.OPERATIONS`.

    One burst at a time; a word per cycle is read, and written in two: less than a port can do, and
    enough for the bandwidth of a small memory. Bursts have :data:`BURST_BEATS` beats from multiples
    of so many on, and one beat elsewhere, so that none crosses a multiple of 4096.

    Parameters
    ----------
    addr_bits, data_bits : int
        Of the memory port.
    id_ : int
        AXI ID.

    Members
    -------
    axi : ``Out(AXI4Signature(addr_bits, data_bits))``
        Memory. Read data are taken as fast as words are checked.
    operation, lfsr : ``In(2)``, ``In(1)``
        Start, if it is not 0 and nothing is `busy`. Pattern: the value itself in each word, or
        what follows from it.
    load, data : ``In(3)``, ``In(32)``
        Set `word`, shifted to a byte address, `left` or `value`; ignored while `busy`.
    busy, failed : ``Out(1)``
        An operation lasts; memory answered with an error since the start.
    word, left, value : ``Out``
        Next word, words to do, next word of the pattern.
    result, bad_word : ``Out``
        CRC-32, or words that differed, and the first of them.
    """
    def __init__(self, addr_bits: int, data_bits: int, id_: int):
        self._id = id_
        super().__init__({
            "axi": Out(AXI4Signature(addr_bits, data_bits)),
            "operation": In(2), "lfsr": In(1), "load": In(3), "data": In(32),
            "busy": Out(1), "failed": Out(1), "word": Out(WORD_BITS), "left": Out(WORD_BITS),
            "value": Out(32), "result": Out(32), "bad_word": Out(WORD_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        lanes = len(axi.wdata) // 32
        lane_bits = (lanes - 1).bit_length()
        size = lane_bits + 2

        operation = Signal(2)
        is_fill = operation == OPERATIONS["fill"]
        is_crc = operation == OPERATIONS["crc"]
        lfsr = Signal()
        register = Signal(32)            # of the CRC; or errors
        skip = Signal(range(lanes))      # lanes before the first word
        lane = Signal(range(lanes))
        beats = Signal(range(BURST_BEATS))           # of the burst, after this one
        is_long = Signal()
        first = Signal(WORD_BITS - lane_bits)        # first beat of the burst
        beat = Signal(len(axi.wdata))
        strobes = Signal(len(axi.wstrb))

        length = Mux(is_long, BURST_BEATS - 1, 0)
        m.d.comb += [
            axi.awaddr.eq(Cat(C(0, size), first)), axi.araddr.eq(axi.awaddr),
            axi.awlen.eq(length), axi.arlen.eq(length),
            axi.awsize.eq(size), axi.arsize.eq(size), axi.awburst.eq(1), axi.arburst.eq(1),
            axi.awid.eq(self._id), axi.arid.eq(self._id),
            axi.wdata.eq(beat), axi.wstrb.eq(strobes), axi.wlast.eq(beats == 0),
            self.result.eq(register ^ is_crc.replicate(32)),
        ]

        step, active = Signal(), Signal()
        m.d.comb += active.eq((skip == 0) & (self.left != 0))
        following = self.value
        for shift in SHIFTS:
            following = following ^ (following << shift if shift > 0 else following >> -shift)[:32]
        mixed = register ^ beat[:32]
        different = Signal()
        m.d.comb += different.eq((operation == OPERATIONS["check"]) & (beat[:32] != self.value))
        with m.If(step):
            m.d.sync += [
                beat.eq(Cat(beat[32:], self.value)), lane.eq(lane + 1),
                strobes.eq(Cat(strobes[4:], active.replicate(4))),
            ]
            with m.If(skip != 0):
                m.d.sync += skip.eq(skip - 1)
            with m.If(active):
                m.d.sync += [self.word.eq(self.word + 1), self.left.eq(self.left - 1)]
                with m.If(lfsr):
                    m.d.sync += self.value.eq(following)
                with m.If(is_crc):
                    m.d.sync += register.eq(Cat(
                        Cat(mixed[index] for index in terms).xor() for terms in crc_terms()))
                with m.Elif(different):
                    m.d.sync += register.eq(register + 1)
                    with m.If(register == 0):
                        m.d.sync += self.bad_word.eq(self.word)

        with m.If(axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)

        with m.If(axi.rready):
            m.d.sync += beat.eq(axi.rdata)
            with m.If(axi.rvalid & (axi.rresp != RESP_OKAY)):
                m.d.sync += self.failed.eq(1)

        last_lane = lane == lanes - 1
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("idle"))
            with m.State("idle"):
                with m.If(self.load[0]):
                    m.d.sync += self.word.eq(self.data[2:])
                with m.If(self.load[1]):
                    m.d.sync += self.left.eq(self.data)
                with m.If(self.load[2]):
                    m.d.sync += self.value.eq(self.data)
                with m.If(self.operation != 0):
                    m.d.sync += [
                        operation.eq(self.operation), lfsr.eq(self.lfsr), self.failed.eq(0),
                        lane.eq(0), skip.eq(self.word[:lane_bits]),
                        register.eq((self.operation == OPERATIONS["crc"]).replicate(32)),
                    ]
                    m.next = "plan"
            with m.State("plan"):
                long_bits = lane_bits + (BURST_BEATS - 1).bit_length()
                fits = (self.word[:long_bits] == 0) & (self.left[long_bits:] != 0)
                m.d.sync += [is_long.eq(fits), beats.eq(Mux(fits, BURST_BEATS - 1, 0)),
                             first.eq(self.word[lane_bits:])]
                with m.If(self.left == 0):
                    m.next = "idle"
                with m.Elif(is_fill):
                    m.d.sync += axi.awvalid.eq(1)
                    m.next = "send"
                with m.Else():
                    m.d.sync += axi.arvalid.eq(1)
                    m.next = "receive"
            with m.State("receive"):
                m.d.comb += axi.rready.eq(1)
                with m.If(axi.rvalid):
                    m.next = "compare"
            with m.State("compare"):
                m.d.comb += step.eq(1)
                with m.If(last_lane):
                    m.d.sync += beats.eq(beats - 1)
                    with m.If(beats == 0):
                        m.next = "plan"
                    with m.Else():
                        m.d.comb += axi.rready.eq(1)
                        with m.If(~axi.rvalid):
                            m.next = "receive"
            with m.State("send"):
                m.d.comb += step.eq(1)
                with m.If(last_lane):
                    m.next = "offer"
            with m.State("offer"):
                m.d.comb += axi.wvalid.eq(1)
                with m.If(axi.wready):
                    m.d.sync += beats.eq(beats - 1)
                    m.next = "send"
                    with m.If(beats == 0):
                        m.next = "answer"
            with m.State("answer"):
                m.d.comb += axi.bready.eq(1)
                with m.If(axi.bvalid):
                    with m.If(axi.bresp != RESP_OKAY):
                        m.d.sync += self.failed.eq(1)
                    m.next = "plan"
        return m

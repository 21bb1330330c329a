"""Record of the counters at the end of a pass."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..interfaces import CommandLayout, field
from ..regmap import COUNTERS, RECORD_BYTES


__all__ = ["Recorder", "SingleLayout"]


#: A 32-bit word to be written to memory, `addr` bytes after the memory base.
SingleLayout = data.StructLayout({"addr": 40, "data": 32})


class Recorder(wiring.Component):
    """END: writes all counters to memory, each as two 32-bit words, low half first.

    The counters are held by a snapshot outside at `counter_hold`. A word takes 3 cycles or more.
    After the last one the recorder waits until memory has acknowledged everything.

    Members
    -------
    start : ``In(1)``
        Pulse: `command` is an END.
    command : ``In(CommandLayout)``
        Not looked at any more afterwards.
    counter_hold : ``Out(1)``
        Pulse: take the snapshot.
    counter_index : ``Out(8)``
        Index of a word of the record.
    counter_data : ``In(32)``
        That word, one cycle after its index.
    single : ``Out(stream.Signature(SingleLayout))``
        Words to memory.
    write_idle : ``In(1)``
        Everything written is acknowledged.
    busy : ``Out(1)``
        From the cycle after `start` to `done`.
    done : ``Out(1)``
        Pulse: the record is complete in memory.
    """
    start: In(1)
    command: In(CommandLayout)
    counter_hold: Out(1)
    counter_index: Out(8)
    counter_data: In(32)
    single: Out(stream.Signature(SingleLayout))
    write_idle: In(1)
    busy: Out(1)
    done: Out(1)

    def elaborate(self, platform):
        m = Module()
        last = 2 * len(COUNTERS) - 1
        base = Signal(40)
        m.d.comb += base.eq((field(self.command, "addr") << 6)
                            + (self.command.index << (RECORD_BYTES - 1).bit_length()))
        settle = Signal(3)
        m.d.comb += self.busy.eq(1)
        with m.FSM(name="record"):
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                with m.If(self.start):
                    m.d.comb += self.counter_hold.eq(1)
                    m.d.sync += [self.counter_index.eq(0), self.single.payload.addr.eq(base)]
                    m.next = "READ"
            with m.State("READ"):
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.sync += [self.single.payload.data.eq(self.counter_data),
                             self.single.valid.eq(1)]
                m.next = "WRITE"
            with m.State("WRITE"):
                with m.If(self.single.ready):
                    m.d.sync += [
                        self.single.valid.eq(0),
                        self.single.payload.addr.eq(self.single.payload.addr + 4),
                        self.counter_index.eq(self.counter_index + 1),
                        settle.eq(4),
                    ]
                    m.next = "READ"
                    with m.If(self.counter_index == last):
                        m.next = "SETTLE"
            with m.State("SETTLE"):
                # write_idle may still be 1 just after the last word was accepted.
                with m.If(settle != 0):
                    m.d.sync += settle.eq(settle - 1)
                with m.Elif(self.write_idle):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        return m

"""Storage of the scales of the cache."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..fp import FromFP16
from ..interfaces import words
from .schedule import Schedule


__all__ = ["ScaleBuffer"]


class ScaleBuffer(wiring.Component):
    """Convert the scales of up to four blocks to fp32 and keep them.

    Members
    -------
    i : ``In(stream.Signature(words(softmax_lanes, 16)))``
        For each block 32 K scales, then 32 V scales, fp16.
    ready : ``Out(1)``
        The scales of a block that has not started are complete.
    start, done : ``In(1)``
        A block starts; the oldest block is complete.
    k_addr, v_addr : ``In``
        Read addresses: step of the block, then the slot (block modulo 4) above it.
    k, v : ``Out(words(lanes))``
        The scales, one cycle later.
    """
    slots = 4

    def __init__(self, config: Config):
        self._config = config
        self._schedule = Schedule(config)
        lanes, steps = self._schedule.lanes, self._schedule.steps
        super().__init__({
            "i": In(stream.Signature(words(config.softmax_lanes, 16))),
            "ready": Out(1),
            "start": In(1),
            "done": In(1),
            "k_addr": In(range(self.slots * steps)),
            "v_addr": In(range(self.slots * steps)),
            "k": Out(words(lanes)),
            "v": Out(words(lanes)),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, steps = self._schedule.lanes, self._schedule.steps
        parts = self._config.softmax_lanes // lanes

        part, step, value, slot = (Signal(range(parts)), Signal(range(steps)), Signal(),
                                   Signal(range(self.slots)))
        held, complete = Signal(range(self.slots + 1)), Signal(range(self.slots + 1))
        take = Signal()
        m.d.comb += [
            take.eq(self.i.valid & (held != self.slots)),
            self.i.ready.eq((held != self.slots) & (part == parts - 1)),
            self.ready.eq(complete != 0),
        ]
        last = Signal()
        m.d.comb += last.eq(take & value & (step == steps - 1))
        with m.If(take):
            m.d.sync += [step.eq(step + 1), part.eq(Mux(part == parts - 1, 0, part + 1))]
            with m.If(step == steps - 1):
                m.d.sync += [step.eq(0), value.eq(~value), slot.eq(slot + value)]
        m.d.sync += held.eq(held + last - self.done)

        converted = []
        for lane in range(lanes):
            m.submodules[f"convert{lane}"] = convert = FromFP16()
            halves = [self.i.payload[lanes * i + lane] for i in range(parts)]
            m.d.comb += [convert.a.eq(Array(halves)[part]), convert.en.eq(1)]
            converted.append(convert.o[FromFP16.zeros:])

        # The write follows the conversion.
        place = Cat(take & ~value, take & value, last, step, slot)
        for cycle in range(FromFP16.latency):
            delayed = Signal(len(place), name=f"place{cycle}")
            m.d.sync += delayed.eq(place)
            place = delayed
        k_en, v_en, last_written, addr = place[0], place[1], place[2], place[3:]
        for name, en, read_addr, o in (("k_scales", k_en, self.k_addr, self.k),
                                       ("v_scales", v_en, self.v_addr, self.v)):
            m.submodules[name] = memory = Memory(
                shape=data.ArrayLayout(32 - FromFP16.zeros, lanes), depth=self.slots * steps,
                init=[])
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(en), write.addr.eq(addr),
                Value.cast(write.data).eq(Cat(*converted)), read.addr.eq(read_addr),
                *(o[lane].eq(Cat(C(0, FromFP16.zeros), read.data[lane])) for lane in range(lanes)),
            ]
        m.d.sync += complete.eq(complete + last_written - self.start)

        return m

"""Registers: what the host writes and reads."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import AXI4LiteSignature
from ..config import Config
from ..regmap import COUNTER_BASE, COUNTERS, ID, REGISTERS, VERSION
from .bus import RegisterBus
from .counters import CounterBank, IncrementLayout
from .sequencer import FailureLayout


__all__ = ["ADDR_BITS", "Control"]


#: Width of addresses of the control port.
ADDR_BITS = 12

#: Writable registers with less than 32 bits: the others read as 0.
WIDTHS = {"irq_enable": 1, "base_hi": 8, "positions": 16, "flags": 2}


class Control(wiring.Component):
    """The register map of `regmap.REGISTERS`, the counters, and the interrupt.

    Writes act by byte strobes. Writes to addresses that hold no writable register, and reads of
    addresses that hold none, are answered with SLVERR, change nothing, and read as 0. A start is
    ignored while a run lasts, after an error until a reset, during a reset, and beside one in the
    same write. A start and a reset clear `done`, `error` and what belongs to it. Registers other
    than `control`, `irq` and `irq_enable` must not be written while a run lasts.

    Parameters
    ----------
    config : Config
        Sizes, reported to the host.

    Members
    -------
    axi : ``In(AXI4LiteSignature(12))``
        The host.
    irq : ``Out(1)``
        Interrupt pending and enabled.
    start, reset : ``Out(1)``
        Pulses.
    base, program, instructions, position, positions, passes, head, logits, kv_base, kv_pinned
        Contents of the registers.
    busy, resetting : ``In(1)``
        State.
    done_stb, failure, passes_done : ``In``
        As :class:`Sequencer` drives them.
    token, token_stb : ``In(32)``, ``In(1)``
        The token that a pass chose.
    increments : ``In(IncrementLayout(config))``
        For the counters.
    counter_hold, counter_index, counter_data : ``In(1)``, ``In(8)``, ``Out(32)``
        Snapshot of the counters, see :class:`CounterBank`.
    """
    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(AXI4LiteSignature(ADDR_BITS)),
            "irq": Out(1), "start": Out(1), "reset": Out(1),
            "base": Out(config.addr_bits), "program": Out(32), "instructions": Out(32),
            "position": Out(32), "positions": Out(16), "passes": Out(32), "head": Out(1),
            "logits": Out(1), "kv_base": Out(32), "kv_pinned": Out(32),
            "busy": In(1), "resetting": In(1),
            "done_stb": In(1), "failure": In(FailureLayout), "passes_done": In(32),
            "token": In(32), "token_stb": In(1),
            "increments": In(IncrementLayout(config)),
            "counter_hold": In(1), "counter_index": In(8), "counter_data": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config

        m.submodules.bus = bus = RegisterBus(ADDR_BITS)
        connect(m, flipped(self.axi), bus.axi)
        m.submodules.counters = counters = CounterBank(config)
        m.d.comb += [
            counters.start.eq(self.start), counters.run.eq(self.busy),
            counters.increments.eq(self.increments),
            counters.hold.eq(self.counter_hold), counters.index.eq(self.counter_index),
            self.counter_data.eq(counters.word),
        ]

        stored = {name: Signal(WIDTHS.get(name, 32), name=name)
                  for name, register in REGISTERS.items() if register.access == "rw"}
        m.d.comb += [
            self.base.eq(Cat(stored["base_lo"], stored["base_hi"])),
            Cat(self.head, self.logits).eq(stored["flags"]),
            *(getattr(self, name).eq(stored[name])
              for name in ("program", "instructions", "position", "positions", "passes",
                           "kv_base", "kv_pinned")),
        ]

        done, error, pending = Signal(), Signal(), Signal()
        code, addr, token = Signal.like(self.failure.code), Signal(config.addr_bits), Signal(32)
        contents = {
            "id": C(ID, 32), "version": C(VERSION, 32), "fingerprint": C(config.fingerprint, 32),
            "size": self._fields("size", rows=config.rows, cols=config.cols,
                                 port_bytes=config.port_bytes, lanes=config.lanes),
            "limits": self._fields("limits", chunk_positions=config.chunk_positions,
                                   streams=config.streams),
            "control": C(0, 32),
            "status": self._fields("status", busy=self.busy, done=done, error=error,
                                   resetting=self.resetting),
            "irq": pending, "error_code": code, "error_addr_lo": addr[:32],
            "error_addr_hi": addr[32:], "passes_done": self.passes_done, "token": token, **stored,
        }
        self._write(m, bus, stored, pending, error)
        self._read(m, bus, counters, contents)

        with m.If(self.start | self.reset):
            m.d.sync += [done.eq(0), error.eq(0), code.eq(0), addr.eq(0)]
        with m.If(self.done_stb):
            m.d.sync += [done.eq(1), pending.eq(1)]
        with m.If(self.failure.valid & ~self.reset):
            m.d.sync += [error.eq(1), code.eq(self.failure.code), addr.eq(self.failure.addr),
                         pending.eq(1)]
        with m.If(self.token_stb):
            m.d.sync += token.eq(self.token)
        m.d.comb += self.irq.eq(pending & stored["irq_enable"])

        return m

    def _fields(self, register, **values):
        bits = REGISTERS[register].bits
        result = Const(0, 32)
        for name, value in values.items():
            lsb, width = bits[name]
            result = result | (Const(value, width) if isinstance(value, int) else value) << lsb
        return result[:32]

    def _write(self, m, bus, stored, pending, error):
        mask = Cat(strb.replicate(8) for strb in bus.write_strb)
        ones = Signal(32)
        m.d.comb += [ones.eq(bus.write_data & mask), bus.write_error.eq(1)]
        m.d.sync += [self.reset.eq(0), self.start.eq(0)]
        start_bit, _ = REGISTERS["control"].bits["start"]
        reset_bit, _ = REGISTERS["control"].bits["reset"]
        with m.Switch(bus.write_word):
            for name, register in REGISTERS.items():
                if register.access == "ro":
                    continue
                with m.Case(register.offset // 4):
                    m.d.comb += bus.write_error.eq(0)
                    with m.If(bus.write_stb):
                        if name in stored:
                            m.d.sync += stored[name].eq((stored[name] & ~mask) | ones)
                        elif name == "irq":
                            with m.If(ones[REGISTERS["irq"].bits["pending"][0]]):
                                m.d.sync += pending.eq(0)
                        else:
                            # Into registers: a reset reaches the whole device in one cycle. Both
                            # have acted before the answer to the write can be followed by another.
                            m.d.sync += [
                                self.reset.eq(ones[reset_bit]),
                                self.start.eq(ones[start_bit] & ~ones[reset_bit] & ~self.busy
                                              & ~error & ~self.resetting),
                            ]

    def _read(self, m, bus, counters, contents):
        value, known, is_counter = Signal(32), Signal(), Signal()
        high = Signal(32)                # the half that belongs to the last low half read
        first = COUNTER_BASE // 4
        index = Signal(range(len(COUNTERS)))
        m.d.comb += [
            is_counter.eq((bus.read_word >= first)
                          & (bus.read_word < first + 2 * len(COUNTERS))),
            index.eq((bus.read_word - first) >> 1),
        ]
        with m.Switch(bus.read_word):
            for name, register in REGISTERS.items():
                with m.Case(register.offset // 4):
                    m.d.comb += [value.eq(contents[name]), known.eq(1)]
        odd = bus.read_word[0]
        # The bank sees the read a cycle later, and not any more when it has answered.
        m.d.sync += [counters.read.eq(bus.read & is_counter & ~odd & ~bus.read_done),
                     counters.read_index.eq(index)]
        m.d.comb += [
            bus.read_done.eq(~is_counter | odd | counters.read_done),
            bus.read_data.eq(Mux(is_counter, Mux(odd, high, counters.read_data[:32]), value)),
            bus.read_error.eq(~known & ~is_counter),
        ]
        with m.If(counters.read_done):
            m.d.sync += high.eq(counters.read_data[32:])

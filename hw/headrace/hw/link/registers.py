"""Registers of the board."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import AXI4LiteSignature
from ..control.bus import RegisterBus
from .map import BOARD, BOARD_ID, BOARD_REGISTERS, BOARD_VERSION
from .memory_test import WORD_BITS


__all__ = ["BoardRegisters"]


#: Writable registers with less than 32 bits, and where they begin: words have addresses of 4.
SPANS = {"test_addr": (2, 30), "test_words": (0, 30), "test_pattern": (0, 1)}


class BoardRegisters(wiring.Component):
    """The registers of :data:`.map.BOARD_REGISTERS`.

    Writes to other addresses, and reads of them, are answered with SLVERR, change nothing, and
    read as 0. Writes act on whole words.

    Parameters
    ----------
    clk_hz, baud, memory_bytes : int
        What the board says of itself.

    Members
    -------
    axi : ``In(AXI4LiteSignature(12))``
        The link.
    memory_ready, stuck, irq, busy, failed : ``In(1)``
        Bits of `status`.
    framing, overrun, timeout, bus : ``In(1)``
        Pulses: errors of the link.
    bus_addr : ``In(32)``
        Address that belongs to `bus`.
    operation : ``Out(2)``
        Pulse with the operation that starts.
    word, words, seed, lfsr : ``Out``
        Parameters of the memory test.
    left, errors, bad_word, crc : ``In``
        Its results.
    """
    def __init__(self, *, clk_hz: int, baud: int, memory_bytes: int):
        self._facts = {"id": BOARD_ID, "version": BOARD_VERSION, "clk_hz": clk_hz,
                       "uart_baud": baud, "memory_kib": memory_bytes >> 10}
        super().__init__({
            "axi": In(AXI4LiteSignature(BOARD.addr_bits)),
            "memory_ready": In(1), "stuck": In(1), "irq": In(1), "busy": In(1), "failed": In(1),
            "framing": In(1), "overrun": In(1), "timeout": In(1), "bus": In(1),
            "bus_addr": In(32),
            "operation": Out(2), "word": Out(WORD_BITS), "words": Out(WORD_BITS), "seed": Out(32),
            "lfsr": Out(1),
            "left": In(WORD_BITS), "errors": In(32), "bad_word": In(WORD_BITS), "crc": In(32),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bus = bus = RegisterBus(BOARD.addr_bits)
        connect(m, flipped(self.axi), bus.axi)

        counts = {}
        for name in BOARD_REGISTERS["link_errors"].bits:
            counts[name] = count = Signal(8, name=f"{name}_count")
            with m.If(getattr(self, name) & (count != 255)):
                m.d.sync += count.eq(count + 1)
        bus_addr = Signal(32)
        with m.If(self.bus):
            m.d.sync += bus_addr.eq(self.bus_addr)

        # The registers that are written, without the bits that are always 0.
        scratch = Signal(32)
        stored = {"scratch": scratch, "test_addr": self.word, "test_words": self.words,
                  "test_seed": self.seed, "test_pattern": self.lfsr}
        contents = {
            **{name: C(value, 32) for name, value in self._facts.items()},
            "status": self._fields("status", **{
                name: getattr(self, name) for name in BOARD_REGISTERS["status"].bits}),
            "link_errors": self._fields("link_errors", **counts),
            "bus_error_addr": bus_addr, "test_control": C(0, 32),
            "test_left": self.left, "test_errors": self.errors,
            "test_bad_addr": Cat(C(0, 2), self.bad_word), "test_crc": self.crc,
        }

        m.d.comb += [bus.read_done.eq(1), bus.read_error.eq(1), bus.write_error.eq(1)]
        value = bus.write_data
        with m.Switch(bus.read_word):
            for name, register in BOARD_REGISTERS.items():
                with m.Case(register.offset // 4):
                    lsb, _ = SPANS.get(name, (0, 32))
                    shown = Cat(C(0, lsb), stored[name]) if name in stored else contents[name]
                    m.d.comb += [bus.read_data.eq(shown), bus.read_error.eq(0)]
        with m.Switch(bus.write_word):
            for name, register in BOARD_REGISTERS.items():
                if register.access == "ro":
                    continue
                with m.Case(register.offset // 4):
                    m.d.comb += bus.write_error.eq(0)
                    with m.If(bus.write_stb):
                        if name in stored:
                            lsb, width = SPANS.get(name, (0, 32))
                            m.d.sync += stored[name].eq(value[lsb:lsb + width])
                        else:
                            m.d.comb += self.operation.eq(value)
        return m

    def _fields(self, register, **values):
        result = Const(0, 32)
        for name, (lsb, width) in BOARD_REGISTERS[register].bits.items():
            result = result | values[name][:width] << lsb
        return result[:32]

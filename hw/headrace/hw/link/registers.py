"""Registers of the board."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import AXI4LiteSignature
from ..control.bus import RegisterBus
from .map import BOARD, BOARD_ID, BOARD_REGISTERS, BOARD_VERSION
from .memory_test import WORD_BITS


__all__ = ["BoardRegisters"]


#: Parameters of the memory test, in the order of `load`.
PARAMETERS = ("test_addr", "test_words", "test_seed")


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
    operation, lfsr : ``Out(2)``, ``Out(1)``
        Operation of the memory test that starts; 0 for none.
    load, data : ``Out(3)``, ``Out(32)``
        Pulses that give a parameter of :data:`PARAMETERS` this value.
    word, left, value, result, bad_word : ``In``
        State of the memory test.
    """
    def __init__(self, *, clk_hz: int, baud: int, memory_bytes: int):
        self._facts = {"id": BOARD_ID, "version": BOARD_VERSION, "clk_hz": clk_hz,
                       "uart_baud": baud, "memory_kib": memory_bytes >> 10}
        super().__init__({
            "axi": In(AXI4LiteSignature(BOARD.addr_bits)),
            "memory_ready": In(1), "stuck": In(1), "irq": In(1), "busy": In(1), "failed": In(1),
            "framing": In(1), "overrun": In(1), "timeout": In(1), "bus": In(1),
            "operation": Out(2), "lfsr": Out(1), "load": Out(len(PARAMETERS)), "data": Out(32),
            "word": In(WORD_BITS), "left": In(WORD_BITS), "value": In(32), "result": In(32),
            "bad_word": In(WORD_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bus = bus = RegisterBus(BOARD.addr_bits)
        connect(m, flipped(self.axi), bus.axi)

        counts = {}
        for name, (_, width) in BOARD_REGISTERS["link_errors"].bits.items():
            counts[name] = count = Signal(width, name=f"{name}_count")
            with m.If(getattr(self, name) & ~count.all()):
                m.d.sync += count.eq(count + 1)
        contents = {
            **{name: C(value, 32) for name, value in self._facts.items()},
            "status": self._fields("status", **{
                name: getattr(self, name) for name in BOARD_REGISTERS["status"].bits}),
            "link_errors": self._fields("link_errors", **counts), "test_control": C(0, 32),
            "test_addr": Cat(C(0, 2), self.word), "test_words": self.left,
            "test_seed": self.value, "test_result": self.result,
            "test_bad_addr": Cat(C(0, 2), self.bad_word),
        }

        # All registers are in the first words: a few bits of the address tell them apart.
        bits = (max(register.offset for register in BOARD_REGISTERS.values()) // 4).bit_length()
        known = Signal()
        m.d.comb += [bus.read_done.eq(1), bus.write_error.eq(1), self.data.eq(bus.write_data),
                     bus.read_error.eq(~known | bus.read_word[bits:].any())]
        # Constants are one function of the address; the others are gated each by its own bit, which
        # takes half the logic of a multiplexer of them all.
        constant, shown = Signal(32), []
        with m.Switch(bus.read_word[:bits]):
            for name, register in BOARD_REGISTERS.items():
                with m.Case(register.offset // 4):
                    m.d.comb += known.eq(1)
                    if isinstance(contents[name], Const):
                        m.d.comb += constant.eq(contents[name])
                    else:
                        here = Signal(name=f"{name}_read")
                        m.d.comb += here.eq(1)
                        shown.append(Mux(here, contents[name], 0))
        data = constant
        for value in shown:
            data = data | value
        m.d.comb += bus.read_data.eq(data)
        with m.If(~bus.write_word[bits:].any()):
            with m.Switch(bus.write_word[:bits]):
                for name, register in BOARD_REGISTERS.items():
                    if register.access == "ro":
                        continue
                    with m.Case(register.offset // 4):
                        m.d.comb += bus.write_error.eq(0)
                        with m.If(bus.write_stb):
                            if name in PARAMETERS:
                                m.d.comb += self.load[PARAMETERS.index(name)].eq(1)
                            else:
                                m.d.comb += Cat(self.operation, self.lfsr).eq(bus.write_data)
        return m

    def _fields(self, register, **values):
        result = Const(0, 32)
        for name, (lsb, width) in BOARD_REGISTERS[register].bits.items():
            result = result | values[name][:width] << lsb
        return result[:32]

"""Accelerator with link, registers and memory test: a board without its memory controller."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import AXI4LiteSignature, AXI4Signature
from ..config import Config, ConfigError
from ..device import Headrace
from .arbiter import IDS, Arbiter
from .bone import Bone
from .decoder import Decoder
from .map import DRAM, REGIONS, TIMEOUT_SECONDS, WINDOW
from .memory_test import MemoryTest
from .registers import BoardRegisters
from .uart import Receiver, Transmitter, rate_step
from .window import Window


__all__ = ["BoardCore"]


class BoardCore(wiring.Component):
    """What is the same on every board with a UART, see `docs/link.md`.

    Parameters
    ----------
    config : Config
        The accelerator.
    clk_hz : int
        Clock, at least four times the baud rate.
    uart_baud : int
        Bits per second.
    memory_bytes : int
        Size of the memory, a multiple of 4096.
    dram_control : bool
        With a port to registers of the DRAM controller.

    Members
    -------
    rx, tx : ``In(1)``, ``Out(1)``
        Pins of the UART, high when idle.
    axi : ``Out(AXI4Signature(addr_bits, port_bits))``
        Memory; its first byte has address 0.
    dram_control : ``Out(AXI4LiteSignature(16))``
        Registers of the DRAM controller; only with `dram_control`.
    memory_ready : ``In(1)``
        Memory can be used.

    Raises
    ------
    ConfigError
        If clock and baud rate do not go together, or the memory is too large for the window.
    """
    def __init__(self, config: Config, *, clk_hz: int, uart_baud: int, memory_bytes: int,
                 dram_control: bool):
        if memory_bytes % 4096 or not 0 < memory_bytes <= WINDOW.size:
            raise ConfigError(f"memory_bytes must be a multiple of 4096 up to {WINDOW.size}, the "
                              f"window of the link, not {memory_bytes}")
        self.config = config
        self._clk_hz, self._baud, self._memory_bytes = clk_hz, uart_baud, memory_bytes
        self._step = rate_step(clk_hz, uart_baud)
        self._regions = [region for region in REGIONS.values()
                         if region is not DRAM or dram_control]
        super().__init__({
            "rx": In(1), "tx": Out(1, init=1),
            "axi": Out(AXI4Signature(config.addr_bits, config.port_bits)),
            **({"dram_control": Out(AXI4LiteSignature(DRAM.addr_bits))} if dram_control else {}),
            "memory_ready": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        port = config.addr_bits, config.port_bits

        m.submodules.accelerator = accelerator = Headrace(config)
        m.submodules.receiver = receiver = Receiver(self._step)
        m.submodules.transmitter = transmitter = Transmitter(self._step)
        m.submodules.bone = bone = Bone(round(self._clk_hz * TIMEOUT_SECONDS))
        m.submodules.decoder = decoder = Decoder(self._regions)
        m.submodules.registers = registers = BoardRegisters(
            clk_hz=self._clk_hz, baud=self._baud, memory_bytes=self._memory_bytes)
        m.submodules.window = window = Window(*port, self._memory_bytes, IDS["window"])
        m.submodules.memory_test = test = MemoryTest(*port, IDS["test"])
        m.submodules.arbiter = arbiter = Arbiter(*port)

        # The link.
        m.d.comb += [receiver.pin.eq(self.rx), self.tx.eq(transmitter.pin)]
        connect(m, receiver.o, bone.i)
        connect(m, bone.o, transmitter.i)
        connect(m, bone.bus, decoder.bus)
        connect(m, decoder.accelerator, accelerator.ctrl)
        connect(m, decoder.board, registers.axi)
        connect(m, decoder.window, window.bus)
        if DRAM in self._regions:
            connect(m, decoder.dram, flipped(self.dram_control))

        # Memory.
        connect(m, accelerator.axi, arbiter.accelerator)
        connect(m, window.axi, arbiter.window)
        connect(m, test.axi, arbiter.test)
        connect(m, arbiter.axi, flipped(self.axi))

        # Registers.
        m.d.comb += [
            window.ready.eq(self.memory_ready),
            registers.memory_ready.eq(self.memory_ready), registers.stuck.eq(window.stuck),
            registers.irq.eq(accelerator.irq),
            registers.framing.eq(receiver.framing), registers.overrun.eq(receiver.overrun),
            registers.timeout.eq(bone.timed_out), registers.bus.eq(bone.failed),
            # Without memory nothing would ever end.
            test.operation.eq(Mux(self.memory_ready, registers.operation, 0)),
            *(getattr(test, name).eq(getattr(registers, name))
              for name in ("lfsr", "load", "data")),
            *(getattr(registers, name).eq(getattr(test, name))
              for name in ("busy", "failed", "word", "left", "value", "result", "bad_word")),
        ]
        return m

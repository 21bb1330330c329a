"""UART: eight bits, no parity, one stop bit."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..config import ConfigError


__all__ = ["LEAST_RATIO", "Receiver", "Transmitter", "rate_step"]


#: Fewest clock cycles per bit.
LEAST_RATIO = 4

#: Bits of the phase in a bit time.
PHASE_BITS = 20

#: Greatest error of the bit rate: half of what ten bits allow, the other side has its own.
TOLERANCE = 0.01


def rate_step(clk_hz: int, baud: int) -> int:
    """Phase that passes in one cycle: a bit time is ``2**PHASE_BITS``.

    Raises
    ------
    ConfigError
        If the clock is too slow, or so fast that the bit rate is missed.
    """
    if baud < 1 or clk_hz < LEAST_RATIO * baud:
        raise ConfigError(f"uart_baud must be between 1 and clk_hz / {LEAST_RATIO} = "
                          f"{clk_hz // LEAST_RATIO}, not {baud}")
    step = round((baud << PHASE_BITS) / clk_hz)
    if abs(step * clk_hz / (baud << PHASE_BITS) - 1) > TOLERANCE:
        raise ConfigError(f"uart_baud {baud} is too slow for a clock of {clk_hz} Hz: the bit rate "
                          f"would be wrong by more than {TOLERANCE:.0%}")
    return step


class Receiver(wiring.Component):
    """Bytes from a pin.

    Each bit is sampled in its middle. A byte without a stop bit is dropped, and nothing is taken
    until the line is idle again. The pin is synchronised here.

    Parameters
    ----------
    step : int
        See :func:`rate_step`.

    Members
    -------
    pin : ``In(1)``
        High when idle.
    o : ``Out(stream.Signature(8))``
        Bytes; one that is not taken before the next is complete is lost.
    framing, overrun : ``Out(1)``
        Pulses: a byte without a stop bit, a lost one.
    """
    def __init__(self, step: int):
        self._step = step
        super().__init__({"pin": In(1), "o": Out(stream.Signature(8)), "framing": Out(1),
                          "overrun": Out(1)})

    def elaborate(self, platform):
        m = Module()
        level = Signal(init=1)
        m.submodules.synchroniser = FFSynchronizer(self.pin, level, init=1)

        phase = Signal(PHASE_BITS)
        tick = Signal()
        later = Signal(PHASE_BITS + 1)
        m.d.comb += [later.eq(phase + self._step), tick.eq(later[-1])]
        m.d.sync += phase.eq(later)

        bits = Signal(9)                 # a start bit that has come through ends the byte
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.FSM():
            with m.State("idle"):
                with m.If(~level):
                    # The first tick is in the middle of the start bit.
                    m.d.sync += [phase.eq(1 << (PHASE_BITS - 1)), bits.eq(0)]
                    m.next = "start"
            with m.State("start"):
                with m.If(tick):
                    m.d.sync += bits.eq(1 << 8)
                    m.next = "data"
                    with m.If(level):
                        m.next = "idle"
            with m.State("data"):
                with m.If(tick):
                    m.d.sync += bits.eq(Cat(bits[1:], level))
                    with m.If(bits[0]):
                        # This was the stop bit, and the data are in the upper eight.
                        m.next = "idle"
                        with m.If(level):
                            m.d.comb += self.overrun.eq(self.o.valid & ~self.o.ready)
                            m.d.sync += [self.o.payload.eq(bits[1:]), self.o.valid.eq(1)]
                        with m.Else():
                            m.d.comb += self.framing.eq(1)
                            m.next = "broken"
            with m.State("broken"):
                with m.If(level):
                    m.next = "idle"
        return m


class Transmitter(wiring.Component):
    """Bytes to a pin.

    Parameters
    ----------
    step : int
        See :func:`rate_step`.

    Members
    -------
    i : ``In(stream.Signature(8))``
        Bytes.
    pin : ``Out(1)``
        High when idle.
    """
    def __init__(self, step: int):
        self._step = step
        super().__init__({"i": In(stream.Signature(8)), "pin": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        phase = Signal(PHASE_BITS)
        later = Signal(PHASE_BITS + 1)
        bits = Signal(10)                # start bit on its way out first; 0 when all have gone
        m.d.comb += [later.eq(phase + self._step), self.i.ready.eq(bits == 0)]
        m.d.sync += self.pin.eq(bits[0] | (bits == 0))
        with m.If(self.i.ready):
            m.d.sync += phase.eq(0)
            with m.If(self.i.valid):
                m.d.sync += bits.eq(Cat(C(0, 1), self.i.payload, C(1, 1)))
        with m.Else():
            m.d.sync += phase.eq(later)
            with m.If(later[-1]):
                m.d.sync += bits.eq(bits >> 1)
        return m

"""Clock and pins of an ECP5: its PLL, and the cells in which pins have their registers."""

from dataclasses import dataclass

from amaranth import *
from amaranth.hdl import IOPort
from amaranth.lib import io
from amaranth.vendor import LatticePlatform

from headrace.sw.errors import HeadraceError

from .catalogue import Board


__all__ = ["PllDividers", "Platform", "make_pll", "pll_dividers"]


#: Ranges of the PLL in Hz: oscillator, and phase detector.
_VCO = (400_000_000, 800_000_000)
_DETECTOR = (3_125_000, 400_000_000)


@dataclass(frozen=True)
class PllDividers:
    """Dividers of a PLL: input, feedback, and the two outputs; the first is fed back."""

    input: int
    feedback: int
    first: int
    second: int


def pll_dividers(input_hz: int, first_hz: int, second_hz: int) -> PllDividers:
    """Dividers that make exactly two clocks from one; they rise together where one can.

    Raises
    ------
    HeadraceError
        There are none.
    """
    for divide in range(1, 129):
        detector = input_hz / divide
        if not _DETECTOR[0] <= detector <= _DETECTOR[1] or first_hz * divide % input_hz:
            continue
        feedback = first_hz * divide // input_hz
        # The fastest oscillator has the least jitter.
        for output in range(min(128, _VCO[1] // first_hz), 0, -1):
            vco = first_hz * output
            if vco < _VCO[0] or feedback > 80 or vco % second_hz or vco // second_hz > 128:
                continue
            return PllDividers(divide, feedback, output, vco // second_hz)
    raise HeadraceError(f"an ECP5's PLL makes no {first_hz / 1e6:g} and {second_hz / 1e6:g} MHz "
                        f"from {input_hz / 1e6:g} MHz: choose clocks in the ratio of small "
                        f"numbers")


def make_pll(clk_in: Value, input_hz: int, first: tuple[Value, int],
             second: tuple[Value, int]) -> tuple[Instance, Value]:
    """A PLL with two outputs in phase, each a signal and its frequency; and its `locked`."""
    dividers = pll_dividers(input_hz, first[1], second[1])
    locked = Signal()
    # A phase of (divider - 1) lets both outputs rise with the input.
    return Instance(
        "EHXPLLL",
        p_CLKI_DIV=dividers.input, p_CLKFB_DIV=dividers.feedback, p_FEEDBK_PATH="CLKOP",
        p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=dividers.first, p_CLKOP_CPHASE=dividers.first - 1,
        p_CLKOP_FPHASE=0,
        p_CLKOS_ENABLE="ENABLED", p_CLKOS_DIV=dividers.second,
        p_CLKOS_CPHASE=dividers.second - 1, p_CLKOS_FPHASE=0,
        a_FREQUENCY_PIN_CLKI=f"{input_hz / 1e6:g}", a_FREQUENCY_PIN_CLKOP=f"{first[1] / 1e6:g}",
        a_FREQUENCY_PIN_CLKOS=f"{second[1] / 1e6:g}", a_ICP_CURRENT="12", a_LPF_RESISTOR="8",
        i_CLKI=clk_in, i_CLKFB=first[0], i_RST=0, i_STDBY=0, i_PHASESEL0=0, i_PHASESEL1=0,
        i_PHASEDIR=1, i_PHASESTEP=1, i_PHASELOADREG=1, i_PLLWAKESYNC=0, i_ENCLKOP=0,
        o_CLKOP=first[0], o_CLKOS=second[0], o_LOCK=locked), locked


class Platform(LatticePlatform):
    """A part without a board: names and places of pins are the flow's, not Amaranth's.

    Attributes
    ----------
    ports : dict of str to IOPort
        Pins that were asked for, by name.
    """

    resources = connectors = ()
    device = package = speed = ""

    def __init__(self, board: Board):
        self.device, self.package, self.speed = board.part, board.package, board.speed
        super().__init__()
        self.board = board
        self.ports: dict[str, IOPort] = {}

    def port(self, name: str) -> io.SingleEndedPort:
        """The pins of a port of the board."""
        pins = self.board.port(name)
        self.ports[name] = ioport = IOPort(len(pins.sites), name=name)
        return io.SingleEndedPort(ioport, direction=pins.direction)

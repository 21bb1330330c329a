"""What a DRAM controller is generated from."""

from dataclasses import asdict, dataclass, field
from fractions import Fraction

from headrace.sw.errors import HeadraceError

from ..catalogue import Board


__all__ = ["ControllerSpec", "controller_spec"]


@dataclass(frozen=True, kw_only=True)
class ControllerSpec:
    """A DRAM controller with one AXI port.

    Parameters
    ----------
    kind : str
        ``SDR`` or ``DDR3``.
    module : str
        LiteDRAM's class of the chip.
    data_bits : int
        Width of the data bus to the chip.
    clk_hz : int
        Clock of controller and port.
    rate : str
        That clock to the DRAM's: ``1:1`` or ``1:2``.
    model : bool
        With LiteDRAM's model of PHY and chip instead of pins, for simulation.
    options : dict
        ``cl``: CAS latency of SDR SDRAM. ``dm_swap``, ``rtt_nom``: see LiteDRAM's generator.
        ``buffer_words``: words that the port buffers in each direction. ``model_rows``: rows of a
        bank of the model, fewer than the chip has.
    """

    kind: str
    module: str
    data_bits: int
    clk_hz: int
    rate: str
    model: bool = False
    options: dict[str, int | str] = field(default_factory=dict)

    def __post_init__(self):
        rates = {"SDR": ("1:1", "1:2"), "DDR3": ("1:2",)}
        if self.kind not in rates:
            raise HeadraceError(f"DRAM controller: no kind {self.kind!r}: expected one of "
                                f"{', '.join(rates)}; a memory of kind PS has its own controller")
        if self.rate not in rates[self.kind]:
            raise HeadraceError(f"DRAM controller: rate {self.rate!r} of {self.kind}: expected one "
                                f"of {', '.join(rates[self.kind])}")
        if self.data_bits not in (8, 16, 32, 64):
            raise HeadraceError(f"DRAM controller: {self.data_bits} data bits: expected 8, 16, 32 "
                                f"or 64")
        if self.model and self.kind == "SDR":
            raise HeadraceError("DRAM controller: SDR SDRAM is simulated at its pins: no model of "
                                "PHY and chip takes its place")

    @property
    def ratio(self) -> int:
        """Clocks of the DRAM in one of the controller."""
        return int(self.rate.split(":")[1])

    @property
    def dram_hz(self) -> int:
        """Clock of the DRAM."""
        return self.clk_hz * self.ratio

    @property
    def cl(self) -> int:
        """CAS latency of SDR SDRAM, in clocks of the DRAM: 2 up to 100 MHz."""
        return int(self.options.get("cl", 2 if self.dram_hz <= 100_000_000 else 3))

    @property
    def width(self) -> int:
        """Bits of a word of the controller: what one command moves."""
        return self.data_bits * (8 if self.kind == "DDR3" else self.ratio)

    @property
    def peak(self) -> Fraction:
        """Bits per clock of the controller that the pins of the DRAM can move."""
        return Fraction(self.data_bits * self.ratio * (2 if self.kind == "DDR3" else 1))

    @property
    def facts(self) -> dict:
        """All of it, as plain data."""
        return asdict(self)


#: Rows of a bank of a simulated DDR3 chip: its content is inside the Verilog.
_MODEL_ROWS = 2048


def controller_spec(board: Board, *, model: bool = False) -> ControllerSpec:
    """The controller of a board's memory, at the clock of its accelerator.

    With `model` its DRAM is a model, of less capacity than the board's, see `size_bytes` among the
    facts of the generated controller.

    Raises
    ------
    HeadraceError
        The board has none of its own, or the clocks do not fit each other.
    """
    memory = board.memory
    spec = ControllerSpec(kind=memory.kind, module=memory.module, data_bits=memory.data_bits,
                          clk_hz=board.clk_hz, rate=memory.rate, model=model,
                          options={**memory.options,
                                   **({"model_rows": _MODEL_ROWS} if model else {})})
    if memory.clock_hz != spec.dram_hz:
        raise HeadraceError(f"board {board.name}: its DRAM runs at {memory.clock_hz} Hz, but "
                            f"{memory.rate} of its clock of {board.clk_hz} Hz makes "
                            f"{spec.dram_hz} Hz: change one of the three")
    return spec

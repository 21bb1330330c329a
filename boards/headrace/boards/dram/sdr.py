"""The generator's part for SDR SDRAM: PHY, and commands before the controller takes over."""

from litedram.phy.gensdrphy import GENSDRPHY, HalfRateGENSDRPHY
from litex.build.io import SDROutput, SDRTristate
from migen import Cat, ClockDomainsRenamer, If, Module, Record, Signal

from .spec import ControllerSpec


__all__ = ["COMMANDS", "Pins", "connect_start", "make_phy", "overrides"]


#: Pins that the controller drives, in the order of a command.
COMMANDS = ("cs_n", "ras_n", "cas_n", "we_n")


class Pins(Record):
    """Pins of the chip as LiteDRAM's PHY wants them; those of data never leave the generator.

    Registers of pins belong to the part's own cells, or to the simulation: here, both sides of
    them are ports, ``sdram_*`` for what a register will drive one clock of the DRAM later, and
    ``sdram_dq_i`` for what one has captured.
    """

    def __init__(self, module, data_bits: int):
        super().__init__([("a", module.geom_settings.addressbits),
                          ("ba", module.geom_settings.bankbits), ("cs_n", 1), ("ras_n", 1),
                          ("cas_n", 1), ("we_n", 1), ("cke", 1), ("dm", data_bits // 8),
                          ("dq", data_bits)])
        self.dq_o = Signal(data_bits, name_override="sdram_dq_o")
        self.dq_oe = Signal(data_bits, name_override="sdram_dq_oe")
        self.dq_i = Signal(data_bits, name_override="sdram_dq_i")
        self.outputs = [getattr(self, name) for name in ("a", "ba", *COMMANDS, "cke", "dm")]
        for name in ("a", "ba", *COMMANDS, "cke", "dm"):
            getattr(self, name).name_override = f"sdram_{name}"

    @property
    def ports(self) -> set:
        """Ports of the generated module."""
        return {*self.outputs, self.dq_o, self.dq_oe, self.dq_i}


def overrides(pins: Pins) -> dict:
    """How the PHY's cells are lowered: to wires, since registers of pins are outside."""

    class Output:
        @staticmethod
        def lower(cell):
            wire = Module()
            wire.comb += cell.o.eq(cell.i)
            return wire

    class Tristate:
        @staticmethod
        def lower(cell):
            wires, bit = Module(), cell.io.start
            wires.comb += [pins.dq_o[bit].eq(cell.o), pins.dq_oe[bit].eq(cell.oe),
                           cell.i.eq(pins.dq_i[bit])]
            return wires

    return {SDROutput: Output, SDRTristate: Tristate}


def make_phy(spec: ControllerSpec, pins: Pins):
    """LiteDRAM's PHY, which runs while the controller is still in reset."""
    kind = {1: GENSDRPHY, 2: HalfRateGENSDRPHY}[spec.ratio]
    phy = kind(pins, spec.clk_hz, cl=spec.cl)
    return ClockDomainsRenamer({"sys": "phy", **({"sys2x": "phy2x"} if spec.ratio == 2 else {})}
                               )(phy)


def connect_start(core, start: Signal, command: Record) -> None:
    """While `start` is high, `command` goes to the first phase instead of the controller's."""
    injector = core.dfii
    first, *others = injector.ext_dfi.phases
    core.comb += [
        injector.ext_dfi_sel.eq(start),
        first.address.eq(command.a), first.bank.eq(command.ba),
        Cat(*(getattr(first, name) for name in COMMANDS)).eq(
            Cat(*(getattr(command, name) for name in COMMANDS))),
        *(phase.cke.eq(command.cke) for phase in injector.ext_dfi.phases),
        *(getattr(phase, name).eq(1) for phase in others for name in COMMANDS),
    ]
    # Nothing is read or written before the controller has the pins.
    core.comb += [If(start, *(phase.wrdata_en.eq(0) for phase in injector.ext_dfi.phases),
                     *(phase.rddata_en.eq(0) for phase in injector.ext_dfi.phases))]

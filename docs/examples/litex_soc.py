"""A small LiteX SoC with the accelerator: UART bridge, memory, no processor.

    headrace verilog --config tiny -o verilog
    python docs/examples/litex_soc.py verilog -o soc

The control port is AXI4-Lite on the SoC's bus; the memory port is AXI4 on a port of LiteDRAM of
its own, or, with --memory sram, on the SoC's bus.
"""

import argparse
import contextlib
import json
from pathlib import Path

from litedram.frontend.axi import LiteDRAMAXI2Native
from litedram.modules import MT48LC16M16
from litedram.phy.model import SDRAMPHYModel
from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import axi
from migen import ClockDomain, ClockSignal, Instance, ResetSignal, Signal


#: Where the control port is on the SoC's bus; `headrace verilog --base` takes the same.
CONTROL = 0x9000_0000


class Headrace(LiteXModule):
    """The accelerator as a LiteX module.

    Parameters
    ----------
    platform : GenericPlatform
        Gets ``headrace.v``.
    folder : Path
        What ``headrace verilog`` wrote.

    Attributes
    ----------
    memory : AXIInterface
        Master, with IDs of 3 bits: they must come back with the answers, and answers of different
        IDs in the order of the reads.
    control : AXILiteInterface
        Slave of 4 KiB.
    irq : Signal
        A level.
    """

    def __init__(self, platform, folder):
        ports = json.loads((folder / "headrace.json").read_text())["ports"]
        self.memory = memory = axi.AXIInterface(
            data_width=ports["axi"]["data_bits"], address_width=32, id_width=3)
        self.control = control = axi.AXILiteInterface(data_width=32, address_width=32)
        self.irq = Signal()
        # The accelerator has longer addresses than this bus, and its control port shorter ones.
        address = {}
        for channel in ("aw", "ar"):
            long = Signal(ports["axi"]["addr_bits"])
            self.comb += getattr(memory, channel).addr.eq(long)
            address["axi", channel] = long
            address["ctrl", channel] = getattr(control, channel).addr[:ports["ctrl"]["addr_bits"]]
        pins = {"i_clk": ClockSignal("sys"), "i_rst": ResetSignal("sys"), "o_irq": self.irq}
        for prefix, bus, to_bus in (("axi", memory, "o"), ("ctrl", control, "i")):
            to_port = "io".replace(to_bus, "")
            for channel in ("aw", "w", "ar", "b", "r"):
                ours, theirs = ((to_bus, to_port) if channel in ("aw", "w", "ar")
                                else (to_port, to_bus))
                stream = getattr(bus, channel)
                pins[f"{ours}_{prefix}__{channel}valid"] = stream.valid
                pins[f"{theirs}_{prefix}__{channel}ready"] = stream.ready
                for name, signal in self._payload(stream, channel, prefix == "axi").items():
                    pins[f"{ours}_{prefix}__{channel}{name}"] = (
                        address[prefix, channel] if name == "addr" else signal)
        self.specials += Instance("headrace", name="headrace_0", **pins)
        platform.add_source(str(folder / "headrace.v"))

    @staticmethod
    def _payload(stream, channel, full):
        """Signals of a channel that the accelerator has too."""
        names = {"aw": ("addr",), "ar": ("addr",), "w": ("data", "strb"), "b": ("resp",),
                 "r": ("data", "resp")}[channel]
        found = {name: getattr(stream, name) for name in names}
        if channel in ("aw", "ar"):
            extra = ("len", "size", "burst", "id") if full else ("prot",)
            # LiteX's AXI4-Lite has no protection bits; the accelerator does not look at them.
            found |= {name: getattr(stream, name, 0) for name in extra}
        elif full:
            found |= {"last": stream.last} if channel in ("w", "r") else {}
            found |= {"id": stream.id} if channel in ("b", "r") else {}
        return found


class Clock(LiteXModule):
    """The clock of the SoC from its pin."""

    def __init__(self, clk, rst):
        self.cd_sys = ClockDomain()
        self.comb += [self.cd_sys.clk.eq(clk), self.cd_sys.rst.eq(rst)]


class SoC(SoCCore):
    """UART bridge, memory and the accelerator on a Wishbone bus.

    Parameters
    ----------
    platform : GenericPlatform
    folder : Path
        What ``headrace verilog`` wrote.
    clk_hz : int
    memory : str
        "sdram": LiteDRAM, here with its model of the chip in place of a board's PHY; "sram".
    """

    def __init__(self, platform, folder, clk_hz=50_000_000, memory="sdram"):
        self.crg = Clock(platform.request("clk"), platform.request("rst"))
        super().__init__(platform, clk_hz, cpu_type=None, with_uart=False, with_timer=False,
                         ident="headrace", integrated_main_ram_size=0 if memory == "sdram"
                         else 1 << 20)
        self.add_uartbone(uart_name="serial", baudrate=1_000_000)
        self.headrace = Headrace(platform, folder)
        self.bus.add_slave("headrace", self.headrace.control, SoCRegion(
            origin=CONTROL, size=4096, cached=False))
        if memory == "sdram":
            module = MT48LC16M16(clk_hz, "1:1")
            self.sdrphy = SDRAMPHYModel(module, data_width=32, clk_freq=clk_hz)
            # No cache on the side of the host: the accelerator would not see what is in it.
            self.add_sdram("sdram", phy=self.sdrphy, module=module, l2_cache_size=0)
            port = self.sdram.crossbar.get_port(data_width=self.headrace.memory.data_width)
            # The accelerator's addresses begin at the first byte of the chip: the base register
            # of an image is its place in `main_ram`.
            self.headrace_port = LiteDRAMAXI2Native(self.headrace.memory, port,
                                                    r_buffer_depth=64, w_buffer_depth=64)
        else:
            # Here they are addresses of the bus: an image is at the origin of main_ram or later.
            self.bus.add_master("headrace", self.headrace.memory)


def platform():
    """Pins of the example; a board's platform in its place makes a bitstream."""
    return SimPlatform("SIM", [
        ("clk", 0, Pins(1)), ("rst", 0, Pins(1)),
        ("serial", 0, Subsignal("tx", Pins(1)), Subsignal("rx", Pins(1))),
    ])


def build(folder, output, memory="sdram"):
    """Write ``soc.v`` and LiteX's own ``csr.json``; return the SoC."""
    from litex.soc.integration.export import get_csr_json
    soc = SoC(platform(), folder, memory=memory)
    soc.finalize()
    output.mkdir(parents=True, exist_ok=True)
    text = soc.platform.get_verilog(soc, name="soc")
    # Contents of memories are written where the process is, and soc.v names them without a folder.
    with contextlib.chdir(output):
        text.write("soc.v")
    (output / "csr.json").write_text(get_csr_json(soc.csr_regions, soc.constants,
                                                  soc.mem_regions))
    return soc


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what `headrace verilog` wrote")
    parser.add_argument("-o", "--output", type=Path, default=Path("soc"))
    parser.add_argument("--memory", choices=("sdram", "sram"), default="sdram")
    chosen = parser.parse_args()
    build(chosen.folder, chosen.output, chosen.memory)
    print(chosen.output / "soc.v")

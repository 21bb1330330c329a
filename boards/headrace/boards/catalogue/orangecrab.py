"""OrangeCrab r0.2.1 with an ECP5-85F: `ecp5` beside 512 MB of DDR3, UART on the header."""

from .board import Board, Link, Memory, Pins


__all__ = ["BOARD"]


def _dram(port: str, balls: str, direction: str = "o", io_type: str = "SSTL135_I",
          **options: str) -> Pins:
    return Pins(port=f"ddram_{port}", balls=balls, direction=direction, io_type=io_type,
                options={"SLEWRATE": "FAST", **options})


BOARD = Board(
    name="orangecrab",
    title="OrangeCrab r0.2.1 (85F)",
    family="ecp5", part="LFE5U-85F", order="LFE5U-85F-8MG285C", package="CSFBGA285", speed="8",
    preset="ecp5", clk_hz=75_000_000, input_hz=48_000_000,
    memory=Memory(
        kind="DDR3", title="DDR3L x16 of 512 MB (one MT41K256M16)", size_bytes=512 << 20,
        data_bits=16, clock_hz=150_000_000, dram="litedram-ddr3-300-x16", module="MT41K256M16",
        phy="ECP5DDRPHY", rate="1:2",
        # The chip's masks are wired to the pins of the other byte: LiteDRAM's `dm_swap`.
        options={"dm_swap": True, "rtt_nom": "disabled"}),
    link=Link(kind="uart", title="3.3 V USB adapter at the header: pin 0 is RX, pin 1 is TX",
              url="uart:///dev/ttyUSB0?baud=1000000&board=orangecrab", baud=1_000_000),
    pins=(
        Pins(port="clk", balls="A9", direction="i"),
        # The user button; low while it is pressed.
        Pins(port="reset_button_n", balls="J17", direction="i", io_type="SSTL135_I"),
        Pins(port="uart_rx", balls="N17", direction="i", options={"PULLMODE": "UP"}),
        Pins(port="uart_tx", balls="M18", direction="o"),
        # Red, green, blue; low is on.
        Pins(port="led_n", balls="K4 M3 J3", direction="o"),
        _dram("a", "C4 D2 D3 A3 A4 D4 C3 B2 B1 D1 A7 C2 B6 C1 A2"),
        _dram("ba", "D6 B7 A6"),
        _dram("ras_n", "C12"),
        _dram("cas_n", "D13"),
        _dram("we_n", "B12"),
        _dram("cs_n", "A12"),
        _dram("dm", "D16 G16"),
        _dram("dq", "C17 D15 B17 C16 A15 B13 A17 A13 F17 F16 G15 F15 J16 C18 H16 F18", "io",
              TERMINATION="OFF"),
        _dram("dqs_p", "B15 G18", "io", "SSTL135D_I", TERMINATION="OFF", DIFFRESISTOR="100"),
        _dram("clk_p", "J18", io_type="SSTL135D_I"),
        _dram("cke", "D18"),
        _dram("odt", "C13"),
        _dram("reset_n", "L18"),
        # On the board these are supplies of the DRAM's bank: driven, they carry return currents.
        Pins(port="ddram_vccio", balls="K16 D17 K15 K17 B18 C6", direction="o",
             io_type="SSTL135_II", options={"SLEWRATE": "FAST"}, level=1),
        Pins(port="ddram_gnd", balls="L15 L16", direction="o", io_type="SSTL135_II",
             options={"SLEWRATE": "FAST"}, level=0),
    ),
    loader=("--board", "orangeCrab"),
    # The flash is read at this speed when the board starts.
    pack=("--freq", "38.8"),
    source="orangecrab-hardware, r0.2.1. amaranth-boards 0.0.21 has other balls for bank address, "
           "data masks and strobes than the schematic",
    notes=("The 85F has 512 MB; the 25F (128 MB) is too small for `ecp5`.",
           "The bootloader's DFU may refuse a bitstream of the 85F for its size: flash over the "
           "JTAG pins.",),
)

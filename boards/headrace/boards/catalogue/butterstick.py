"""ButterStick r1.0 8G-85F: `ecp5` beside one rank of its DDR3, UART at the microSD socket."""

from .board import Board, Link, Memory, Pins


__all__ = ["BOARD"]


def _dram(port: str, balls: str, direction: str = "o", io_type: str = "SSTL135_I",
          level: int | None = None, **options: str) -> Pins:
    return Pins(port=f"ddram_{port}", balls=balls, direction=direction, io_type=io_type,
                options={"SLEWRATE": "FAST", **options}, level=level)


BOARD = Board(
    name="butterstick",
    title="ButterStick r1.0 (8G-85F)",
    family="ecp5", part="LFE5U-85F", order="LFE5UM5G-85F-8BG381C", package="CABGA381", speed="8",
    preset="ecp5", clk_hz=75_000_000, input_hz=30_000_000,
    memory=Memory(
        kind="DDR3", title="DDR3L x16, first rank: 512 MB (one of two MT41K256M16)",
        size_bytes=512 << 20, data_bits=16, clock_hz=150_000_000, dram="litedram-ddr3-300-x16",
        module="MT41K256M16", phy="ECP5DDRPHY", rate="1:2"),
    link=Link(kind="uart", title="3.3 V USB adapter at a microSD breakout in the socket: DAT0 is "
                                 "TX, DAT1 is RX",
              url="uart:///dev/ttyUSB0?baud=1000000&board=butterstick", baud=1_000_000),
    pins=(
        Pins(port="clk", balls="B12", direction="i"),
        # User button 0; low while it is pressed.
        Pins(port="reset_button_n", balls="U16", direction="i", io_type="SSTL135_I"),
        Pins(port="uart_rx", balls="A12", direction="i", options={"PULLMODE": "UP"}),
        Pins(port="uart_tx", balls="C12", direction="o"),
        Pins(port="led", balls="C13 D12 U2 T3 D13 E13 C16", direction="o"),
        # Colour of all LEDs: blue.
        Pins(port="led_blue", balls="R1", direction="o", level=1),
        Pins(port="led_other", balls="T1 U1", direction="o", level=0),
        _dram("a", "G16 E19 E20 F16 F19 E16 F17 L20 M20 E18 G18 D18 H18 C18 D17"),
        _dram("ba", "H16 F20 H20"),
        _dram("ras_n", "K18"),
        _dram("cas_n", "J17"),
        _dram("we_n", "G19"),
        _dram("cs_n", "J20"),
        _dram("dm", "U20 L18"),
        _dram("dq", "U19 T18 U18 R20 P18 P19 P20 N20 L19 L17 L16 R16 N18 R17 N17 P17", "io",
              TERMINATION="75"),
        _dram("dqs_p", "T19 N16", "io", "SSTL135D_I", TERMINATION="OFF", DIFFRESISTOR="100"),
        _dram("clk_p", "C20", io_type="SSTL135D_I"),
        _dram("cke", "F18"),
        _dram("odt", "K20"),
        _dram("reset_n", "E17"),
        # The second rank sleeps.
        _dram("cs_n1", "J16", level=1),
        _dram("cke1", "J18", level=0),
        _dram("odt1", "H17", level=0),
    ),
    # openFPGALoader has no entry for this board: any cable at its JTAG header.
    loader=("--cable", "ft2232"),
    pack=("--freq", "38.8"),
    source="amaranth-boards 0.0.21, butterstick.py",
    notes=("The 2G-85F has two MT41K64M16: give the memory `module=\"MT41K64M16\"`, 128 MB and 13 "
           "bits of address.",
           "`headrace flash butterstick --cable NAME` takes the cable at the JTAG header "
           "(ft2232 if none is named).",),
)

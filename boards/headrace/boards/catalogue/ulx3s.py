"""Radiona ULX3S with an ECP5-85F: `tiny` beside 32 MB of SDR SDRAM, UART over USB."""

from .board import Board, Link, Memory, Pins


__all__ = ["BOARD"]


_FAST = {"SLEWRATE": "FAST", "DRIVE": "4", "PULLMODE": "NONE"}

BOARD = Board(
    name="ulx3s",
    title="Radiona ULX3S (85F)",
    family="ecp5", part="LFE5U-85F", order="LFE5U-85F-6BG381C", package="CABGA381", speed="6",
    preset="tiny", clk_hz=32_500_000, input_hz=25_000_000,
    memory=Memory(
        kind="SDR", title="16-bit SDR SDRAM of 32 MB (IS42S16160 or one of its kind)",
        size_bytes=32 << 20, data_bits=16, clock_hz=65_000_000,
        dram="litedram-sdr-65-x16",
        module="IS42S16160", phy="HalfRateGENSDRPHY", rate="1:2"),
    link=Link(kind="uart", title="FT231X at the USB socket US1",
              url="uart:///dev/ttyUSB0?baud=1000000", baud=1_000_000),
    pins=(
        Pins(port="clk", balls="G2", direction="i"),
        # The button FIRE1; high while it is pressed.
        Pins(port="reset_button", balls="R1", direction="i", options={"PULLMODE": "DOWN"}),
        Pins(port="uart_rx", balls="M1", direction="i", options={"PULLMODE": "UP"}),
        Pins(port="uart_tx", balls="L4", direction="o"),
        Pins(port="led", balls="B2 C2 C1 D2 D1 E2 E1 H3", direction="o", options={"DRIVE": "4"}),
        # Low for long, GPIO0 of the ESP32 would let it reload the FPGA.
        Pins(port="wifi_gpio0", balls="L2", direction="o", options={"PULLMODE": "UP"}, level=1),
        Pins(port="sdram_clock", balls="F19", direction="o", options=_FAST),
        Pins(port="sdram_cke", balls="F20", direction="o", options=_FAST),
        Pins(port="sdram_cs_n", balls="P20", direction="o", options=_FAST),
        Pins(port="sdram_we_n", balls="T20", direction="o", options=_FAST),
        Pins(port="sdram_cas_n", balls="T19", direction="o", options=_FAST),
        Pins(port="sdram_ras_n", balls="R20", direction="o", options=_FAST),
        Pins(port="sdram_dm", balls="U19 E20", direction="o", options=_FAST),
        Pins(port="sdram_ba", balls="P19 N20", direction="o", options=_FAST),
        Pins(port="sdram_a", balls="M20 M19 L20 L19 K20 K19 K18 J20 J19 H20 N19 G20 G19",
             direction="o", options=_FAST),
        Pins(port="sdram_dq", balls="J16 L18 M18 N18 P18 T18 T17 U20 E19 D20 D19 C20 E18 F18 J18 "
                                    "J17", direction="io", options=_FAST),
    ),
    loader=("--board", "ulx3s"),
    source="amaranth-boards 0.0.21, ulx3s.py",
)

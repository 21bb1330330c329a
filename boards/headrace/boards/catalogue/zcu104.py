"""AMD ZCU104: `wide` at a port of the processor system, with half of its DDR4."""

from .board import Board, Link, Memory, Processor


__all__ = ["BOARD"]


BOARD = Board(
    name="zcu104",
    title="AMD ZCU104",
    family="xcup", part="XCZU7EV (ZCU104)", order="xczu7ev-ffvc1156-2-e",
    preset="wide", clk_hz=200_000_000, presets=("wide", "edge"),
    memory=Memory(
        kind="PS", title="DDR4-2400 x64 of the processor system, its upper 1 GB of 2",
        size_bytes=1 << 30, data_bits=64, clock_hz=1_200_000_000, dram="ddr4-2400-x64",
        port_bits=128),
    link=Link(kind="ps", title="the board's own Linux", url="devmem://zcu104"),
    processor=Processor(
        kind="zynq_ultra_ps_e", board_part="xilinx.com:zcu104:part0:*",
        control_base=0xa000_0000, memory_base=0x4000_0000, reserve="mem=1G"),
    source="part and port names of the vendor's tools",
    notes=("One port of the processor system brings 128 bits per clock, a quarter of what `wide` "
           "takes. DDR4 in the socket of the programmable logic would feed it; the generated "
           "project does not use it.",),
)

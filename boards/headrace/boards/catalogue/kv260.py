"""AMD Kria KV260: `edge` at a port of the processor system, with half of its DDR4."""

from .board import Board, Link, Memory, Processor


__all__ = ["BOARD"]


BOARD = Board(
    name="kv260",
    title="AMD Kria KV260",
    family="xcup", part="K26 (KV260)", order="xck26-sfvc784-2LV-c",
    preset="edge", clk_hz=200_000_000, presets=("edge", "wide"),
    memory=Memory(
        kind="PS", title="DDR4-2400 x64 of the processor system, its upper 2 GB of 4",
        size_bytes=2 << 30, data_bits=64, clock_hz=1_200_000_000, dram="ddr4-2400-x64",
        port_bits=128),
    link=Link(kind="ps", title="the board's own Linux", url="devmem://kv260"),
    processor=Processor(
        kind="zynq_ultra_ps_e", board_part="xilinx.com:kv260_som:part0:*",
        control_base=0xa000_0000, memory_base=0x8_0000_0000, reserve="mem=2G"),
    source="part and port names of the vendor's tools",
    notes=("`wide` reads no faster than `edge` at the same clock: one port of the processor "
           "system brings 128 bits per clock. It multiplies four times as much per clock, which "
           "prompts feel.",),
)

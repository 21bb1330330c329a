"""TUL PYNQ-Z2: `ecp5`, whose port is as wide as those of the processor system."""

from .board import Board, Link, Memory, Processor


__all__ = ["BOARD"]


BOARD = Board(
    name="pynq-z2",
    title="TUL PYNQ-Z2",
    family="xc7", part="XC7Z020 (PYNQ-Z2)", order="xc7z020clg400-1",
    preset="ecp5", clk_hz=100_000_000,
    memory=Memory(
        kind="PS", title="DDR3-1050 x16 of the processor system, its upper 256 MB of 512",
        size_bytes=256 << 20, data_bits=16, clock_hz=525_000_000, dram="ddr3-1600-x16",
        port_bits=64),
    link=Link(kind="ps", title="the board's own Linux, or PYNQ", url="devmem://pynq-z2"),
    processor=Processor(
        kind="processing_system7", board_part="tul.com.tw:pynq-z2:part0:*",
        control_base=0x4000_0000, memory_base=0x1000_0000, reserve="mem=256M"),
    source="part and port names of the vendor's tools",
    notes=("`edge` is too large for the XC7Z020, and its port is twice as wide as one of the "
           "processor system. `ecp5` has the port's 64 bits and fits.",),
)

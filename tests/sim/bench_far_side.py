"""Bench of the copying master with cocotbext-axi on both of its ports."""

import random

import cocotb
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from headrace.sim.testbench import start


@cocotb.test()
async def copies(dut):
    bus = AxiBus.from_prefix(dut, "axi", bus_separator="__")
    ram = AxiRam(bus, dut.clk, dut.rst, size=1 << 16)
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "ctrl", bus_separator="__"), dut.clk, dut.rst)
    for channel in (ram.write_if.aw_channel, ram.write_if.w_channel, ram.read_if.ar_channel,
                    ram.read_if.r_channel, ram.write_if.b_channel):
        channel.set_pause_generator(iter(lambda: random.random() < 0.3, None))
    await start(dut)
    data = random.randbytes(512)
    ram.write(0x1000, data)
    for register, value in enumerate((0x1000, 0x4000, 8, 16, 1)):
        await host.write_dword(4 * register, value)
    await with_timeout(RisingEdge(dut.irq), 100, "us")
    assert ram.read(0x4000, 512) == data
    assert ram.read(0x4200, 64) == bytes(64)

"""Bench of a small component: one test that passes, and every way to fail."""

import os
import random

import cocotb
from cocotb.triggers import ReadWrite, RisingEdge, Timer

from headrace.sim.testbench import parameters, start


@cocotb.test()
async def adds(dut):
    dut.valid.value = 0
    await start(dut)
    total = 0
    for _ in range(parameters()["count"]):
        value, valid = random.randrange(256), random.randrange(2)
        dut.value.value, dut.valid.value = value, valid
        await RisingEdge(dut.clk)
        await ReadWrite()
        total = (total + value * valid) % 256
        assert dut.total.value == total


@cocotb.test()
async def sees_ports_only(dut):
    await start(dut)
    names = {handle._name for handle in dut}
    assert names >= {"clk", "rst", "valid", "value", "total"}
    assert not {name for name in names if "$" in name}


@cocotb.test()
async def fails(dut):
    await start(dut)
    assert dut.total.value == 1


@cocotb.test()
async def fails_in_the_background(dut):
    async def check():
        raise AssertionError("in the background")

    await start(dut)
    cocotb.start_soon(check())
    await Timer(100, "ns")


@cocotb.test()
async def never_ends(dut):
    await start(dut, max_cycles=500)
    await RisingEdge(dut.valid)


@cocotb.test()
async def crashes(dut):
    os._exit(3)

"""Bench of the whole device: the shipping driver talks through cocotb."""

import json
from pathlib import Path

import cocotb
from cocotb.task import bridge

from headrace.hw.regmap import ID
from headrace.sim.cocotb_device import CocotbDevice
from headrace.sim.memory import MemoryOptions
from headrace.sim.testbench import parameters
from headrace.sw.errors import HeadraceError
from tests.e2e.drivers import BASE, IMAGES, PROMPTS, converse, memory_bytes
from tests.e2e.machines import TINY


def _talk(dut, given):
    image = IMAGES[given["image"]]()
    with CocotbDevice(dut, TINY, MemoryOptions(**given["options"]), memory_base=BASE,
                      memory_bytes=memory_bytes(image), fill=0xff) as device:
        found = converse(device, image, PROMPTS[given["image"]], given["tokens"],
                         chunk=given["chunk"], passes=given["passes"])
        return found, device.simulated_hz


@cocotb.test()
async def talks(dut):
    given = parameters()
    found, hz = await bridge(_talk)(dut, given)
    wanted = json.loads(Path(given["expected"]).read_text(encoding="utf-8"))
    for name, value in wanted.items():
        assert found[name] == value, f"{name}: {found[name]} != {value}"
    Path(given["report"]).write_text(json.dumps({"simulated_hz": hz}), encoding="utf-8")


def _open_twice(dut):
    device = CocotbDevice(dut, TINY, memory_bytes=1 << 16)
    for fill in (0x55, 0xaa):
        device.memory[:] = fill
        with device:
            assert device.read_register("id") == ID
            device.write_register("kv_base", fill)
            assert device.read_register("kv_base") == fill
            assert device.simulation.cycles < 40
            assert not device.wait_interrupt(100)
            assert (device.read_memory(0, 1 << 16) == fill).all()
    try:
        device.read_register("id")
    except HeadraceError as error:
        assert "the device is not open" in str(error)
    else:
        raise AssertionError("a closed device answers")


@cocotb.test()
async def opens_again(dut):
    """Also after another test of the same process."""
    await bridge(_open_twice)(dut)

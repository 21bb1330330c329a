"""Bench behind :mod:`headrace.sim.speed`: the built-in model talks under cocotb."""

import json
from pathlib import Path

import cocotb
from cocotb.task import bridge

from headrace.hw.config import Config
from headrace.sw.checkpoint import load_checkpoint
from headrace.sw.compiler import compile_model

from .cocotb_device import CocotbDevice
from .memory import MemoryOptions
from .speed import converse
from .testbench import parameters


__all__ = ["talks"]


def _talk(dut, given):
    config = Config(**given["config"])
    image = compile_model(load_checkpoint("demo"), config)
    device = CocotbDevice(dut, config, MemoryOptions(), memory_bytes=image.total_bytes)
    return converse(device, image, given["tokens"])


@cocotb.test()
async def talks(dut):
    """Speed of the simulation, for the report."""
    given = parameters()
    hz = await bridge(_talk)(dut, given)
    Path(given["report"]).write_text(json.dumps({"processor_hz": hz}), encoding="utf-8")

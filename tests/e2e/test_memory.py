"""Memory that is slow, stalls, or begins full of garbage changes cycles and no bit."""

import dataclasses

import numpy as np
import pytest

from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sw.driver import DeviceError, Session

from .machines import BOUND, ODD, TINY, ids, on_golden, on_rtl, synthetic, verilog


PROMPT, TOKENS = ids(33, seed=1), 3


def _image(config):
    """The cache of the first tokens lies partly on the chip, partly in memory."""
    image = synthetic(config)
    return dataclasses.replace(image, kv_pinned=3 * image.cache.block_units)


@pytest.fixture(scope="module")
def reference():
    return on_golden(_image(TINY), PROMPT, TOKENS, fill=0)


@pytest.fixture(scope="module")
def smooth():
    return on_rtl(_image(TINY), PROMPT, TOKENS, options=MemoryOptions(latency=10))


OPTIONS = {
    "immediate": MemoryOptions(latency=1),
    "slow": MemoryOptions(latency=300),
    "slow writes": MemoryOptions(latency=1, write_latency=1000),
    "few beats": MemoryOptions(latency=30, bandwidth=0.3),
    "one burst": MemoryOptions(latency=7, depth=1),
    **{f"stalls {seed}": MemoryOptions(latency=1 + 9 * seed, stall_seed=seed)
       for seed in range(3)},
    "long stalls": MemoryOptions(latency=4, stall_seed=9, stall_probability=0.8),
    "all at once": MemoryOptions(latency=25, write_latency=90, bandwidth=0.5, stall_seed=11,
                                 stall_probability=0.5, depth=3),
    "SDR SDRAM": MemoryOptions(dram="sdr-133-x16", clk_hz=TINY.clk_hz),
    "DDR4 with stalls": MemoryOptions(dram="ddr4-2400-x64", clk_hz=333_333_331, stall_seed=4),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_timing_changes_no_bit(name, reference, smooth):
    found = on_rtl(_image(TINY), PROMPT, TOKENS, options=OPTIONS[name])
    assert found.same(reference)
    assert found.cycles != smooth.cycles


@pytest.mark.parametrize("seed", [5, 6])
def test_stalls_on_the_odd_machine(seed, reference):
    options = MemoryOptions(latency=12, stall_seed=seed, stall_probability=0.5)
    assert on_rtl(_image(ODD), PROMPT, TOKENS, options=options).same(reference)


@pytest.mark.parametrize("dram", ["ddr3-1600-x16", "hbm2-pc"])
def test_dram_on_the_odd_machine(dram, reference):
    options = MemoryOptions(dram=dram, clk_hz=ODD.clk_hz)
    assert on_rtl(_image(ODD), PROMPT, TOKENS, options=options).same(reference)


@pytest.mark.parametrize("fill", [0, 0x7f, 0xff, np.random.default_rng(3)],
                         ids=["zeros", "0x7f", "ones", "random"])
def test_garbage_in_memory_changes_no_bit(fill, reference):
    assert on_rtl(_image(TINY), PROMPT, TOKENS, fill=fill).same(reference)


@pytest.mark.slow
@pytest.mark.parametrize("sram", ["ones", 2, 3])
def test_garbage_in_sram_changes_no_bit(sram, reference):
    assert on_rtl(_image(TINY), PROMPT, TOKENS, sram=sram).same(reference)


@pytest.mark.parametrize("reorder", ["bursts", "beats"])
def test_memory_that_reorders_is_refused_and_not_believed(reorder, reference):
    """The device asks for read data in the order of its requests; anything else is error 6."""
    image = _image(TINY)
    good = MemoryOptions(latency=20)
    with SimDevice(TINY, verilog(TINY), good, memory_bytes=image.total_bytes,
                   fill=0xff) as device:
        session = Session(device, image, max_cycles=BOUND)
        for seed in range(3):
            device.simulation.memory.configure(MemoryOptions(
                latency=20, stall_seed=seed, reorder=reorder))
            session.restart()
            with pytest.raises(DeviceError, match="different IDs out of order") as caught:
                session.prefill(PROMPT)
            assert caught.value.code == 6
        device.simulation.memory.configure(good)
        session.restart()
        assert session.prefill(PROMPT) == reference.tokens[0]

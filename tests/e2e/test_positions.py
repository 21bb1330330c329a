"""Boundaries of blocks, of the K/V buffer and of the context."""

import dataclasses

import pytest

from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions

from .machines import BOUND, TINY, WatchedSession, ids, on_golden, on_rtl, synthetic, verilog


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 30, 31, 32, 33, 63, 64, 65])
def test_prompts_around_the_end_of_a_block(length):
    image, prompt = synthetic(TINY), ids(length, seed=length)
    assert on_rtl(image, prompt, 3).same(on_golden(image, prompt, 3, chunk=1))


def test_context_to_its_last_position():
    """The cache is full, and the token behind it is written nevertheless."""
    image = synthetic(TINY)
    prompt = ids(image.context - 4)
    found = on_rtl(image, prompt, 5, passes=4)
    assert found.cache.shape[2] == image.context
    assert found.tokens == on_golden(image, prompt, 5).tokens


@pytest.mark.parametrize("heads", [0, 1, 3, 5, 12])
def test_cache_partly_in_the_buffer(heads):
    """So many blocks of one head are held on the chip; the others come from memory."""
    image = synthetic(TINY)
    block = image.cache.block_units
    image = dataclasses.replace(image, kv_pinned=heads * block)
    prompt = ids(70, seed=2)
    # Two layers of two heads, three blocks of tokens: twelve in all.
    traffic = image.expected_traffic(72, 1, True)
    assert traffic.kv_hits == 64 * block * heads and traffic.kv_misses == 64 * block * (12 - heads)
    assert on_rtl(image, prompt, 3).same(on_golden(image, prompt, 3))


def test_conversations_follow_each_other():
    """A second one on the same device meets the leavings of the first one, and ignores them."""
    image = synthetic(TINY)
    first, second = ids(50, seed=8), ids(9, seed=9)
    with SimDevice(TINY, verilog(TINY), MemoryOptions(latency=9),
                   memory_bytes=image.total_bytes, fill=0xff) as device:
        session = WatchedSession(device, image, check=True, max_cycles=BOUND)
        list(session.generate(first, 4))
        session.restart()
        tokens = list(session.generate(second, 4))
    assert session.verdict == "bit-exact"
    assert tokens == on_golden(image, second, 4).tokens

"""Attention with several blocks of K ahead of a V: other cycles, the same bits."""

import dataclasses

import pytest

from headrace.hw.config import Config
from headrace.sim.memory import MemoryOptions

from .machines import TINY, ids, on_golden, on_rtl, synthetic


def _config(lead: int) -> Config:
    """A ring of four blocks of weights and scales of eight: the least there is, so that whatever
    waits for something behind it in the stream never ends."""
    least = 4 * (TINY.group + 2) * 8
    return Config(name=f"lead {lead}", rows=3, cols=5, attn_lead=lead, ring_bytes=least,
                  burst_beats=16, outstanding=3, streams=24)


SLOW = MemoryOptions(latency=70, stall_seed=3, stall_probability=0.5)
FAST = MemoryOptions(latency=1)


@pytest.mark.parametrize("lead", [
    3, *(pytest.param(lead, marks=pytest.mark.slow) for lead in (1, 2, 5, 7))])
def test_no_bit_and_no_deadlock(lead):
    """Heads of one block and of three, chunks that cross a block, a cache partly on the chip."""
    image = synthetic(_config(lead))
    image = dataclasses.replace(image, kv_pinned=3 * image.cache.block_units)
    for length, chunk, options in ((3, 3, FAST), (35, 5, SLOW), (75, 8, FAST)):
        prompt = ids(length, seed=length)
        expected = on_golden(synthetic(TINY), prompt, 3)
        assert on_rtl(image, prompt, 3, chunk=chunk, options=options).same(expected)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [
    {"head_dim": 128, "heads": 2, "kv_heads": 1}, {"kv_heads": 1, "heads": 6},
    {"kv_heads": 4}], ids=str)
@pytest.mark.parametrize("lead", [3, 5])
def test_shapes(lead, changes):
    """One head of many tiles, many streams, heads of one stream."""
    prompt = ids(70, seed=lead)
    expected = on_golden(synthetic(TINY, **changes), prompt, 3)
    assert on_rtl(synthetic(_config(lead), **changes), prompt, 3, options=SLOW).same(expected)

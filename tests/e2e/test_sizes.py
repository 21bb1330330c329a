"""Machines of unusual sizes; each is a build of its own."""

import pytest

from headrace.hw.config import Config

from .machines import ODD, TINY, ids, on_golden, on_rtl, synthetic


CONFIGS = {config.name: config for config in (
    Config(name="one cell", rows=1, cols=1, streams=16, chunk_positions=8),
    Config(name="one row", rows=1, cols=6, lanes=2),
    Config(name="one column", rows=5, cols=1),
    Config(name="more rows than columns", rows=8, cols=4, lanes=4),
    Config(name="one position", chunk_positions=1, streams=2, kv_bytes=0),
    Config(name="wide port, lanes", port_bits=64, cols=8, lanes=2),
    Config(name="port far wider than the array", port_bits=512, cols=8, softmax_lanes=2),
    Config(name="array wider than the port", rows=2, cols=48, lanes=16, softmax_lanes=4,
           ring_bytes=16384, kv_bytes=8192),
    Config(name="single beats", burst_beats=1, outstanding=1),
)}

SHAPES = {
    "usual": {},
    "head_dim 8": {"head_dim": 8, "heads": 6, "kv_heads": 3, "ffn": 172, "tied": False},
    "head_dim 128": {"head_dim": 128, "heads": 2, "kv_heads": 1, "vocab": 101},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_same_bits_on_any_machine(name):
    config = CONFIGS[name]
    for seed, changes in enumerate(SHAPES.values()):
        image = synthetic(config, seed=seed, **changes)
        prompt = ids(34, image.shape.vocab, seed=seed)
        expected = on_golden(synthetic(TINY, seed=seed, **changes), prompt, 3)
        assert on_rtl(image, prompt, 3).same(expected)


def test_same_bits_on_any_golden_machine():
    prompt = ids(34)
    expected = on_golden(synthetic(TINY), prompt, 3)
    for config in (ODD, *CONFIGS.values()):
        assert on_golden(synthetic(config), prompt, 3).same(expected), config.name

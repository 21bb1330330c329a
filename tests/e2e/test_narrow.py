"""Narrow tiles: arrays that fold for them, and last tiles as narrow as their columns."""

import pytest

from headrace.hw.config import Config
from headrace.hw.isa import Format, Op
from headrace.sw.checkpoint import SyntheticCheckpoint
from headrace.sw.compiler import Image, compile_model
from headrace.sw.quantiser import Policy

from .machines import TINY, ids, on_golden, on_rtl, shape


#: Folds of K and V: two; four, with rows of 32 and 64 columns; two, and a walk through words left.
CONFIGS = [
    Config(name="3x64", rows=3, cols=64, port_bits=64, lanes=4, ring_bytes=16384),
    pytest.param(Config(name="2x128", rows=2, cols=128, port_bits=128, lanes=8, softmax_lanes=2,
                        ring_bytes=32768), marks=pytest.mark.slow),
    pytest.param(Config(name="1x128", rows=1, cols=128, port_bits=64, lanes=2, ring_bytes=32768),
                 marks=pytest.mark.slow),
]

#: By the columns of their last tiles on 64: of the vocabulary, and of a width of `dim`.
MODELS = {
    "1 and 32, W8": (Policy(), {"vocab": 65, "dim": 96, "head_dim": 32}),
    "8 and 16, W8": (Policy(group=16), {"vocab": 72, "dim": 80}),
    "16 and 32, W4": (Policy(default=Format.W4), {"vocab": 80, "dim": 96, "head_dim": 64}),
    "40 and 32, W4A": (Policy(default=Format.W4A), {"vocab": 104, "dim": 32, "head_dim": 48}),
    "full, W4A": (Policy(default=Format.W4A), {"vocab": 128, "dim": 128, "ffn": 130}),
}


def _compiled(config: Config, name: str) -> Image:
    policy, changes = MODELS[name]
    return compile_model(SyntheticCheckpoint(shape(**{"layers": 1, **changes}), seed=len(name)),
                         config, policy=policy)


def _last_tiles(image: Image) -> set[int]:
    """Widths of the last tiles of all matrices."""
    return {image.config.stride >> code["narrow"] for code in image.program
            if code["op"] == Op.MATMUL}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_same_bits_with_narrow_tiles(config, name):
    image = _compiled(config, name)
    assert config.folds > 1
    prompt = ids(34, image.shape.vocab, seed=3)
    expected = on_golden(_compiled(TINY, name), prompt, 3)
    assert on_rtl(image, prompt, 3).same(expected)


@pytest.mark.parametrize("cols, lanes, widths", [
    (64, 4, [{16, 32, 64}, {16, 64}, {32, 64}, {32, 64}, {64}]),
    (128, 8, [{128}, {64, 128}, {128}, {32, 64, 128}, {64, 128}]),
])
def test_models_have_narrow_tiles(cols, lanes, widths):
    config = Config(cols=cols, lanes=lanes, ring_bytes=32768)
    assert [_last_tiles(_compiled(config, name)) for name in MODELS] == widths


@pytest.mark.parametrize("columns, bits, width", [
    (576, 8, 64), (576, 4, 64), (49152, 8, 128), (129, 8, 16), (160, 8, 32), (160, 4, 32),
    (129, 4, 32), (127, 8, 128), (1, 8, 16),
])
def test_width_of_the_last_tile_on_wide(columns, bits, width):
    config = Config(cols=128, lanes=16, port_bits=512, ring_bytes=1 << 20)
    assert config.stride >> config.last_tile(columns, bits) == width

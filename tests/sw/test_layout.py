"""Memory layouts: round trips, and single bytes as `docs/architecture.md` places them."""

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.isa import Format
from headrace.sw.layout import CacheLayout, align
from headrace.sw.weight_layout import (
    block_words,
    interleave_tiles,
    matrix_words,
    pack_weights,
    unpack_weights,
)

from .models import CONFIGS, ODD


RANGES = {Format.W8: (-128, 128), Format.W4: (-8, 8), Format.W4A: (0, 16)}


def _matrix(fmt, groups, group, columns, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.integers(*RANGES[fmt], (groups * group, columns)).astype(np.int8)
    scales, minima = rng.standard_normal((2, groups, columns)).astype(np.float16)
    return q, scales, minima if fmt == Format.W4A else None


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("cols, stride", [(5, 8), (8, 8), (32, 32), (3, 4)])
@pytest.mark.parametrize("group", [16, 32])
def test_weights_round_trip(fmt, cols, stride, group):
    q, scales, minima = _matrix(fmt, 3, group, 2 * cols + 1)
    packed = pack_weights(fmt, q, scales, minima, cols=cols, stride=stride)
    assert packed.size == 3 * 3 * block_words(fmt, group) * stride
    found = unpack_weights(fmt, packed, tiles=3, groups=3, group=group, cols=cols, stride=stride)
    columns = 2 * cols + 1
    assert np.array_equal(found[0][:, :columns], q)
    assert np.array_equal(found[1][:, :columns], scales.view(np.uint16))
    assert not found[0][:, columns:].any() and not found[1][:, columns:].any()
    if minima is not None:
        assert np.array_equal(found[2][:, :columns], minima.view(np.uint16))


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("cols, narrow, columns", [(128, 1, 576), (128, 1, 40), (64, 2, 77),
                                                   (8, 1, 11)])
@pytest.mark.parametrize("group", [16, 32])
def test_narrow_last_tile_round_trip(fmt, cols, narrow, columns, group):
    q, scales, minima = _matrix(fmt, 2, group, columns)
    tiles, last = -(-columns // cols), cols >> narrow
    packed = pack_weights(fmt, q, scales, minima, cols=cols, stride=cols, narrow=narrow)
    assert packed.size == cols * matrix_words(fmt, group, tiles=tiles, groups=2, narrow=narrow)
    found = unpack_weights(fmt, packed, tiles=tiles, groups=2, group=group, cols=cols,
                           stride=cols, narrow=narrow)
    assert found[0].shape == (2 * group, (tiles - 1) * cols + last)
    assert np.array_equal(found[0][:, :columns], q)
    assert np.array_equal(found[1][:, :columns], scales.view(np.uint16))
    assert not found[0][:, columns:].any() and not found[1][:, columns:].any()
    if minima is not None:
        assert np.array_equal(found[2][:, :columns], minima.view(np.uint16))


def test_bytes_of_a_narrow_last_tile():
    """16 + 5 columns of 16: the last 5 in a tile of 8."""
    q, scales, minima = _matrix(Format.W4A, 2, 32, 21)
    raw = pack_weights(Format.W4A, q, scales, minima, cols=16, stride=16, narrow=1)
    tile = 2 * (4 * 16 + 32 * 8)
    assert raw.size == tile + 2 * (2 * 16 + 32 * 4)
    for k in range(64):
        for n in range(5):
            block = tile + k // 32 * (2 * 16 + 32 * 4)
            assert raw[block + 2 * n:][:2].view("<f2")[0] == scales[k // 32, 16 + n]
            assert raw[block + 16 + 2 * n:][:2].view("<f2")[0] == minima[k // 32, 16 + n]
            byte = raw[block + 32 + k % 32 * 4 + n // 2]
            assert byte >> 4 * (n % 2) & 0xf == q[k, 16 + n]


def test_weight_bytes():
    q, scales, _ = _matrix(Format.W8, 2, 32, 9)
    raw = pack_weights(Format.W8, q, scales, None, cols=5, stride=8).reshape(-1)
    for k in range(64):
        for n in range(9):
            block = (n // 5 * 2 + k // 32) * 34 * 8
            assert raw[block + (2 + k % 32) * 8 + n % 5].view(np.int8) == q[k, n]
            header = raw[block + 2 * (n % 5):][:2].view("<f2")[0]
            assert header == scales[k // 32, n]


def test_int4_bytes():
    q, scales, minima = _matrix(Format.W4A, 1, 32, 4)
    raw = pack_weights(Format.W4A, q, scales, minima, cols=4, stride=4).reshape(-1)
    for n in range(4):
        assert raw[8 + 2 * n:][:2].view("<f2")[0] == minima[0, n]
        for k in range(32):
            byte = raw[16 + 2 * k + n // 2]
            assert byte >> 4 * (n % 2) & 0xf == q[k, n]


def test_affine_weights_need_minima():
    q, scales, _ = _matrix(Format.W4A, 1, 32, 4)
    with pytest.raises(ValueError, match="W4A needs minima"):
        pack_weights(Format.W4A, q, scales, None, cols=4, stride=4)


def test_interleaved_tiles():
    gate, up = np.arange(1, 8)[None], np.arange(11, 18)[None]
    found = interleave_tiles([gate, up], 3)[0].tolist()
    assert found == [1, 2, 3, 11, 12, 13, 4, 5, 6, 14, 15, 16, 7, 0, 0, 17, 0, 0]


def test_align():
    assert [align(n) for n in (0, 1, 64, 65)] == [0, 64, 64, 128]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("head_dim", [16, 64, 80])
def test_cache_bytes_belong_to_one_element_each(config, head_dim):
    layout = CacheLayout.of(config, layers=2, kv_heads=3, head_dim=head_dim)
    unit = 64 * layout.block_units
    assert unit == 128 + 64 * head_dim
    rng = np.random.default_rng(0)
    memory = rng.integers(0, 256, layout.size(64), np.uint8)
    assert layout.size(33) == memory.size == 2 * 2 * 3 * unit
    begin = 64 * layout.unit(0, 1, 0)
    blocks = layout.blocks(memory, begin, 2)
    keys, values, scales = layout.keys(blocks), layout.values(blocks), layout.scales(blocks)
    for block, head, token, element in rng.integers(0, (2, 3, 32, head_dim), (50, 4)).tolist():
        at = 64 * layout.unit(block, 1, head)
        k_at, v_at = at + layout.k_offset(element, token), at + layout.v_offset(element, token)
        assert keys[block, head, element, token] == memory[k_at].view(np.int8)
        assert values[block, head, token, element] == memory[v_at].view(np.int8)
        assert layout.locate(k_at) == (block, 1, head, "k", token, element)
        assert layout.locate(v_at) == (block, 1, head, "v", token, element)
        for part, offset in enumerate((0, 64)):
            s_at = at + offset + 2 * token
            assert scales[block, head, part, token] == memory[s_at:s_at + 2].view("<u2")[0]
            assert layout.locate(s_at + 1) == (block, 1, head, ("k_scale", "v_scale")[part],
                                               token, 1)


def test_cache_tiles():
    tiny = CacheLayout.of(PRESETS["tiny"], layers=1, kv_heads=1, head_dim=16)
    odd = CacheLayout.of(ODD, layers=1, kv_heads=1, head_dim=16)
    assert (tiny.k_cols, tiny.v_cols, odd.k_cols, odd.v_cols) == (8, 8, 4, 4)
    # K tile of 8 tokens: 16 rows of 8 bytes; V tile of 8 dimensions: 32 rows of 8 bytes.
    assert tiny.k_offset(3, 9) == 128 + 16 * 8 + 3 * 8 + 1
    assert tiny.v_offset(9, 3) == 128 + 512 + 32 * 8 + 3 * 8 + 1

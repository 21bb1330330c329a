"""The floating-point units against their models, bit for bit."""

import numpy as np
import pytest


def edge_words():
    """Bit patterns around every boundary that any unit knows, with both signs."""
    fields = [0, 1, 2, 51, 52, 63, 64, 101, 102, 103, 111, 112, 113, 114, 125, 126, 127, 128, 132,
              133, 134, 141, 142, 143, 150, 151, 189, 190, 191, 252, 253, 254, 255]
    mants = [0, 1, 2, 0x0fff, 0x1000, 0x1001, 0x3fffff, 0x400000, 0x400001, 0x555555, 0x7fefff,
             0x7ff000, 0x7fffff, 0x7ffffe]
    words = np.array([exp << 23 | mant for exp in fields for mant in mants], dtype=np.uint32)
    # exp() overflows and underflows near these; halfway cases of to_int8() and of fp16.
    special = np.array([88.72283, -87.33654, 0.5, 1.5, 2.5, 126.5, 127.5, 2.0**-24, 2.0**-25,
                        3 * 2.0**-26, 65504, 65519.99, 65520, 1 / 127], dtype=np.float32)
    near = special.view(np.uint32)[:, None] + np.arange(-2, 3)
    words = np.concatenate([words, near.ravel().astype(np.uint32)])
    return np.concatenate([words, words | 0x80000000])


def random_words(rng, count):
    """A mixture of full-range patterns and pairs that are close enough to interact."""
    a = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    b = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    kind = rng.integers(0, 8, count)
    # Exponents within the reach of an addition; few mantissa bits, for ties; nearly opposite
    # numbers; products around 2**-126; small integers; arguments of exp() in its range.
    near = (a & 0x7f800000) + (rng.integers(-26, 27, count) << 23)
    b = np.where(kind == 1, (near & 0x7f800000) | (b & 0x807fffff), b).astype(np.uint32)
    coarse = np.uint32(0xffffffff) << rng.integers(8, 22, count, dtype=np.uint32)
    a = np.where(kind == 2, a & coarse, a)
    b = np.where(kind == 2, ((near & 0x7f800000) | (b & 0x807fffff)) & coarse, b)
    b = np.where(kind == 3, (a ^ 0x80000000) + rng.integers(-3, 4, count), b)
    product = (127 + 1 - (a >> 23 & 0xff).astype(np.int64) + rng.integers(-2, 2, count)) % 256
    b = np.where(kind == 4, (product << 23) | (b & 0x807fffff), b)
    a = np.where(kind == 5, rng.integers(-1 << 20, 1 << 20, count), a)
    scale = rng.normal(0, 40, count).astype(np.float32).view(np.uint32)
    a = np.where(kind == 6, scale, a)
    return a.astype(np.uint32), b.astype(np.uint32)


def test_edge_cases(fp_bench):
    words = edge_words()
    a, b = np.meshgrid(words, words)
    fp_bench.check(a.ravel(), b.ravel())


def test_fp16_exhaustive(fp_bench):
    words = np.arange(1 << 16, dtype=np.uint32)
    # The fp32 numbers halfway between two fp16 numbers, and their neighbours.
    halves = (words[:, None] << 13) + (112 << 23) + np.array([0, 0xfff, 0x1000, 0x1001])
    fp_bench.check(np.concatenate([words, halves.ravel().astype(np.uint32)]),
                   np.zeros(5 << 16))


def test_random(fp_bench):
    fp_bench.check(*random_words(np.random.default_rng(1), 400_000), seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
def test_random_long(fp_bench, seed):
    fp_bench.check(*random_words(np.random.default_rng(seed), 1_000_000), seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("exp", [0x3f000000, 0x3f800000, 0xc2000000])
def test_every_mantissa(fp_bench, exp):
    fp_bench.check(np.arange(1 << 23, dtype=np.uint32) + np.uint32(exp), np.zeros(1 << 23))

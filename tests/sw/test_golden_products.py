"""Products of the golden machine: the same bits in every way of computing them."""

import numpy as np
import pytest

from headrace.hw.formats import FP16, FP32
from headrace.sw.golden import matmul, parallel
from headrace.sw.golden.matmul import Weights
from headrace.sw.numerics import add, as_bits, from_bits, from_int, mul


def _literal(x, scales, weights):
    """MATMUL of `docs/architecture.md`, with the operations of single numbers only."""
    acc = np.zeros((x.shape[1], weights.scales.shape[1]), np.float32)
    for g in range(len(x)):
        sums = x[g].astype(np.int64) @ weights.q[g].astype(np.int64)
        acc = add(acc, mul(from_int(sums), mul(scales[g][:, None], weights.scales[g])))
        if weights.minima is not None:
            act_sum = mul(scales[g], from_int(x[g].astype(np.int64).sum(axis=-1)))
            acc = add(acc, mul(act_sum[:, None], weights.minima[g]))
    return acc


def _matrix(rng, groups, columns, scales, minima=None):
    q = rng.integers(-127, 128, (groups * 32, columns)).astype(np.int8)
    return Weights(q, scales, minima)


def _fp16(rng, shape, low, high):
    """Bits of positive fp16 numbers in a range of bits."""
    return rng.integers(low, high, shape).astype(np.uint16)


#: Exponents of activation scales; 2**-102 is reached at -78 with the least scale, 2**-24.
EXPONENTS = [0, -40, -77, -78, -79, -90, -101, -110, -120, -126]


@pytest.mark.parametrize("affine", [False, True], ids=["symmetric", "affine"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_extreme_scales(exponent, affine):
    rng = np.random.default_rng(exponent + 200)
    groups, streams, columns = 5, 3, 97
    shape = (groups, columns)
    scales, minima = _fp16(rng, shape, 0, 64), _fp16(rng, shape, 0, 0x3c00) | np.uint16(0x8000)
    scales[:, ::3] = _fp16(rng, scales[:, ::3].shape, 0x3c00, 0x5c00)
    weights = _matrix(rng, groups, columns, scales, minima if affine else None)
    x = rng.integers(-127, 128, (groups, streams, 32)).astype(np.float32)
    # Sums that are zero or one make the least terms.
    x[1], x[2, :, 1:] = 0, 0
    x[2, :, 0] = 1
    act = np.ldexp(1 + rng.random((groups, streams)), exponent).astype(np.float32)
    act[0, 0] = np.ldexp(1.0, exponent)
    act[3, 1] = 0
    expected = _literal(x, act, weights)
    assert np.array_equal(as_bits(matmul._product(x, act, weights, x.shape[1])), as_bits(expected))
    assert len(np.unique(expected)) > 5


@pytest.mark.parametrize("exponent", [0, -60, -120])
def test_infinities_and_nans(exponent):
    rng = np.random.default_rng(7)
    groups, streams, columns = 4, 4, 80
    scales = _fp16(rng, (groups, columns), 1, 0x7bff)
    scales[0, ::7], scales[1, ::5] = FP16.infinity, FP16.infinity | 0x8000
    scales[2, ::9], scales[3, ::11] = FP16.canonical_nan, 0x7c01
    weights = _matrix(rng, groups, columns, scales, scales[::-1].copy())
    x = rng.integers(-127, 128, (groups, streams, 32)).astype(np.float32)
    x[0, 3] = 0
    act = np.ldexp(1 + rng.random((groups, streams)), exponent).astype(np.float32)
    act[1, 1], act[2, 2] = np.inf, from_bits(FP32.canonical_nan)
    act[3, 0] = np.finfo(np.float32).max
    found = matmul._product(x, act, weights, x.shape[1])
    assert np.array_equal(as_bits(found), as_bits(_literal(x, act, weights)))
    nans = np.isnan(found)
    assert 0 < nans.sum() < found.size and np.isinf(found).any()
    assert set(as_bits(found)[nans].tolist()) == {FP32.canonical_nan}


def test_direct_way_is_taken_exactly_where_nothing_is_subnormal(monkeypatch):
    rng = np.random.default_rng(3)
    weights = _matrix(rng, 2, 64, np.full((2, 64), 1, np.uint16))       # 2**-24
    x = rng.integers(-127, 128, (2, 1, 32)).astype(np.float32)
    taken = []
    monkeypatch.setattr(matmul, "_direct", lambda *args: taken.append("direct"))
    monkeypatch.setattr(matmul, "_flushing", lambda *args: taken.append("flushing") or 0)
    for scale in (2.0 ** -78, np.nextafter(np.float32(2.0 ** -78), np.float32(0)), 0):
        matmul._product(x, np.full((2, 1), scale, np.float32), weights, 1)
    assert taken == ["direct", "flushing", "direct"]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("exponent", [0, -120])
def test_halves_are_groups_of_their_own(exponent, affine):
    """High and low halves give what they give one behind the other, group by group."""
    rng = np.random.default_rng(11)
    groups, streams, columns = 3, 4, 70
    scales = _fp16(rng, (groups, columns), 1, 0x7bff)
    parts = [scales, scales[::-1].copy()] if affine else [scales]
    halves = rng.integers(-128, 128, (groups, 2, streams, 32)).astype(np.float32)
    act = np.ldexp(1 + rng.random((groups, 2, streams)), exponent).astype(np.float32)
    found = matmul._product(halves.reshape(groups, -1, 32), act.reshape(groups, -1),
                            _matrix(np.random.default_rng(2), groups, columns, *parts), streams)
    twice = _matrix(np.random.default_rng(2), groups, columns, *parts)
    twice.q, twice.scales = np.repeat(twice.q, 2, axis=0), np.repeat(twice.scales, 2, axis=0)
    if affine:
        twice.minima = np.repeat(twice.minima, 2, axis=0)
    expected = _literal(halves.reshape(-1, streams, 32), act.reshape(-1, streams), twice)
    assert np.array_equal(as_bits(found), as_bits(expected))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_same_bits_in_any_number_of_threads(count, monkeypatch):
    rng = np.random.default_rng(5)
    weights = _matrix(rng, 18, 1501, _fp16(rng, (18, 1501), 0x1000, 0x3000))
    x = rng.integers(-127, 128, (18, 7, 32)).astype(np.float32)
    act = rng.random((18, 7)).astype(np.float32)
    expected = _literal(x, act, weights)
    monkeypatch.setattr(matmul, "workers", lambda: count)
    monkeypatch.setattr(parallel, "workers", lambda: count)
    assert np.array_equal(as_bits(matmul._product(x, act, weights, x.shape[1])), as_bits(expected))
    monkeypatch.setattr(matmul, "_WEIGHTS", 3000)
    monkeypatch.setattr(matmul, "_TERMS", 700)
    assert np.array_equal(as_bits(matmul._product(x, act, weights, x.shape[1])), as_bits(expected))


def test_errors_of_threads_are_seen():
    def fail(piece):
        raise ValueError(piece)

    for spread in (False, True):
        with pytest.raises(ValueError, match="3"):
            parallel.each(fail, [3], spread=spread)


@pytest.mark.parametrize("bits", [0, 0x8000, FP16.infinity, FP16.canonical_nan, 1, 3, 0x7bff])
def test_matrices_of_one_scale(bits):
    rng = np.random.default_rng(9)
    weights = _matrix(rng, 2, 70, np.full((2, 70), bits, np.uint16))
    x = rng.integers(-127, 128, (2, 3, 32)).astype(np.float32)
    for exponent in (0, -78, -79, -126):
        act = np.full((2, 3), np.ldexp(1.0, exponent), np.float32)
        act[1, 2] = 0
        assert np.array_equal(as_bits(matmul._product(x, act, weights, x.shape[1])),
                              as_bits(_literal(x, act, weights)))

"""The arithmetic against float64, against plain loops and at its special values."""

import ast
import doctest
import pathlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.sw import numerics
from headrace.sw.numerics import report


INF, NAN, MIN_NORMAL = float("inf"), float("nan"), 2.0 ** -126


def floats(*values):
    return np.array(values, dtype=np.float32)


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{want.itemsize}"))


def patterns(seed, count):
    """Words over the full range, and a few exponents next to each other."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    x[::2] = x[::2] & 0x81ffffff
    x[::5] = x[::5] & 0xfff00000
    return numerics.from_bits(x)


def ieee(result):
    """Round float64 to fp32 as the machine does."""
    rounded = result.astype(np.float32)
    rounded[np.abs(rounded) < MIN_NORMAL] *= 0
    rounded[np.isnan(rounded)] = NAN
    return rounded


def zeroed(x):
    """Operands as float64 with subnormals read as zeros."""
    x = x.astype(np.float64)
    x[np.abs(x) < MIN_NORMAL] *= 0
    return x


def test_mul_add_rounding():
    # The product and, by its 53 bits, the sum in float64 round to fp32 as if done at once.
    a, b = patterns(1, 200_000), patterns(2, 200_000)
    with np.errstate(all="ignore"):
        wide_a, wide_b = zeroed(a), zeroed(b)
        same(numerics.mul(a, b), ieee(wide_a * wide_b))
        same(numerics.add(a, b), ieee(wide_a + wide_b))
        same(numerics.sub(a, b), ieee(wide_a - wide_b))


@pytest.mark.parametrize("a, b, product", [
    (0x3f7fffff, 0x00800000, 0x00800000),  # halfway below 2**-126: to even, which is 2**-126
    (0x3f7ffffe, 0x00800000, 0x00000000),  # a whole step below: flushed
    (0xbf7ffffe, 0x00800000, 0x80000000),
    (0x007fffff, 0x7f000000, 0x00000000),  # a subnormal operand is zero
    (0x007fffff, 0xff800000, 0x7fc00000),
    (0x7f800000, 0x80000000, 0x7fc00000),
    (0xffc12345, 0x3f800000, 0x7fc00000),  # NaN loses sign and payload
    (0x7f7fffff, 0x40000000, 0x7f800000),
])
def test_mul_special(a, b, product):
    a, b, product = (np.array([x], np.uint32) for x in (a, b, product))
    same(numerics.mul(numerics.from_bits(a), numerics.from_bits(b)), numerics.from_bits(product))


def test_add_special():
    a = floats(0, -0.0, -0.0, INF, INF, 1.5 * MIN_NORMAL, -1.5 * MIN_NORMAL, 1, 1e-40)
    b = floats(-0.0, 0, -0.0, -INF, 1, -MIN_NORMAL, MIN_NORMAL, -1, -1e-40)
    same(numerics.add(a, b), floats(0, 0, -0.0, NAN, INF, 0, -0.0, 0, 0))


@given(*[st.integers(0, 2 ** 32 - 1)] * 2)
@settings(deadline=None)
def test_commutative_and_clean(a, b):
    a, b = numerics.from_bits([a]), numerics.from_bits([b])
    for op in (numerics.mul, numerics.add):
        result = op(a, b)
        same(result, op(b, a))
        same(result, numerics.flush(result))
        same(result, op(numerics.flush(a), numerics.flush(b), clean=True))


def test_from_int():
    i = np.array([0, 1, -1, 2**24 + 1, 2**24 + 3, -2**31, 2**31 - 1], dtype=np.int64)
    same(numerics.from_int(i), floats(0, 1, -1, 2**24, 2**24 + 4, -2.0**31, 2.0**31))


def test_fp16_both_ways():
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = np.array([struct.unpack("<e", struct.pack("<H", x))[0] for x in bits.tolist()])
    nan = np.isnan(values)
    values[nan] = NAN
    same(numerics.from_fp16(bits), values.astype(np.float32))
    back = numerics.to_fp16(numerics.from_fp16(bits))
    same(back[np.isfinite(values)], bits[np.isfinite(values)])
    assert set(back[nan].tolist()) == {0x7e00}
    assert set(back[np.isinf(values)].tolist()) == {0x7bff, 0xfbff}


def test_to_fp16_rounding():
    x = floats(65519.99, 65520, 1e30, -1e30, 2**-25, 1.0001 * 2**-25, 3 * 2**-25, 1e-40, -0.0)
    want = [0x7bff, 0x7bff, 0x7bff, 0xfbff, 0, 1, 2, 0, 0x8000]
    assert numerics.to_fp16(x).tolist() == want


def test_to_int16():
    x = np.array([0.5, 1.5, -2.5, 32511.5, 32512, 32513, 1e30, np.inf, -np.inf, -32511.6, np.nan],
                 np.float32)
    assert list(numerics.to_int16(x)) == [0, 2, -2, 32512, 32512, 32512, 32512, 32512, -32512,
                                          -32512, 0]


def test_halves_are_a_16_bit_value():
    y = np.random.default_rng(3).normal(size=(50, 64)).astype(np.float32)
    high, low, scale = numerics.quantise16(y)
    assert np.abs(high).max() == 127 and low.min() == -128
    assert (scale == numerics.quantise(y)[1]).all()
    value = 256.0 * high + low
    unit = np.repeat(numerics.low_scale(scale).astype(np.float64), 32, axis=-1)
    assert (np.abs(value * unit - y) <= 0.51 * unit).all()
    assert (unit * 256 == np.repeat(scale, 32, axis=-1)).all()


def test_low_scale():
    least = np.float32(2.0 ** -118)           # the exponent is 9
    values = np.array([1, least, least / 2, 0, np.inf, np.nan], np.float32)
    assert list(numerics.low_scale(values)[:5]) == [2.0 ** -8, 2.0 ** -126, 0, 0, np.inf]
    assert np.isnan(numerics.low_scale(values)[5])


def test_to_int8():
    x = floats(0.5, 1.5, -2.5, 126.5, 127.49, 127.5, 1e9, -127.5, -1e9, INF, -INF, NAN, 1e-40)
    assert list(numerics.to_int8(x)) == [0, 2, -2, 126, 127, 127, 127, -127, -127, 127, -127, 0, 0]


def test_maxima():
    x = floats(-3, 2, -0.0)
    same(numerics.abs_max(x), floats(3)[0:1].reshape(()))
    nan = numerics.from_bits([0xffc00001, 0x7f800000])
    assert numerics.as_bits(numerics.abs_max(nan)) == 0x7fc00001
    assert numerics.abs_max(np.zeros((2, 0), np.float32)).tolist() == [0, 0]
    a, b = floats(-0.0, NAN, -2, -INF), floats(0, INF, -1, -1e38)
    same(numerics.maximum(a, b), floats(0, NAN, -1, -1e38))
    assert (np.diff(numerics.order_key(floats(-2, -1, -0.0, 0, 1, INF, NAN))) > 0).all()


@pytest.mark.parametrize("step", [997, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name, ulp", [("exp", 0.828), ("rcp", 0.699), ("rsqrt", 0.78)])
def test_error_bounds(name, ulp, step):
    assert report.measure(name, step).max_ulp < ulp


def test_exp_special():
    x = floats(0, -0.0, 1e-40, -1e-30, 88.8, 1e30, INF, -87.4, -1e30, -INF, NAN)
    same(numerics.exp(x), floats(1, 1, 1, 1, INF, INF, INF, 0, 0, 0, NAN))


def test_exp_monotonic():
    x = np.sort(np.random.default_rng(3).uniform(-90, 90, 1_000_000).astype(np.float32))
    assert (np.diff(numerics.exp(x[np.abs(x) < 88])) >= 0).all()


def test_rcp_special():
    x = floats(0, -0.0, 1e-40, INF, -INF, NAN, 2.0**127, -2.0**127, 1.5 * 2.0**126)
    same(numerics.rcp(x), floats(INF, -INF, INF, 0, -0.0, NAN, 0, -0.0, 0))
    powers = np.ldexp(np.float32(-1), np.arange(-126, 127))
    same(numerics.rcp(powers), powers[::-1])


def test_rsqrt_special():
    x = floats(0, -0.0, 1e-40, -1e-40, INF, -INF, -1, NAN, 3.4028235e38)
    same(numerics.rsqrt(x), floats(INF, -INF, INF, -INF, 0, NAN, NAN, NAN, 5.421011e-20))
    same(numerics.rsqrt(np.ldexp(np.float32(1), np.arange(-126, 128, 2))),
         np.ldexp(np.float32(1), -np.arange(-63, 64)))


def slow_reduce(x):
    partial = [numerics.from_bits(0)] * 16
    for index, value in enumerate(x):
        partial[index % 16] = numerics.add(partial[index % 16], value)
    for width in (8, 4, 2, 1):
        partial = [numerics.add(partial[j], partial[j + width]) for j in range(width)]
    return partial[0]


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 100])
@pytest.mark.parametrize("kind", ["normal", "tiny", "any"])
def test_reduce16(length, kind):
    rng = np.random.default_rng(length)
    x = rng.normal(size=(3, length)).astype(np.float32)
    if kind == "tiny":
        x *= np.float32(2.0**-125)
    elif kind == "any":
        x = patterns(length, 3 * length).reshape(3, length)
    same(numerics.reduce16(x), np.array([slow_reduce(row) for row in x]))


def test_quantise():
    with pytest.raises(ValueError, match="multiple of the group of 32, not 40"):
        numerics.quantise(np.zeros((2, 40)))
    y = np.random.default_rng(4).normal(size=(3, 2, 64)).astype(np.float32)
    y[0, 0, :32] = 0
    q, scale = numerics.quantise(y)
    assert q.dtype == np.int8 and q.shape == y.shape and scale.shape == (3, 2, 2)
    assert not q[0, 0, :32].any() and scale[0, 0, 0] == 0
    groups = q.reshape(3, 2, 2, 32)
    assert set(np.abs(groups).max(axis=-1).ravel().tolist()) == {0, 127}
    assert (np.abs(groups * scale[..., None] - y.reshape(groups.shape))
            <= 0.5001 * scale[..., None]).all()


def test_quantise_special():
    y = np.zeros((4, 32), np.float32)
    y[0, :2], y[1, :2], y[2, :2], y[3, :2] = (1e-40, 0), (INF, 1), (NAN, 1), (2.0**-126, 0)
    q, scale = numerics.quantise(y)
    same(scale[:, 0], floats(0, INF, NAN, 0))
    # 127 / 2**-126 overflows: the values saturate, and the scale of zero cancels them.
    assert q[:, :2].tolist() == [[0, 0], [0, 0], [0, 0], [127, 0]]


def test_quantise_kv():
    v = np.random.default_rng(5).normal(size=(5, 64)).astype(np.float32)
    v[0], v[1], v[2, 0], v[3, 0] = 0, v[1] * np.float32(1e-8), 1e9, NAN
    q, scale = numerics.quantise_kv(v)
    assert q.dtype == np.int8 and q.shape == v.shape
    assert scale.tolist()[:4] == [0, 0, 0x7bff, 0x7e00]
    assert not q[[0, 1, 3]].any()
    wide = numerics.from_fp16(scale)[4]
    # Rounding the scale to fp16 moves the largest value by up to 2**-11 of itself.
    assert np.abs(q[4] * wide - v[4]).max() <= 0.57 * wide


def test_silu_and_rms_scale():
    x = np.random.default_rng(6).normal(size=(4, 100)).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(numerics.silu(x), wide / (1 + np.exp(-wide)), rtol=3e-7)
    same(numerics.silu(floats(0, -0.0, INF, -INF, -100)), floats(0, -0.0, INF, NAN, -0.0))
    np.testing.assert_allclose(
        numerics.rms_scale(x, np.float32(1 / 100), np.float32(1e-5)),
        1 / np.sqrt((wide ** 2).mean(axis=-1) + 1e-5), rtol=1e-6)


def test_gelu():
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.logspace(-30, 1, 1000)]).astype(
        np.float32)
    wide = x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide ** 3)))
    error = np.abs(numerics.gelu(x) - exact)
    # Relative to values, and where they are tiny, absolute: see docs/number-formats.md.
    large = np.abs(exact) > 1e-3
    assert (error[large] / np.abs(exact[large])).max() < 3e-6
    assert error[np.abs(x) < 1].max() < 2e-7
    same(numerics.gelu(floats(0, -0.0, INF, -INF, -100)), floats(0, -0.0, INF, NAN, -0.0))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3, 1)])
def test_shapes(shape):
    x = np.ones(shape, np.float32)
    for function in (numerics.exp, numerics.rcp, numerics.rsqrt, numerics.silu, numerics.to_int8,
                     numerics.to_fp16, numerics.from_int, numerics.flush):
        assert function(x).shape == shape
    assert numerics.mul(x, 2.0).shape == numerics.add(x, x).shape == shape


def test_document():
    path = pathlib.Path(__file__).parents[2] / "docs" / "number-formats.md"
    assert doctest.testfile(str(path), module_relative=False).failed == 0


def test_only_portable_operations():
    package = pathlib.Path(numerics.__file__).parent
    for path in set(package.glob("*.py")) - {package / "report.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, (ast.Div, ast.Pow)), path
            assert not (isinstance(node, ast.Attribute) and node.attr in {
                "exp", "exp2", "sqrt", "reciprocal", "divide", "sum", "mean", "dot"}), path


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("operation", [numerics.mul, numerics.add])
def test_short_and_long_arrays_have_the_same_bits(operation, clean):
    """Short ones are looked at once for all that is not ordinary."""
    rng = np.random.default_rng(11)
    edges = [0, 1, 0x7fffff, 0x800000, 0x800001, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7f800001,
             0x7fc00000, 0x7fffffff, 0x1fffffff, 0x20000000]
    edges = np.array([*edges, *(each | 0x80000000 for each in edges)], np.uint32)
    a = np.concatenate([np.repeat(edges, len(edges)), rng.integers(0, 1 << 32, 6000, np.uint32)])
    b = np.concatenate([np.tile(edges, len(edges)), rng.integers(0, 1 << 32, 6000, np.uint32)])
    a, b = (numerics.flush(each.view(np.float32)) if clean else each.view(np.float32)
            for each in (a, b))
    expected = numerics.as_bits(operation(a, b, clean=clean))
    single = [numerics.as_bits(operation(a[at:at + 1], b[at:at + 1], clean=clean))[0]
              for at in range(len(a))]
    assert np.array_equal(expected, single)
    pieces = [numerics.as_bits(operation(a[at:at + 50], b[at:at + 50], clean=clean))
              for at in range(0, len(a), 50)]
    assert np.array_equal(expected, np.concatenate(pieces))

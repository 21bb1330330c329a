"""Quantisation of weights."""

import numpy as np
import pytest

from headrace.hw.isa import Format
from headrace.sw.errors import HeadraceError
from headrace.sw.quantiser import Policy, joint_format, quantise_weights, widen


def _weights(seed=0, k=70, n=9):
    return np.random.default_rng(seed).standard_normal((k, n))


@pytest.mark.parametrize("fmt, levels, bound", [(Format.W8, 127, 0.52), (Format.W4, 8, 1.02),
                                                (Format.W4A, 15, 0.55)])
def test_error_is_at_most_half_a_step(fmt, levels, bound):
    w = _weights()
    found = quantise_weights(w, fmt=fmt)
    assert found.q.shape == (96, 9) and found.scales.shape == (3, 9)
    assert not found.q[70:].any() or fmt == Format.W4A
    step = np.repeat(np.abs(found.scales.astype(np.float64)), 32, axis=0)[:70]
    error = np.abs(found.dequantise()[:70] - w)
    # W4 symmetric clips what lies beyond +7 steps.
    assert (error <= bound * step + 1e-3).all()
    assert np.abs(found.q.astype(int)).max() <= levels


def test_int8_uses_the_whole_range():
    found = quantise_weights(_weights())
    assert (np.abs(found.q.reshape(3, 32, 9)).max(axis=1) == 127).all()
    assert found.q.min() == -127


def test_group_of_zeros_has_scale_zero():
    w = _weights()
    w[:32] = 0
    for fmt in Format:
        found = quantise_weights(w, fmt=fmt)
        assert not found.q[:32].any() and not found.scales[0].any()


@pytest.mark.parametrize("fmt", Format)
def test_many_columns_are_independent(fmt):
    w = _weights(k=32, n=9000)
    found = quantise_weights(w, fmt=fmt)
    for column in (0, 4095, 4096, 8999):
        alone = quantise_weights(w[:, column:column + 1], fmt=fmt)
        assert np.array_equal(found.q[:, column], alone.q[:, 0])
        assert found.scales[0, column] == alone.scales[0, 0]


def test_scale_beyond_fp16_is_refused():
    w = _weights()
    w[5, 2] = 1e8
    with pytest.raises(HeadraceError, match=r"tensor 'layers.0.q': a weight of 1e\+08 needs a "
                                            r"scale of 787402, but fp16 ends at 65504"):
        quantise_weights(w, name="layers.0.q")


def test_policy_by_tensor():
    policy = Policy(default=Format.W4, tensors=(("head", Format.W8),))
    assert policy.format("head") == Format.W8 and policy.format("layers.0.q") == Format.W4


def test_policy_by_kind():
    policy = Policy(tensors=(("q", Format.W4), ("layers.1.q", None)))
    assert [policy.format(name) for name in ("layers.0.q", "layers.1.q", "layers.0.kv")] == [
        Format.W4, None, None]


@pytest.mark.parametrize("formats, expected", [
    ([Format.W4], Format.W4), ([Format.W4A], Format.W4A), ([Format.W8], Format.W8),
    ([Format.W4, Format.W4A], Format.W4A), ([Format.W4, Format.W8], Format.W8),
    ([Format.W4A, Format.W8], Format.W8), ([Format.W4, None], Format.W8), ([None], Format.W8),
])
def test_format_that_holds_all_parts(formats, expected):
    assert joint_format(formats) == expected == joint_format(formats[::-1])


@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e4])
def test_symmetric_int4_fits_into_the_other_formats(scale):
    found = quantise_weights(_weights() * scale, fmt=Format.W4)
    for to in (Format.W8, Format.W4A):
        wide = widen(found, Format.W4, to)
        assert wide is not None and (wide.minima is not None) == (to == Format.W4A)
        assert np.array_equal(wide.dequantise(), found.dequantise())
    assert widen(found, Format.W4A, Format.W8) is None
    assert widen(found, Format.W8, Format.W4) is None
    # A minimum of -8 scales would be beyond fp16.
    large = quantise_weights(_weights() * 1e5, fmt=Format.W4)
    assert widen(large, Format.W4, Format.W4A) is None

"""Weights to integers with one scale per group along K and per output column.

This happens once, on the host, so float64 and any rounding that NumPy offers are welcome here;
the machine only ever sees the integers and the fp16 scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.hw.isa import Format

from .errors import HeadraceError


__all__ = ["Native", "Policy", "Quantised", "joint_format", "quantise_weights", "widen"]


_FP16_MAX = 65504.0

# Columns that are quantised at a time: float64 copies of a large vocabulary would fill memory.
_COLUMNS = 4096


@dataclass(frozen=True)
class Native:
    """How the integers in a file can be taken over.

    Attributes
    ----------
    fmt : Format
        Format of the machine that holds them.
    exact : bool
        The machine's weights are the file's to the last bit; otherwise scales are rounded to fp16.
    """

    fmt: Format
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Format of each matrix.

    Whatever the format, integers of the file that fit into it are taken over as they are.

    Parameters
    ----------
    default : Format or None
        Format of every matrix that `tensors` does not name; None is the format that takes the
        file's integers over, or W8 where it has none.
    tensors : tuple of (str, Format or None)
        Formats of single matrices, by their names in the program (``layers.0.q``, ``head``), or of
        all of a kind (``q``, ``down``): the last one that fits counts.
    group : int
        Values along K that share a scale; part of the numerics.
    act_bits : int
        Bits of the activations that meet weights, 8 or 16.
    """

    default: Format | None = None
    tensors: tuple[tuple[str, Format | None], ...] = ()
    group: int = 32
    act_bits: int = 8

    def format(self, name: str) -> Format | None:
        """Format of the matrix `name`."""
        found = self.default
        for key, fmt in self.tensors:
            if key in (name, name.rpartition(".")[2]):
                found = fmt
        return found


@dataclass(frozen=True)
class Quantised:
    """A quantised matrix: ``w[k, n] = q[k, n] * scales[k // group, n] (+ minima[...])``."""

    q: NDArray[np.int8]
    scales: NDArray[np.float16]
    minima: NDArray[np.float16] | None = None

    def dequantise(self) -> NDArray[np.float64]:
        """Return the weights that the machine computes with."""
        group = self.q.shape[0] // self.scales.shape[0]
        w = self.q * np.repeat(self.scales.astype(np.float64), group, axis=0)
        if self.minima is not None:
            w += np.repeat(self.minima.astype(np.float64), group, axis=0)
        return w


def joint_format(formats: Sequence[Format | None]) -> Format:
    """Format of a matrix whose parts could be taken over in `formats`: the smallest one that holds
    all of them, and W8 if a part cannot be taken over or none does."""
    found = set(formats)
    if found == {Format.W4}:
        return Format.W4
    return Format.W4A if found and found <= {Format.W4, Format.W4A} else Format.W8


def widen(blocks: Quantised, fmt: Format, to: Format) -> Quantised | None:
    """The same weights, to the last bit, in another format; None if it cannot hold them."""
    if fmt == to or (fmt, to) == (Format.W4, Format.W8):
        return blocks
    if (fmt, to) != (Format.W4, Format.W4A):
        return None
    # (q + 8) * s - 8 s: times 8 is exact up to the largest number.
    with np.errstate(over="ignore"):
        minima = blocks.scales * np.float16(-8)
    if not np.isfinite(minima).all():
        return None
    return Quantised(blocks.q + np.int8(8), blocks.scales, minima)


def _scale(amax: NDArray[np.float64], levels: int, name: str) -> NDArray[np.float16]:
    scale = amax / levels
    if scale.size and scale.max() > _FP16_MAX:
        raise HeadraceError(f"tensor {name!r}: a weight of {amax.max():g} needs a scale of "
                            f"{scale.max():g}, but fp16 ends at {_FP16_MAX:g}: expected weights "
                            f"below {_FP16_MAX * levels:g}")
    return scale.astype(np.float16)


def _divide(w: NDArray[np.float64], scales: NDArray[np.float16]) -> NDArray[np.float64]:
    """``w / scale``, and 0 where the scale is 0."""
    step = scales.astype(np.float64)[:, None, :]
    return np.divide(w, step, out=np.zeros_like(w), where=step != 0)


def _join(parts: list[Quantised]) -> Quantised:
    """Put matrices side by side."""
    minima = [part.minima for part in parts if part.minima is not None]
    return Quantised(np.concatenate([part.q for part in parts], axis=1),
                     np.concatenate([part.scales for part in parts], axis=1),
                     np.concatenate(minima, axis=1) if minima else None)


def quantise_weights(w: ArrayLike, *, fmt: Format = Format.W8, group: int = 32,
                     name: str = "weights") -> Quantised:
    """Quantise one matrix.

    W8: ``scale = fp16(absmax / 127)``, ``q = round(w / scale)`` within ±127. W4: the element of
    largest magnitude becomes -8, ``scale = fp16(extreme / -8)``. W4A: ``minimum = fp16(min)``,
    ``scale = fp16((max - minimum) / 15)``. A group of zeros has scale 0.

    Parameters
    ----------
    w : array_like, shape (k, n)
        Weights, contraction first. `k` is padded with zeros to a multiple of `group`.
    fmt : Format
        Format of the values.
    group : int
        Values along `k` that share a scale.
    name : str
        Name for error messages.

    Raises
    ------
    HeadraceError
        If a scale does not fit fp16.
    """
    w = np.asarray(w)
    k, n = w.shape
    if n > _COLUMNS:
        return _join([quantise_weights(w[:, at:at + _COLUMNS], fmt=fmt, group=group, name=name)
                      for at in range(0, n, _COLUMNS)])
    groups = -(-k // group)
    padded = np.zeros((groups * group, n))
    padded[:k] = w
    blocks = padded.reshape(groups, group, n)
    minima = None
    if fmt == Format.W8:
        scales = _scale(np.abs(blocks).max(axis=1), 127, name)
        q = np.clip(np.rint(_divide(blocks, scales)), -127, 127)
    elif fmt == Format.W4:
        index = np.abs(blocks).argmax(axis=1)
        extreme = np.take_along_axis(blocks, index[:, None, :], axis=1)[:, 0]
        scales = _scale(np.abs(extreme), 8, name) * -np.sign(extreme).astype(np.float16)
        q = np.clip(np.rint(_divide(blocks, scales)), -8, 7)
    else:
        low = np.minimum(blocks.min(axis=1), 0)
        minima = np.clip(low, -_FP16_MAX, _FP16_MAX).astype(np.float16)
        span = blocks.max(axis=1) - minima.astype(np.float64)
        scales = _scale(np.maximum(span, 0), 15, name)
        q = np.clip(np.rint(_divide(blocks - minima.astype(np.float64)[:, None, :], scales)),
                    0, 15)
    return Quantised(q.reshape(groups * group, n).astype(np.int8), scales, minima)

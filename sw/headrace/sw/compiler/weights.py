"""Weights of a checkpoint as the matrices and tables of the program."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.isa import Format

from ..checkpoint import Weights
from ..numerics import flush
from ..quantiser import Policy, Quantised, joint_format, quantise_weights, widen
from ..weight_layout import block_words, interleave_tiles, pack_weights
from .program import Matrix, rope_rows
from .sizes import Sizes


__all__ = ["matrix_format", "origin", "pack_matrix", "write_table"]


# Values that are quantised, or copied to a table, at a time: float64 copies of a whole matrix
# would take more memory than the image.
_RUN = 1 << 19

_PARTS = {"kv": ("self_attn.k_proj", "self_attn.v_proj"), "q": ("self_attn.q_proj",),
          "o": ("self_attn.o_proj",), "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
          "down": ("mlp.down_proj",)}

#: Group of the integers that files hold.
_NATIVE_GROUP = 32


def _tensors(sizes: Sizes, name: str) -> list[str]:
    """Tensors of the checkpoint that the matrix `name` is made of."""
    if name == "head":
        return ["model.embed_tokens.weight" if sizes.shape.tied else "lm_head.weight"]
    _, layer, kind = name.split(".")
    return [f"model.layers.{layer}.{part}.weight" for part in _PARTS[kind]]


def _can_be_taken(sizes: Sizes, name: str) -> bool:
    """Groups of the file are groups of the machine: none is cut by the padding of heads."""
    padded = name.endswith(".o") and sizes.head_dim != sizes.shape.head_dim
    return sizes.group == _NATIVE_GROUP and not padded


def _native_formats(checkpoint: Weights, sizes: Sizes, name: str) -> list[Format | None]:
    found = [checkpoint.native(tensor) if _can_be_taken(sizes, name) else None
             for tensor in _tensors(sizes, name)]
    return [None if native is None else native.fmt for native in found]


def matrix_format(checkpoint: Weights, sizes: Sizes, policy: Policy, name: str) -> Format:
    """Format of a matrix under a policy."""
    fmt = policy.format(name)
    return joint_format(_native_formats(checkpoint, sizes, name)) if fmt is None else fmt


def origin(checkpoint: Weights, sizes: Sizes, spec: Matrix) -> str:
    """Where the integers of a matrix come from, for people: ``"taken over"``, ``"taken over,
    scales rounded"``, ``"quantised"``, or ``"quantised in part"``."""
    taken = [fmt is not None and (fmt == spec.fmt or fmt == Format.W4)
             for fmt in _native_formats(checkpoint, sizes, spec.name)]
    if not all(taken):
        return "quantised in part" if any(taken) else "quantised"
    natives = [checkpoint.native(tensor) for tensor in _tensors(sizes, spec.name)]
    exact = all(native is not None and native.exact for native in natives)
    return "taken over" if exact else "taken over, scales rounded"


def _pad(values: NDArray[Any], axis: int, size: int) -> NDArray[Any]:
    """Pad one axis with zeros up to `size`."""
    if values.shape[axis] == size:
        return values
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, size - values.shape[axis])
    return np.pad(values, widths)


def _heads(w: NDArray[Any], sizes: Sizes, *, rotated: bool) -> NDArray[Any]:
    """Rows of q, k or v, per head padded to `head_dim`.

    Rotated heads (q, k) are permuted, so that the pair ``(i, i + n / 2)`` of the checkpoint
    becomes ``(2 i, 2 i + 1)``: scores do not change, and the machine turns neighbours.
    """
    size = sizes.shape.head_dim
    heads = w.reshape(-1, size, w.shape[-1])
    if rotated:
        heads = heads.reshape(-1, 2, size // 2, w.shape[-1]).swapaxes(1, 2).reshape(heads.shape)
    return _pad(heads, 1, sizes.head_dim).reshape(-1, w.shape[-1])


def _rows(values: NDArray[Any], sizes: Sizes, tensor: str) -> NDArray[Any]:
    """Rows (outputs) of a tensor in the order of the machine; the last axis stays."""
    rotated = tensor.endswith(("q_proj.weight", "k_proj.weight"))
    if rotated or tensor.endswith("v_proj.weight"):
        return _heads(values, sizes, rotated=rotated)
    return values


class _Columns:
    """Columns of a matrix, side by side: integers that are taken over, or floats to quantise."""

    def __init__(self, parts: Sequence[Quantised | NDArray[np.float32]], spec: Matrix):
        self.parts, self.spec = parts, spec
        self.widths = [part.q.shape[1] if isinstance(part, Quantised) else len(part)
                       for part in parts]

    def take(self, begin: int, end: int) -> Quantised:
        """Columns ``begin ... end``; those behind the last are zeros."""
        found, at = [], 0
        for part, width in zip(self.parts, self.widths):
            low, high = max(begin - at, 0), min(end - at, width)
            at += width
            if low < high:
                found.append(self._part(part, low, high))
        rest = end - max(begin, at)
        if rest > 0:
            found.append(self._part(np.zeros((rest, self.spec.k), np.float32), 0, rest))
        minima = [part.minima for part in found if part.minima is not None]
        return Quantised(np.concatenate([part.q for part in found], axis=1),
                         np.concatenate([part.scales for part in found], axis=1),
                         np.concatenate(minima, axis=1) if minima else None)

    def _part(self, part: Quantised | NDArray[np.float32], low: int, high: int) -> Quantised:
        if isinstance(part, Quantised):
            return Quantised(part.q[:, low:high], part.scales[:, low:high],
                             None if part.minima is None else part.minima[:, low:high])
        return quantise_weights(part[low:high].T, fmt=self.spec.fmt, group=self.spec.group,
                                name=self.spec.name)


def _read(checkpoint: Weights, sizes: Sizes, spec: Matrix, tensor: str
          ) -> Quantised | NDArray[np.float32]:
    """One tensor: its integers where they fit into the format, otherwise as float32."""
    native = checkpoint.native(tensor) if _can_be_taken(sizes, spec.name) else None
    if native is not None and (native.fmt == spec.fmt or native.fmt == Format.W4):
        blocks = widen(checkpoint.blocks(tensor), native.fmt, spec.fmt)
        if blocks is not None:
            q, scales, minima = (
                None if values is None else _rows(values.T, sizes, tensor).T
                for values in (blocks.q, blocks.scales, blocks.minima))
            assert q is not None and scales is not None
            return Quantised(q, scales, minima)
    w = _rows(checkpoint.tensor(tensor), sizes, tensor)
    if tensor.endswith("o_proj.weight") and sizes.head_dim != sizes.shape.head_dim:
        # Its inputs are the heads' outputs, each padded.
        w = _heads(np.ascontiguousarray(w.T), sizes, rotated=False).T
    return w


def pack_matrix(checkpoint: Weights, sizes: Sizes, spec: Matrix, out: NDArray[np.uint8]) -> None:
    """Read, permute, pad, quantise and pack one matrix, some tiles at a time.

    Parameters
    ----------
    checkpoint : Weights
        The model.
    sizes : Sizes
        Padded sizes.
    spec : Matrix
        The matrix.
    out : uint8 array, shape (bytes,)
        Where it lies in the image.
    """
    read = [_read(checkpoint, sizes, spec, tensor) for tensor in _tensors(sizes, spec.name)]
    # Gate and up alternate tile by tile; keys and values are side by side.
    lanes = ([_Columns([part], spec) for part in read] if spec.name.endswith(".gate_up")
             else [_Columns(read, spec)])
    cols, stride, count = sizes.config.cols, sizes.config.stride, len(lanes)
    size = spec.k_groups * block_words(spec.fmt, spec.group) * stride
    whole = spec.tiles - (spec.narrow > 0)
    step = max(1, _RUN // (spec.k * cols))
    runs = [(at, min(whole // count, at + step), 0) for at in range(0, whole // count, step)]
    if spec.narrow:
        runs.append((whole, spec.tiles, spec.narrow))
    for at, stop, narrow in runs:
        end = min(spec.columns, stop * cols)
        parts = [lane.take(at * cols, end) for lane in lanes]
        minima = [part.minima for part in parts if part.minima is not None]
        packed = pack_weights(
            spec.fmt, _side_by_side([part.q for part in parts], cols),
            _side_by_side([part.scales for part in parts], cols),
            _side_by_side(minima, cols) if minima else None, cols=cols, stride=stride,
            narrow=narrow)
        out[at * count * size:at * count * size + packed.size] = packed


def _side_by_side(parts: list[NDArray[Any]], cols: int) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else interleave_tiles(parts, cols)


def _table(checkpoint: Weights, sizes: Sizes, name: str, context: int) -> NDArray[np.float32]:
    """Rows of a table; the width of the model is not padded yet."""
    shape = sizes.shape
    if name.startswith("rope."):
        rope = shape.all_ropes[int(name.removeprefix("rope."))]
        return rope_rows(rope, shape.head_dim, sizes.head_dim, context)
    if name == "embedding":
        values = checkpoint.tensor("model.embed_tokens.weight")
        scale = np.float32(shape.embedding_scale)
        return values if scale == 1 else np.multiply(values, scale, out=values.copy())
    if name == "final_norm":
        return checkpoint.tensor("model.norm.weight") + np.float32(shape.gain_offset)
    _, layer, kind = name.split(".")
    read = f"model.layers.{layer}."
    if kind.endswith("bias"):
        return _bias(checkpoint, sizes, read + "self_attn.", kind)
    gains = checkpoint.tensor(f"{read}{shape.norms()[kind][0]}.weight")
    gains = gains + np.float32(shape.gain_offset)
    if kind in ("q_norm", "k_norm"):
        return _heads(gains[:, None], sizes, rotated=True)[:, 0]
    return gains


def _bias(checkpoint: Weights, sizes: Sizes, read: str, kind: str) -> NDArray[np.float32]:
    """Biases in the order of the columns of their matrix."""
    def get(part: str) -> NDArray[np.float32]:
        values = checkpoint.tensor(f"{read}{part}_proj.bias")
        return _heads(values[:, None], sizes, rotated=part != "v")[:, 0]

    if kind == "kv_bias":
        return np.concatenate([get("k"), get("v")])
    return _pad(get("q"), 0, sizes.q_dim)


def write_table(checkpoint: Weights, sizes: Sizes, name: str, context: int,
                out: NDArray[np.uint8]) -> None:
    """Write a table of fp32 rows, padded, subnormals flushed, to its place in the image."""
    values = _table(checkpoint, sizes, name, context)
    values = values.reshape(-1, values.shape[-1])
    rows = out.reshape(len(values), -1)
    step = max(1, _RUN // values.shape[1])
    for at in range(0, len(values), step):
        raw = np.ascontiguousarray(flush(values[at:at + step]), "<f4").view(np.uint8)
        rows[at:at + step, :raw.shape[1]] = raw

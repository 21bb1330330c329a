"""Weights of a checkpoint as the matrices and tables of the program."""

import numpy as np
from numpy.typing import NDArray

from ..checkpoint import Weights
from ..numerics import flush
from ..quantiser import Quantised, quantise_weights
from ..weight_layout import interleave_tiles
from .program import Matrix, rope_rows
from .sizes import Sizes


__all__ = ["matrix", "table"]


def _pad(values: NDArray[np.float32], axis: int, size: int) -> NDArray[np.float32]:
    """Pad one axis with zeros up to `size`."""
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, size - values.shape[axis])
    return np.pad(values, widths)


def _heads(w: NDArray[np.float32], sizes: Sizes, *, rotated: bool) -> NDArray[np.float32]:
    """Rows of q, k or v, per head padded to `head_dim`.

    Rotated heads (q, k) are permuted, so that the pair ``(i, i + n / 2)`` of the checkpoint
    becomes ``(2 i, 2 i + 1)``: scores do not change, and the machine turns neighbours.
    """
    size = sizes.shape.head_dim
    heads = w.reshape(-1, size, w.shape[-1])
    if rotated:
        heads = heads.reshape(-1, 2, size // 2, w.shape[-1]).swapaxes(1, 2).reshape(heads.shape)
    return _pad(heads, 1, sizes.head_dim).reshape(-1, w.shape[-1])


def matrix(checkpoint: Weights, sizes: Sizes, spec: Matrix) -> Quantised:
    """Read, permute, pad and quantise one matrix: ``[k, columns]`` in the order of its tiles."""
    name = spec.name

    def quantise(w: NDArray[np.float32]) -> Quantised:
        return quantise_weights(w.T, fmt=spec.fmt, group=spec.group, name=name)

    if name == "head":
        tied = sizes.shape.tied
        return quantise(checkpoint.tensor("model.embed_tokens.weight" if tied
                                          else "lm_head.weight"))
    _, layer, kind = name.split(".")
    read = f"model.layers.{layer}."

    def get(part: str) -> NDArray[np.float32]:
        return checkpoint.tensor(f"{read}{part}_proj.weight")

    if kind == "kv":
        return quantise(np.concatenate([_heads(get("self_attn.k"), sizes, rotated=True),
                                        _heads(get("self_attn.v"), sizes, rotated=False)]))
    if kind == "q":
        return quantise(_pad(_heads(get("self_attn.q"), sizes, rotated=True), 0, sizes.q_dim))
    if kind == "o":
        # Its inputs are the heads' outputs, each padded.
        w = _heads(np.ascontiguousarray(get("self_attn.o").T), sizes, rotated=False)
        return quantise(_pad(_pad(w, 0, sizes.q_dim).T, 0, sizes.dim))
    if kind == "down":
        return quantise(_pad(_pad(get("mlp.down"), 1, sizes.ffn), 0, sizes.dim))
    gate, up = (quantise(_pad(get(f"mlp.{part}"), 0, sizes.ffn)) for part in ("gate", "up"))
    cols = sizes.config.cols
    minima = (None if gate.minima is None or up.minima is None
              else interleave_tiles([gate.minima, up.minima], cols))
    return Quantised(interleave_tiles([gate.q, up.q], cols),
                     interleave_tiles([gate.scales, up.scales], cols), minima)


def table(checkpoint: Weights, sizes: Sizes, name: str, context: int) -> NDArray[np.float32]:
    """Read a table of fp32 rows, padded, subnormals flushed."""
    if name == "rope":
        return flush(rope_rows(sizes.shape, sizes.head_dim, context))
    if name == "embedding":
        values = checkpoint.tensor("model.embed_tokens.weight")
    elif name == "final_norm":
        values = checkpoint.tensor("model.norm.weight")
    else:
        _, layer, kind = name.split(".")
        source = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
        values = checkpoint.tensor(f"model.layers.{layer}.{source[kind]}.weight")
    return flush(_pad(values, values.ndim - 1, sizes.dim))

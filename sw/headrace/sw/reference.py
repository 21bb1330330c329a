"""Forward pass of a checkpoint in ordinary float32 arithmetic, the measure of quality."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checkpoint import Weights


__all__ = ["Reference"]


# Queries whose scores are held at once: with all of a long text they would fill the memory.
_QUERIES = 256


# float32 throughout; NumPy's stubs lose the type in most expressions.
Array = NDArray[Any]


def _norm(x: Array, gain: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(eps)) * gain


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Reference:
    """The float32 model: unquantised weights, no padding, the checkpoint's own order of heads.

    It is independent of compiler and golden machine.

    Parameters
    ----------
    checkpoint : Weights
        The model; all of its weights are read at once.
    """

    def __init__(self, checkpoint: Weights):
        self.shape = checkpoint.shape
        self.w = {name: checkpoint.tensor(name) for name in self.shape.tensors()}

    def _turn(self, x: Array, positions: NDArray[np.int64]) -> Array:
        """Rotary embedding of ``x[position, head, element]``, half-rotation form."""
        half = self.shape.head_dim // 2
        frequency = self.shape.theta ** (-2 * np.arange(half) / self.shape.head_dim)
        angle = positions[:, None, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        low, high = x[..., :half], x[..., half:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    def _attention(self, x: Array, layer: str) -> Array:
        shape = self.shape
        count = len(x)
        positions = np.arange(count)

        def heads(name: str) -> Array:
            y = x @ self.w[f"{layer}self_attn.{name}_proj.weight"].T
            return y.reshape(count, -1, shape.head_dim)

        q, k = self._turn(heads("q"), positions), self._turn(heads("k"), positions)
        k, v = (np.repeat(y, shape.n_rep, axis=1) for y in (k, heads("v")))
        k, v = k.transpose(1, 2, 0), v.transpose(1, 0, 2)
        out = np.empty((count, shape.heads, shape.head_dim), np.float32)
        for at in range(0, count, _QUERIES):
            own = slice(at, min(at + _QUERIES, count))
            scores = q[own].transpose(1, 0, 2) @ k[..., :own.stop]
            scores /= np.float32(np.sqrt(shape.head_dim))
            seen = positions[own, None] >= positions[:own.stop]
            scores = np.where(seen, scores, np.float32(-np.inf))
            out[own] = (_softmax(scores) @ v[:, :own.stop]).transpose(1, 0, 2)
        return out.reshape(count, -1) @ self.w[layer + "self_attn.o_proj.weight"].T

    def logits(self, ids: Sequence[int]) -> Array:
        """Logits ``[position, token]`` after each of `ids`."""
        return self.head(self.hidden(ids))

    def head(self, hidden: Array) -> Array:
        """Logits ``[position, token]`` of some rows of :meth:`hidden`."""
        tied = self.shape.tied
        return hidden @ self.w["model.embed_tokens.weight" if tied else "lm_head.weight"].T

    def hidden(self, ids: Sequence[int]) -> Array:
        """What the output layer takes, ``[position, element]``, after each of `ids`."""
        shape, w = self.shape, self.w
        x = w["model.embed_tokens.weight"][np.asarray(ids)]
        for index in range(shape.layers):
            layer = f"model.layers.{index}."
            x = x + self._attention(_norm(x, w[layer + "input_layernorm.weight"], shape.eps),
                                    layer)
            y = _norm(x, w[layer + "post_attention_layernorm.weight"], shape.eps)
            gate = y @ w[layer + "mlp.gate_proj.weight"].T
            up = y @ w[layer + "mlp.up_proj.weight"].T
            gate = gate / (1 + np.exp(-gate.astype(np.float64))).astype(np.float32)
            x = x + (gate * up) @ w[layer + "mlp.down_proj.weight"].T
        return _norm(x, w["model.norm.weight"], shape.eps)

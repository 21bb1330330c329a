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


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _cap(x: Array, cap: float) -> Array:
    return np.float32(cap) * np.tanh(x / np.float32(cap)) if cap else x


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x.astype(np.float64))).astype(np.float32)


def _gelu(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


_ACTIVATIONS = {"silu": _silu, "gelu": _gelu}


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

    def _norm(self, x: Array, name: str) -> Array:
        gain = self.w[name] + np.float32(self.shape.gain_offset)
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True)
                           + np.float32(self.shape.eps)) * gain

    def _turn(self, x: Array, positions: NDArray[np.int64], layer: int) -> Array:
        """Rotary embedding of ``x[position, head, element]``, half-rotation form."""
        half = self.shape.head_dim // 2
        rope = self.shape.all_ropes[self.shape.rope_index(layer)]
        angle = positions[:, None, None] * rope.frequencies(self.shape.head_dim)
        cos, sin = ((rope.magnitude * f(angle)).astype(np.float32) for f in (np.cos, np.sin))
        low, high = x[..., :half], x[..., half:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    def _attention(self, x: Array, index: int) -> Array:
        shape, layer = self.shape, f"model.layers.{index}.self_attn."
        count = len(x)
        positions = np.arange(count)

        def heads(part: str) -> Array:
            y = x @ self.w[f"{layer}{part}_proj.weight"].T
            if shape.qkv_bias:
                y = y + self.w[f"{layer}{part}_proj.bias"]
            y = y.reshape(count, -1, shape.head_dim)
            if shape.qk_norm and part != "v":
                y = self._norm(y, f"{layer}{part}_norm.weight")
            return y

        q, k = (self._turn(heads(part), positions, index) for part in "qk")
        k, v = (np.repeat(y, shape.n_rep, axis=1) for y in (k, heads("v")))
        k, v = k.transpose(1, 2, 0), v.transpose(1, 0, 2)
        out = np.empty((count, shape.heads, shape.head_dim), np.float32)
        for at in range(0, count, _QUERIES):
            own = slice(at, min(at + _QUERIES, count))
            scores = q[own].transpose(1, 0, 2) @ k[..., :own.stop]
            scores = _cap(scores * np.float32(shape.score_factor), shape.score_cap)
            distance = positions[own, None] - positions[:own.stop]
            seen = (distance >= 0) & (distance < (shape.window(index) or count))
            scores = np.where(seen, scores, np.float32(-np.inf))
            out[own] = (_softmax(scores) @ v[:, :own.stop]).transpose(1, 0, 2)
        return out.reshape(count, -1) @ self.w[layer + "o_proj.weight"].T

    def _mlp(self, x: Array, layer: str) -> Array:
        gate, up = (x @ self.w[f"{layer}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        hidden = _ACTIVATIONS[self.shape.activation](gate) * up
        return hidden @ self.w[layer + "mlp.down_proj.weight"].T

    def logits(self, ids: Sequence[int]) -> Array:
        """Logits ``[position, token]`` after each of `ids`."""
        return self.head(self.hidden(ids))

    def head(self, hidden: Array) -> Array:
        """Logits ``[position, token]`` of some rows of :meth:`hidden`."""
        tied = self.shape.tied
        weights = self.w["model.embed_tokens.weight" if tied else "lm_head.weight"]
        return _cap(hidden @ weights.T, self.shape.logit_cap)

    def hidden(self, ids: Sequence[int]) -> Array:
        """What the output layer takes, ``[position, element]``, after each of `ids`."""
        shape, w = self.shape, self.w
        embedding = w["model.embed_tokens.weight"]
        x = embedding[np.asarray(ids)] * np.float32(shape.embedding_scale)
        for index in range(shape.layers):
            layer = f"model.layers.{index}."
            names = {kind: f"{layer}{name}.weight" for kind, (name, _) in shape.norms().items()}
            for kind in ("attention", "mlp"):
                y = self._norm(x, names[f"{kind}_norm"])
                y = self._attention(y, index) if kind == "attention" else self._mlp(y, layer)
                if shape.post_norms:
                    y = self._norm(y, names[f"{kind}_post_norm"])
                x = x + y
        return self._norm(x, "model.norm.weight")

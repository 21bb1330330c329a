"""Shape of a model: dimensions, and the features in which architectures differ."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from .rope import Rope


__all__ = ["ModelShape"]


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Dimensions, constants and features of a decoder-only transformer.

    The defaults are those of Llama: every layer adds attention and a gated MLP to its input, each
    behind an RMSNorm. Compiler, golden machine and reference look at these fields only, never at
    the name of an architecture.

    Parameters
    ----------
    dim, ffn, layers, vocab : int
        Width, width of the MLP, number of layers, number of tokens.
    heads, kv_heads, head_dim : int
        Query heads, K/V heads, elements of a head.
    context : int
        Largest number of positions.
    eps, theta : float
        Constant of RMSNorm; base of the rotary embedding.
    tied : bool
        The output layer is the embedding table.
    bos : int or None
        Token that starts a text.
    eos : tuple of int
        Tokens that end a text.
    architecture : str
        Where the fields come from, for reports only.
    activation : str
        Of the gate of the MLP: ``silu``, or ``gelu`` in its tanh form.
    qkv_bias : bool
        Queries, keys and values have a bias.
    qk_norm : bool
        RMSNorm over each head of queries and keys, before they are rotated.
    post_norms : bool
        RMSNorm over what attention and MLP add to the residual stream.
    gain_offset : float
        Added to the gains of all norms.
    embedding_scale : float
        Factor of the embedding, not of the output layer that shares its weights.
    score_scale : float
        Factor of the scores; 0 stands for ``1 / sqrt(head_dim)``.
    score_cap, logit_cap : float
        Soft cap ``c * tanh(x / c)`` of scores and of logits; 0 for none.
    ropes : tuple of Rope
        Rotary embeddings; the default one of base `theta` if empty.
    rope_of : tuple of int
        Index of each layer's rotary embedding; all 0 if empty.
    window_of : tuple of int
        Positions that each layer attends to, its own included; 0, or an empty tuple, for all.
    """

    dim: int
    ffn: int
    layers: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    eps: float
    theta: float
    tied: bool
    bos: int | None = None
    eos: tuple[int, ...] = ()
    architecture: str = "llama"
    activation: str = "silu"
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    gain_offset: float = 0.0
    embedding_scale: float = 1.0
    score_scale: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    ropes: tuple[Rope, ...] = ()
    rope_of: tuple[int, ...] = ()
    window_of: tuple[int, ...] = ()

    @property
    def n_rep(self) -> int:
        """Query heads per K/V head."""
        return self.heads // self.kv_heads

    @property
    def score_factor(self) -> float:
        """Factor of the scores."""
        return self.score_scale or self.head_dim ** -0.5

    @cached_property
    def all_ropes(self) -> tuple[Rope, ...]:
        """Rotary embeddings, at least one."""
        return self.ropes or (Rope(theta=self.theta),)

    def rope_index(self, layer: int) -> int:
        """Index into :attr:`all_ropes` of a layer."""
        return self.rope_of[layer] if self.rope_of else 0

    def window(self, layer: int) -> int:
        """Positions that a layer attends to, or 0 for all of them."""
        return self.window_of[layer] if self.window_of else 0

    def norms(self) -> dict[str, tuple[str, int]]:
        """Norms of a layer: name in a program, to name in the checkpoint and elements."""
        mlp = "pre_feedforward_layernorm" if self.post_norms else "post_attention_layernorm"
        result = {"attention_norm": ("input_layernorm", self.dim), "mlp_norm": (mlp, self.dim)}
        if self.post_norms:
            result |= {"attention_post_norm": ("post_attention_layernorm", self.dim),
                       "mlp_post_norm": ("post_feedforward_layernorm", self.dim)}
        if self.qk_norm:
            result |= {"q_norm": ("self_attn.q_norm", self.head_dim),
                       "k_norm": ("self_attn.k_norm", self.head_dim)}
        return result

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all weights, as in the checkpoint."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab, self.dim), "model.norm.weight": (self.dim,)}
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocab, self.dim)
        for index in range(self.layers):
            layer = f"model.layers.{index}."
            shapes |= {
                layer + "self_attn.q_proj.weight": (q, self.dim),
                layer + "self_attn.k_proj.weight": (kv, self.dim),
                layer + "self_attn.v_proj.weight": (kv, self.dim),
                layer + "self_attn.o_proj.weight": (self.dim, q),
                layer + "mlp.gate_proj.weight": (self.ffn, self.dim),
                layer + "mlp.up_proj.weight": (self.ffn, self.dim),
                layer + "mlp.down_proj.weight": (self.dim, self.ffn),
            }
            shapes |= {f"{layer}{name}.weight": (size,) for name, size in self.norms().values()}
            if self.qkv_bias:
                shapes |= {f"{layer}self_attn.{part}_proj.bias": (size,)
                           for part, size in (("q", q), ("k", kv), ("v", kv))}
        return shapes

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ModelShape":
        """Rebuild a shape from its fields as `dataclasses.asdict` and JSON leave them.

        Raises
        ------
        TypeError
            If a field is missing or unknown.
        """
        facts = dict(values)
        for field in fields(cls):
            if isinstance(facts.get(field.name), list | tuple):
                facts[field.name] = tuple(
                    Rope.from_json(item) if isinstance(item, dict) else item
                    for item in facts[field.name])
        return cls(**facts)

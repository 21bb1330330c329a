"""Llama architecture of the built-in model, as functions of named weights."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


__all__ = ["Shape", "forward", "init_weights"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Dimensions of the model; field names are those of a Hugging Face ``config.json``."""
    vocab_size: int = 512
    hidden_size: int = 64
    intermediate_size: int = 192
    num_hidden_layers: int = 5
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    max_position_embeddings: int = 512
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0


def init_weights(shape: Shape, *, seed: int) -> dict[str, Tensor]:
    """Draw the weights of an untrained model.

    Returns
    -------
    dict of str to Tensor
        Names and ``[out, in]`` orientation of ``transformers.LlamaForCausalLM``. There is no
        ``lm_head.weight``: the output layer is the embedding table.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, cols: int, scale: float = 1.0) -> Tensor:
        # 1 / sqrt(in) keeps activations near unit variance at any width.
        return torch.randn(rows, cols, generator=generator) * (scale * cols ** -0.5)

    dim, ffn = shape.hidden_size, shape.intermediate_size
    q_dim = shape.num_attention_heads * shape.head_dim
    kv_dim = shape.num_key_value_heads * shape.head_dim
    # Two projections of each layer add to the residual stream; it must not grow with depth.
    residual = (2 * shape.num_hidden_layers) ** -0.5

    weights = {"model.embed_tokens.weight": normal(shape.vocab_size, dim)}
    for index in range(shape.num_hidden_layers):
        layer = f"model.layers.{index}."
        weights |= {
            layer + "input_layernorm.weight": torch.ones(dim),
            layer + "self_attn.q_proj.weight": normal(q_dim, dim),
            layer + "self_attn.k_proj.weight": normal(kv_dim, dim),
            layer + "self_attn.v_proj.weight": normal(kv_dim, dim),
            layer + "self_attn.o_proj.weight": normal(dim, q_dim, residual),
            layer + "post_attention_layernorm.weight": torch.ones(dim),
            layer + "mlp.gate_proj.weight": normal(ffn, dim),
            layer + "mlp.up_proj.weight": normal(ffn, dim),
            layer + "mlp.down_proj.weight": normal(dim, ffn, residual),
        }
    return weights | {"model.norm.weight": torch.ones(dim)}


def forward(shape: Shape, weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Compute the logits of every position.

    Parameters
    ----------
    shape : Shape
        Dimensions.
    weights : dict of str to Tensor
        Weights named as :func:`init_weights` names them.
    tokens : Tensor of int64, shape ``[batch, positions]``
        Token identifiers; position 0 has rotary angle 0.

    Returns
    -------
    Tensor, shape ``[batch, positions, vocab_size]``
    """
    batch, positions = tokens.shape
    cos, sin = _rotary(shape, positions)
    table = weights["model.embed_tokens.weight"]
    x = F.embedding(tokens, table)

    def norm(x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, (shape.hidden_size,), weights[name], shape.rms_norm_eps)

    def heads(x: Tensor, name: str) -> Tensor:
        projected = F.linear(x, weights[name])
        return projected.view(batch, positions, -1, shape.head_dim).transpose(1, 2)

    for index in range(shape.num_hidden_layers):
        layer = f"model.layers.{index}."

        h = norm(x, layer + "input_layernorm.weight")
        q = _rotate(heads(h, layer + "self_attn.q_proj.weight"), cos, sin)
        k = _rotate(heads(h, layer + "self_attn.k_proj.weight"), cos, sin)
        v = heads(h, layer + "self_attn.v_proj.weight")
        # Query heads 0 and 1 read key/value head 0, heads 2 and 3 read head 1, and so on.
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        mixed = mixed.transpose(1, 2).reshape(batch, positions, -1)
        x = x + F.linear(mixed, weights[layer + "self_attn.o_proj.weight"])

        h = norm(x, layer + "post_attention_layernorm.weight")
        gate = F.silu(F.linear(h, weights[layer + "mlp.gate_proj.weight"]))
        up = F.linear(h, weights[layer + "mlp.up_proj.weight"])
        x = x + F.linear(gate * up, weights[layer + "mlp.down_proj.weight"])

    return F.linear(norm(x, "model.norm.weight"), table)


def _rotary(shape: Shape, positions: int) -> tuple[Tensor, Tensor]:
    exponents = torch.arange(0, shape.head_dim, 2) / shape.head_dim
    angles = torch.arange(positions)[:, None] * shape.rope_theta ** -exponents
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # Element i pairs with element i + head_dim / 2, the half rotation of Hugging Face, not with
    # its neighbour as in the original Llama weights.
    low, high = x.chunk(2, dim=-1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)

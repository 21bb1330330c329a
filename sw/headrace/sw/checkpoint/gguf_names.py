"""Names of tensors in GGUF files, and in Hugging Face's layout, which the compiler uses."""

from collections.abc import Iterator

from .shape import ModelShape


__all__ = ["ROPE_FACTORS", "gguf_name", "hf_name"]


#: Divisors of the frequencies of the rotary embedding.
ROPE_FACTORS = "rope_freqs.weight"

_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_INNER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
# Hugging Face has one name for two things.
_NORMS = {False: {"post_attention_layernorm": "ffn_norm"},
          True: {"pre_feedforward_layernorm": "ffn_norm",
                 "post_attention_layernorm": "post_attention_norm",
                 "post_feedforward_layernorm": "post_ffw_norm"}}


def gguf_name(name: str, *, post_norms: bool = False) -> str:
    """Name in a GGUF file of a tensor of Hugging Face's layout.

    Parameters
    ----------
    name : str
        As in :meth:`ModelShape.tensors`.
    post_norms : bool
        The model has norms of what attention and MLP add.
    """
    stem, _, kind = name.rpartition(".")
    if stem in _OUTER:
        return f"{_OUTER[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{(_INNER | _NORMS[post_norms])[part]}.{kind}"


def _parts(shape: ModelShape) -> Iterator[str]:
    """Tensors of a layer, in Hugging Face's layout: those that the features of a model ask for."""
    for part in _INNER:
        if not part.endswith("_norm"):
            yield f"{part}.weight"
    for part, _ in shape.norms().values():
        yield f"{part}.weight"
    if shape.qkv_bias:
        yield from (f"self_attn.{part}_proj.bias" for part in "qkv")


def hf_name(name: str, shape: ModelShape) -> str | None:
    """Invert :func:`gguf_name`; None if the model has no such tensor."""
    stem, _, kind = name.rpartition(".")
    for outer, found in _OUTER.items():
        if found == stem and kind == "weight":
            return f"{outer}.weight"
    if not name.startswith("blk."):
        return None
    _, layer, part = (*name.split(".", 2), "")[:3]
    if not layer.isdecimal() or int(layer) >= shape.layers:
        return None
    for inner in _parts(shape):
        wanted = gguf_name(f"model.layers.0.{inner}", post_norms=shape.post_norms)
        if wanted == f"blk.0.{part}":
            return f"model.layers.{int(layer)}.{inner}"
    return None

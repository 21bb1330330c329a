"""Gemma 2: norms before and after attention and MLP, every second layer with a window, scores and
logits with a soft cap."""

from typing import Any

import numpy as np

from ..facts import Facts
from ..rope import Rope
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, GGUFForm, gguf_windows, layer_windows


__all__ = ["GEMMA2", "gemma_features", "gemma_gguf_features"]


def gemma_features(facts: Facts) -> dict[str, Any]:
    """What Gemma 2 and 3 have in common."""
    facts.refuse(attention_bias=False)
    scale = np.float32(facts.count("hidden_size") ** 0.5)
    if str(facts.values.get("dtype", facts.values.get("torch_dtype"))) == "bfloat16":
        # The factor has the type of the weights.
        bits = int(scale.view(np.uint32))
        bits = bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000
        scale = np.uint32(bits).view(np.float32)
    return {"activation": facts.choice("hidden_activation", "gelu_pytorch_tanh", ACTIVATIONS),
            "post_norms": True, "gain_offset": 1.0,
            "embedding_scale": float(scale),
            "score_scale": facts.number("query_pre_attn_scalar", 256) ** -0.5}


def _features(facts: Facts) -> dict[str, Any]:
    layers = facts.layers("num_hidden_layers")
    if facts.values.get("layer_types") is None:
        window = facts.count("sliding_window", 4096)
        windows = tuple(0 if layer % 2 else window for layer in range(layers))
    else:
        windows = layer_windows(facts, layers)

    def cap(name: str, default: float) -> float:
        given = name not in facts.values or facts.values[name] is not None
        return facts.number(name, default) if given else 0.0

    return {**gemma_features(facts), "ropes": (read_rope(facts),), "window_of": windows,
            "score_cap": cap("attn_logit_softcapping", 50.0),
            "logit_cap": cap("final_logit_softcapping", 30.0)}


def gemma_gguf_features(facts: Facts, *, large: int) -> dict[str, Any]:
    """What GGUF files of Gemma 2 and 3 have in common: the gains of their norms include the 1, and
    the embedding is scaled in float32.

    Parameters
    ----------
    facts : Facts
        Metadata of the architecture.
    large : int
        Layers of the largest model, whose scores are scaled as if heads had dim / heads elements.
    """
    dim, heads = facts.count("embedding_length"), facts.count("attention.head_count")
    size = dim / heads if facts.count("block_count") == large else facts.count(
        "attention.key_length", max(1, dim // heads))
    return {"activation": "gelu", "post_norms": True,
            "embedding_scale": float(np.sqrt(np.float32(dim))),
            "score_scale": facts.number("attention.scale", size ** -0.5)}


def _from_gguf(facts: Facts, rope: Rope) -> dict[str, Any]:
    return {**gemma_gguf_features(facts, large=46), "ropes": (rope,),
            "window_of": gguf_windows(facts, 2, 4096),
            "score_cap": facts.number("attn_logit_softcapping", 50.0),
            "logit_cap": facts.number("final_logit_softcapping", 30.0)}


GEMMA2 = Architecture(name="Gemma2ForCausalLM", short="gemma2", features=_features,
                      defaults={"head_dim": 256, "tie_word_embeddings": True},
                      gguf=GGUFForm(name="gemma2", features=_from_gguf))

"""Gemma 2: norms before and after attention and MLP, every second layer with a window, scores and
logits with a soft cap."""

from typing import Any

import numpy as np

from ..facts import Facts
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, layer_windows


__all__ = ["GEMMA2", "gemma_features"]


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
    layers = facts.count("num_hidden_layers")
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


GEMMA2 = Architecture(name="Gemma2ForCausalLM", short="gemma2", features=_features,
                      defaults={"head_dim": 256, "tie_word_embeddings": True})

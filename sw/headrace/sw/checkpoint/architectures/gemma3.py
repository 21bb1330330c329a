"""Gemma 3, text only: Gemma 2 with norms of queries and keys and two rotary embeddings."""

from collections.abc import Mapping
from typing import Any

from ..facts import Facts
from ..rope import Rope
from ..rope_facts import read_rope
from .gemma2 import gemma_features, gemma_gguf_features
from .kind import Architecture, GGUFForm, gguf_windows, layer_windows


__all__ = ["GEMMA3"]


def _windows(facts: Facts) -> tuple[int, ...]:
    layers = facts.layers("num_hidden_layers")
    if facts.values.get("layer_types") is not None:
        return layer_windows(facts, layers)
    every = facts.count("sliding_window_pattern", 6)
    window = facts.count("sliding_window", 4096)
    return tuple(window if (layer + 1) % every else 0 for layer in range(layers))


def _features(facts: Facts) -> dict[str, Any]:
    facts.refuse(use_bidirectional_attention=False, attn_logit_softcapping=None,
                 final_logit_softcapping=None)
    parameters = facts.values.get("rope_parameters")
    if isinstance(parameters, Mapping) and "full_attention" in parameters:
        ropes = tuple(read_rope(facts, parameters.get(kind))
                      for kind in ("full_attention", "sliding_attention"))
    else:
        ropes = (read_rope(facts, facts.values.get("rope_scaling") or {}),
                 Rope(theta=facts.number("rope_local_base_freq", 10000.0)))
    windows = _windows(facts)
    return {**gemma_features(facts), "qk_norm": True, "ropes": ropes, "window_of": windows,
            "rope_of": tuple(int(window > 0) for window in windows)}


def _from_gguf(facts: Facts, rope: Rope) -> dict[str, Any]:
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if facts.get(name):
            raise facts.error(name, "none")
    windows = gguf_windows(facts, 6)
    local = Rope(theta=facts.number("rope.freq_base_swa", 10000.0))
    return {**gemma_gguf_features(facts, large=62), "qk_norm": True, "ropes": (rope, local),
            "window_of": windows, "rope_of": tuple(int(window > 0) for window in windows)}


GEMMA3 = Architecture(name="Gemma3ForCausalLM", short="gemma3", features=_features,
                      defaults={"head_dim": 256, "tie_word_embeddings": True,
                                "rope_theta": 1000000.0, "max_position_embeddings": 131072},
                      gguf=GGUFForm(name="gemma3", features=_from_gguf,
                                    defaults={"rope.freq_base": 1000000.0}))

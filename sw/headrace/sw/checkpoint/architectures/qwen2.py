"""Qwen2 and Qwen2.5: queries, keys and values have a bias."""

from typing import Any

from ..facts import Facts
from ..rope import Rope
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, GGUFForm, gguf_windows, layer_windows


__all__ = ["QWEN2", "qwen_windows"]


def qwen_windows(facts: Facts) -> tuple[int, ...]:
    """Window of each layer: those from `max_window_layers` on, if `use_sliding_window`."""
    if not facts.values.get("use_sliding_window"):
        return ()
    layers = facts.layers("num_hidden_layers")
    if facts.values.get("layer_types") is not None:
        return layer_windows(facts, layers)
    first = facts.values.get("max_window_layers", 28)
    if not isinstance(first, int) or first < 0:
        raise facts.error("max_window_layers", "a whole number")
    window = facts.count("sliding_window", 4096)
    return tuple(window if layer >= first else 0 for layer in range(layers))


def _features(facts: Facts) -> dict[str, Any]:
    return {"activation": facts.choice("hidden_act", "silu", ACTIVATIONS), "qkv_bias": True,
            "ropes": (read_rope(facts),), "window_of": qwen_windows(facts)}


def _from_gguf(facts: Facts, rope: Rope) -> dict[str, Any]:
    return {"qkv_bias": True, "ropes": (rope,), "window_of": gguf_windows(facts)}


QWEN2 = Architecture(name="Qwen2ForCausalLM", short="qwen2", features=_features,
                     defaults={"max_position_embeddings": 32768},
                     gguf=GGUFForm(name="qwen2", features=_from_gguf))

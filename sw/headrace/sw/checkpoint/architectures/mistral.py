"""Mistral: Llama with a sliding window in every layer (0.1), or without one (0.2 and later)."""

from typing import Any

from ..facts import Facts
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, layer_windows


__all__ = ["MISTRAL"]


def _features(facts: Facts) -> dict[str, Any]:
    return {"activation": facts.choice("hidden_act", "silu", ACTIVATIONS),
            "ropes": (read_rope(facts),),
            "window_of": layer_windows(facts, facts.layers("num_hidden_layers"))}


MISTRAL = Architecture(name="MistralForCausalLM", short="mistral", features=_features,
                       defaults={"num_key_value_heads": 8})

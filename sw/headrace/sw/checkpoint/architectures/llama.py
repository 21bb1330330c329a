"""Llama 2 and 3, SmolLM and SmolLM2, TinyLlama and others of the same class."""

from typing import Any

from ..facts import Facts
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture


__all__ = ["LLAMA"]


def _features(facts: Facts) -> dict[str, Any]:
    facts.refuse(attention_bias=False, mlp_bias=False)
    return {"activation": facts.choice("hidden_act", "silu", ACTIVATIONS),
            "ropes": (read_rope(facts),)}


LLAMA = Architecture(name="LlamaForCausalLM", short="llama", features=_features, defaults={})

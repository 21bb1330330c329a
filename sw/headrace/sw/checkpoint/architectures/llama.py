"""Llama 2 and 3, SmolLM and SmolLM2, TinyLlama and others of the same class; in GGUF files Mistral,
too, whose window is in the metadata."""

from typing import Any

from ..facts import Facts
from ..rope import Rope
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, GGUFForm, gguf_windows


__all__ = ["LLAMA"]


def _features(facts: Facts) -> dict[str, Any]:
    facts.refuse(attention_bias=False, mlp_bias=False)
    return {"activation": facts.choice("hidden_act", "silu", ACTIVATIONS),
            "ropes": (read_rope(facts),)}


def _from_gguf(facts: Facts, rope: Rope) -> dict[str, Any]:
    return {"ropes": (rope,), "window_of": gguf_windows(facts)}


LLAMA = Architecture(name="LlamaForCausalLM", short="llama", features=_features, defaults={},
                     gguf=GGUFForm(name="llama", features=_from_gguf, permuted=True))

"""Qwen3: a norm over each head of queries and keys."""

from typing import Any

from ..facts import Facts
from ..rope import Rope
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, GGUFForm, gguf_windows
from .qwen2 import qwen_windows


__all__ = ["QWEN3"]


def _features(facts: Facts) -> dict[str, Any]:
    facts.refuse(attention_bias=False)
    return {"activation": facts.choice("hidden_act", "silu", ACTIVATIONS), "qk_norm": True,
            "ropes": (read_rope(facts),), "window_of": qwen_windows(facts)}


def _from_gguf(facts: Facts, rope: Rope) -> dict[str, Any]:
    return {"qk_norm": True, "ropes": (rope,), "window_of": gguf_windows(facts)}


QWEN3 = Architecture(name="Qwen3ForCausalLM", short="qwen3", features=_features,
                     defaults={"head_dim": 128, "max_position_embeddings": 32768},
                     gguf=GGUFForm(name="qwen3", features=_from_gguf))

"""SmolLM3: Llama without rotary embedding in some layers."""

from typing import Any

from ..facts import Facts
from ..rope import Rope
from ..rope_facts import read_rope
from .kind import ACTIVATIONS, Architecture, GGUFForm, gguf_windows, layer_windows


__all__ = ["SMOLLM3"]


def _features(facts: Facts) -> dict[str, Any]:
    facts.refuse(attention_bias=False, mlp_bias=False)
    layers = facts.layers("num_hidden_layers")
    rotated = facts.values.get("no_rope_layers")
    if rotated is None:
        every = facts.count("no_rope_layer_interval", 4)
        rotated = [int((layer + 1) % every != 0) for layer in range(layers)]
    # In spite of its name the list has a 1 where a layer is rotated.
    if not isinstance(rotated, list) or len(rotated) != layers or not all(
            flag in (0, 1) and isinstance(flag, int) for flag in rotated):
        raise facts.error("no_rope_layers", f"a list of {layers} numbers, 0 or 1")
    sliding = bool(facts.values.get("use_sliding_window"))
    return {"activation": facts.choice("hidden_act", "silu", ACTIVATIONS),
            "ropes": (read_rope(facts), Rope(kind="none")),
            "rope_of": tuple(1 - flag for flag in rotated),
            "window_of": layer_windows(facts, layers) if sliding else ()}


def _from_gguf(facts: Facts, rope: Rope) -> dict[str, Any]:
    # The files do not say which layers are rotated: all but every fourth.
    layers = facts.layers("block_count")
    return {"ropes": (rope, Rope(kind="none")), "window_of": gguf_windows(facts),
            "rope_of": tuple(int((layer + 1) % 4 == 0) for layer in range(layers))}


SMOLLM3 = Architecture(name="SmolLM3ForCausalLM", short="smollm3", features=_features,
                       defaults={"num_key_value_heads": 4, "tie_word_embeddings": True,
                                 "rope_theta": 2000000.0},
                       gguf=GGUFForm(name="smollm3", features=_from_gguf, permuted=True))

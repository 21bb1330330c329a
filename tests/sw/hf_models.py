"""Tiny random models of every architecture, as transformers saves them."""

from pathlib import Path

import numpy as np
import pytest


__all__ = ["MODELS", "SIZES", "save_model"]


SIZES = {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 6,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 37,
         "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

#: Configuration class of transformers, and what is special.
MODELS = {
    "llama": ("LlamaConfig", {}),
    "llama, untied, head_dim apart": ("LlamaConfig", {"head_dim": 20}),
    "llama 3 rope": ("LlamaConfig", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}),
    "linear rope": ("LlamaConfig", {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}}),
    "yarn rope": ("LlamaConfig", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
        "original_max_position_embeddings": 32}}),
    "mistral, window": ("MistralConfig", {"sliding_window": 20}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2, windows": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 20,
                                       "max_window_layers": 3}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "smollm3": ("SmolLM3Config", {}),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "sliding_window": 20,
                                "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 16, "sliding_window": 20,
                                    "query_pre_attn_scalar": 24}),
}


def save_model(kind: str, folder: Path, **more) -> tuple[list[int], np.ndarray]:
    """Save a random model of one of :data:`MODELS` to a folder.

    Returns
    -------
    ids : list of int
        60 token ids.
    logits : float32 array, shape (60, vocabulary)
        What transformers computes from them.
    """
    torch = pytest.importorskip("torch", reason="needs the extra `independent`")
    transformers = pytest.importorskip("transformers", reason="needs the extra `independent`")
    name, changes = MODELS[kind]
    config = getattr(transformers, name)(**{**SIZES, **changes, **more})
    config._attn_implementation = "eager"
    torch.manual_seed(1)
    network = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, weights in network.named_parameters():
            spread = 0.3 if weights.dim() == 1 else weights.shape[1] ** -0.5
            weights.copy_(torch.randn_like(weights) * (1.0 if "embed" in name else spread))
            if "norm" in name and "gemma" not in kind:
                weights += 1
        ids = torch.randint(0, config.vocab_size, (1, 60))
        logits = network(ids).logits[0].numpy()
    network.save_pretrained(folder)
    return ids[0].tolist(), logits

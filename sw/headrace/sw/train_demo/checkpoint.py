"""Checkpoint folders in the layout of Hugging Face."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save


__all__ = ["llama_config", "write_folder"]


_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    # Rejoining of punctuation would change the text.
    "clean_up_tokenization_spaces": False,
}


def llama_config(shape: Mapping[str, int | float], *, bos: int, eos: int) -> dict[str, object]:
    """Complete dimensions to the content of a ``config.json``.

    Parameters
    ----------
    shape : mapping
        Dimensions, named as in ``config.json``.
    bos, eos : int
        Identifiers of the tokens that start and end a text.

    Returns
    -------
    dict
        Content for ``transformers.LlamaForCausalLM`` with float32 weights.
    """
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **shape,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "pad_token_id": None,
        "initializer_range": 0.02,
        "pretraining_tp": 1,
        "use_cache": True,
        "torch_dtype": "float32",
    }


def write_folder(folder: Path, *, config: Mapping[str, object], weights: dict[str, np.ndarray],
                 tokenizer: str, card: str) -> None:
    """Write a checkpoint folder, or replace the files of an existing one.

    Each file is written under a temporary name and then renamed, so a reader never meets half
    a file. The weights come last: once they are there, so is all that describes them.

    Parameters
    ----------
    folder : Path
        Made if absent.
    config : mapping
        Content of ``config.json``.
    weights : dict of str to ndarray
        Content of ``model.safetensors``.
    tokenizer : str
        Content of ``tokenizer.json``.
    card : str
        Content of ``README.md``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "config.json": (json.dumps(config, indent=2) + "\n").encode(),
        "tokenizer.json": (tokenizer + "\n").encode(),
        "tokenizer_config.json": (json.dumps(_TOKENIZER_CONFIG, indent=2) + "\n").encode(),
        "README.md": card.encode(),
        # transformers refuses a file that does not name its framework.
        "model.safetensors": save(weights, metadata={"format": "pt"}),
    }.items():
        draft = folder / f".{name}.tmp"
        draft.write_bytes(content)
        os.replace(draft, folder / name)

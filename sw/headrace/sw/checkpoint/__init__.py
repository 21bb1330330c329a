"""Checkpoints: their shape, weights and tokenizer, from folders and files of several kinds."""

from .folder import FolderCheckpoint
from .gguf import GGUFCheckpoint
from .hf_config import read_shape
from .llama2c import Llama2cCheckpoint
from .model import Checkpoint, Weights
from .resolve import BUILT_IN, find_model, load_checkpoint
from .rope import Rope
from .shape import ModelShape
from .synthetic import SyntheticCheckpoint
from .tokenizer import TextStream, Tokenizer, load_tokenizer, restore_tokenizer


__all__ = ["BUILT_IN", "Checkpoint", "FolderCheckpoint", "GGUFCheckpoint", "Llama2cCheckpoint",
           "ModelShape", "Rope", "SyntheticCheckpoint", "TextStream", "Tokenizer", "Weights",
           "find_model", "load_checkpoint", "load_tokenizer", "read_shape", "restore_tokenizer"]

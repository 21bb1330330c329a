"""Checkpoints: their shape, weights and tokenizer, from folders and files of several kinds."""

from .folder import FolderCheckpoint
from .gguf import GGUFCheckpoint
from .llama2c import Llama2cCheckpoint
from .model import Checkpoint, Weights
from .resolve import BUILT_IN, find_model, load_checkpoint
from .shape import ModelShape, read_shape
from .synthetic import SyntheticCheckpoint
from .tokenizer import TextStream, Tokenizer, load_tokenizer, restore_tokenizer


__all__ = ["BUILT_IN", "Checkpoint", "FolderCheckpoint", "GGUFCheckpoint", "Llama2cCheckpoint",
           "ModelShape", "SyntheticCheckpoint", "TextStream", "Tokenizer", "Weights",
           "find_model", "load_checkpoint", "load_tokenizer", "read_shape", "restore_tokenizer"]

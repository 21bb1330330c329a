"""Checkpoints: folders in the layout of Hugging Face, their shape, weights and tokenizer."""

from .folder import Checkpoint, Weights, find_model, load_checkpoint
from .hf_config import read_shape
from .rope import Rope
from .shape import ModelShape
from .synthetic import SyntheticCheckpoint
from .tokenizer import TextStream, Tokenizer, load_tokenizer


__all__ = ["Checkpoint", "ModelShape", "Rope", "SyntheticCheckpoint", "TextStream", "Tokenizer",
           "Weights", "find_model", "load_checkpoint", "load_tokenizer", "read_shape"]

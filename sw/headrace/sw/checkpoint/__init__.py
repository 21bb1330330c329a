"""Checkpoints: folders in the layout of Hugging Face, their shape, weights and tokenizer."""

from .folder import Checkpoint, Weights, find_model, load_checkpoint
from .shape import ModelShape, read_shape
from .synthetic import SyntheticCheckpoint
from .tokenizer import TextStream, Tokenizer, load_tokenizer


__all__ = ["Checkpoint", "ModelShape", "SyntheticCheckpoint", "TextStream", "Tokenizer", "Weights",
           "find_model", "load_checkpoint", "load_tokenizer", "read_shape"]

"""Checkpoints: folders in the layout of Hugging Face, their shape, weights and tokenizer."""

from .folder import Checkpoint, find_model, load_checkpoint
from .shape import ModelShape, read_shape
from .tokenizer import TextStream, Tokenizer, load_tokenizer


__all__ = ["Checkpoint", "ModelShape", "TextStream", "Tokenizer", "find_model", "load_checkpoint",
           "load_tokenizer", "read_shape"]

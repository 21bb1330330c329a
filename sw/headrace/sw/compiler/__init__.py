"""Compiler: checkpoint and configuration to an image that every machine runs."""

from .compilation import compile_model
from .image import Image, load_image
from .sizes import Sizes
from .traffic import Traffic, instruction_traffic


__all__ = ["Image", "Sizes", "Traffic", "compile_model", "instruction_traffic", "load_image"]

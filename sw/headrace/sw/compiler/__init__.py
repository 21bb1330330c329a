"""Compiler: checkpoint and configuration to an image that every machine runs."""

from .compilation import Plan, compile_model, plan_model
from .image import Image
from .image_file import is_image, load_image
from .sizes import Sizes
from .traffic import Traffic, instruction_traffic


__all__ = ["Image", "Plan", "Sizes", "Traffic", "compile_model", "instruction_traffic",
           "is_image", "load_image", "plan_model"]

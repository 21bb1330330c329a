"""The softmax pipeline: scores of a block of the cache -> quantised probabilities."""

from .softmax import Softmax


__all__ = ["Softmax"]

"""Models with random weights, of any shape: for tests and benchmarks."""

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .model import Checkpoint
from .shape import ModelShape


__all__ = ["SyntheticCheckpoint"]


class SyntheticCheckpoint(Checkpoint):
    """A model without a file.

    Each tensor depends on its name, its shape and the seed only, and is drawn when it is read.
    Matrices have a standard deviation of ``1 / sqrt(k)``, so that activations keep their size.

    Parameters
    ----------
    shape : ModelShape
        Shape of the model.
    seed : int
        Seed of the weights.
    name : str
        Name of the model.
    """

    kind = "random weights"

    def __init__(self, shape: ModelShape, *, seed: int = 0, name: str = "synthetic"):
        super().__init__(Path(name), shape, name=name)
        self._seed = seed
        self._shapes = shape.tensors()

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Draw one tensor."""
        shape = self._shapes[name]
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        values = rng.standard_normal(shape, np.float32)
        if len(shape) == 1:
            return np.float32(1) + np.float32(0.1) * values
        scale = 1.0 if name == "model.embed_tokens.weight" else shape[1] ** -0.5
        return values * np.float32(scale)

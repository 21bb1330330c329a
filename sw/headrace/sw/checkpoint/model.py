"""What compiler and reference need of a model, and what all kinds of checkpoints share."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import HeadraceError
from ..quantiser import Native, Quantised
from .shape import ModelShape
from .tokenizer import Tokenizer


__all__ = ["Checkpoint", "Weights", "check_finite", "check_tensors"]


class Weights(Protocol):
    """What compiler and reference need of a model. Tensors have the names and the order of rows
    of Hugging Face, see :meth:`ModelShape.tensors`."""

    name: str
    shape: ModelShape
    tokenizer: Tokenizer | None

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Read one tensor as float32."""
        ...

    def native(self, name: str) -> Native | None:
        """How the file's own integers can be taken over, in groups of 32; None if they cannot."""
        ...

    def blocks(self, name: str) -> Quantised:
        """Read the integers and scales of a matrix for which :meth:`native` is not None."""
        ...


def check_finite(path: Path, name: str, values: NDArray) -> None:
    """Refuse NaN and infinity.

    Raises
    ------
    HeadraceError
        With the first one and its index.
    """
    # Both are NaN if any value is, and nothing of the tensor's size is made.
    if values.size and np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    finite = np.isfinite(values)
    if not finite.all():
        index = [int(i) for i in np.unravel_index(int(np.argmin(finite)), values.shape)]
        raise HeadraceError(f"{path}: tensor {name!r} holds {values[tuple(index)]} at index "
                            f"{index}: expected finite weights; the checkpoint is damaged")


def check_tensors(path: Path, shape: ModelShape, found: dict[str, tuple[int, ...]],
                  source: str = "config.json") -> None:
    """Check that every tensor of a model is there, and has the right shape.

    Parameters
    ----------
    path : Path
        File or folder, for messages.
    shape : ModelShape
        What is expected.
    found : dict of str to tuple
        Shapes of the tensors that there are, by their names in Hugging Face's layout.
    source : str
        Where the expected sizes come from.

    Raises
    ------
    HeadraceError
        With the first tensor that is wrong.
    """
    # Before a list of all names is made, which would be as long as a damaged header wants.
    if shape.layers > len(found):
        missing = next(index for index in range(shape.layers)
                       if f"model.layers.{index}.input_layernorm.weight" not in found)
        raise HeadraceError(f"{path}: missing tensor 'model.layers.{missing}.input_layernorm."
                            f"weight': expected {shape.layers:,} layers from {source}")
    for name, expected in shape.tensors().items():
        if name not in found:
            raise HeadraceError(f"{path}: missing tensor {name!r}: expected shape "
                                f"{list(expected)}")
        if found[name] == expected:
            continue
        if name in ("model.embed_tokens.weight", "lm_head.weight") \
                and found[name][1:] == expected[1:]:
            raise HeadraceError(f"{path}: tensor {name!r} has {found[name][0]} rows, but the "
                                f"vocabulary has {expected[0]} tokens (vocab_size in {source} "
                                f"is {expected[0]}): expected the same number")
        raise HeadraceError(f"{path}: tensor {name!r} has shape {list(found[name])}: expected "
                            f"{list(expected)} from {source}")


class Checkpoint:
    """An opened checkpoint.

    Parameters
    ----------
    path : Path
        Its file or folder.
    shape : ModelShape
        Shape of the model.
    tokenizer : Tokenizer or None
        Its tokenizer; without one, prompts are token ids.
    no_tokenizer : str
        Why there is none.
    name : str, optional
        Name of the model; that of the file by default.

    Attributes
    ----------
    kind : str
        What it is, for people.
    """

    kind = "checkpoint"

    def __init__(self, path: Path, shape: ModelShape, tokenizer: Tokenizer | None = None, *,
                 no_tokenizer: str = "there is none", name: str | None = None):
        self.path, self.shape, self.tokenizer = path, shape, tokenizer
        self.no_tokenizer = no_tokenizer
        self.name = name or path.resolve().name

    def need_tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises
        ------
        HeadraceError
            If there is none, with the reason.
        """
        if self.tokenizer is None:
            raise HeadraceError(f"{self.path}: no tokenizer, so a text cannot be read: "
                                f"{self.no_tokenizer}; give token ids instead")
        return self.tokenizer

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Read one tensor as float32.

        Raises
        ------
        HeadraceError
            If it holds NaN or infinity, or is of an unsupported type.
        """
        raise NotImplementedError

    def native(self, name: str) -> Native | None:
        """How the file's own integers can be taken over, in groups of 32; None if they cannot."""
        return None

    def blocks(self, name: str) -> Quantised:
        """Read the integers and scales of a matrix for which :meth:`native` is not None."""
        raise NotImplementedError(name)

    def stored(self) -> dict[str, tuple[str, int]]:
        """Type and bytes of every tensor in the file, by name."""
        raise NotImplementedError

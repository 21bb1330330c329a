"""Checkpoint folders in the layout of Hugging Face."""

from importlib import resources
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import HeadraceError
from .facts import read_json
from .hf_config import read_shape
from .safetensors import SafetensorsFile
from .shape import ModelShape
from .tokenizer import Tokenizer, load_tokenizer


__all__ = ["BUILT_IN", "Checkpoint", "Weights", "find_model", "load_checkpoint"]


#: Models that come with the package, by name.
BUILT_IN = ("demo",)

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


def find_model(model: str | Path) -> Path:
    """Folder of a model, given by its path or by the name of a built-in one.

    Raises
    ------
    HeadraceError
        If there is no such folder.
    """
    if str(model) in BUILT_IN:
        return Path(str(resources.files("headrace.sw") / "models" / str(model)))
    folder = Path(model)
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise HeadraceError(f"model {str(model)!r} {kind}: expected a Hugging Face checkpoint "
                            f"folder, or a built-in model ({', '.join(BUILT_IN)})")
    return folder


class Weights(Protocol):
    """What compiler and reference need of a model."""

    name: str
    shape: ModelShape

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Read one tensor as float32."""
        ...


class Checkpoint:
    """An opened checkpoint.

    Parameters
    ----------
    folder : Path
        Its folder.
    shape : ModelShape
        Shape of the model.
    files : dict of str to SafetensorsFile
        File of each tensor.
    tokenizer : Tokenizer or None
        Its tokenizer; without one, prompts are token ids.
    """

    def __init__(self, folder: Path, shape: ModelShape, files: dict[str, SafetensorsFile],
                 tokenizer: Tokenizer | None):
        self.folder = folder
        self.name = folder.resolve().name
        self.shape = shape
        self.tokenizer = tokenizer
        self._files = files
        for name, expected in shape.tensors().items():
            self._check(name, expected)
        for name in files:
            if name.startswith("model.layers.") and name.endswith(".bias") and (
                    name not in shape.tensors()):
                raise HeadraceError(f"{files[name].path}: tensor {name!r}: a bias that "
                                    f"architecture {shape.architecture} does not have; the "
                                    f"result would be another one than the model's")

    def _check(self, name: str, expected: tuple[int, ...]) -> None:
        if name not in self._files:
            raise HeadraceError(f"{self.folder}: missing tensor {name!r}: expected shape "
                                f"{list(expected)}")
        file = self._files[name]
        found = file.entries[name].shape
        if found == expected:
            return
        if name in ("model.embed_tokens.weight", "lm_head.weight") and found[1:] == expected[1:]:
            raise HeadraceError(f"{file.path}: tensor {name!r} has {found[0]} rows, but "
                                f"vocab_size in config.json is {expected[0]}: expected the same "
                                f"number")
        raise HeadraceError(f"{file.path}: tensor {name!r} has shape {list(found)}: expected "
                            f"{list(expected)} from config.json")

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Read one tensor as float32.

        Raises
        ------
        HeadraceError
            If it holds NaN or infinity, or is of an unsupported type.
        """
        values = self._files[name].read(name)
        finite = np.isfinite(values)
        if not finite.all():
            index = [int(i) for i in np.unravel_index(int(np.argmin(finite)), values.shape)]
            raise HeadraceError(f"{self._files[name].path}: tensor {name!r} holds "
                                f"{values[tuple(index)]} at index {index}: expected finite "
                                f"weights; the checkpoint is damaged")
        return values


def _open_files(folder: Path) -> dict[str, SafetensorsFile]:
    """Find the file of every tensor."""
    if (folder / _INDEX).is_file():
        weight_map = read_json(folder / _INDEX).get("weight_map")
        if not isinstance(weight_map, dict):
            raise HeadraceError(f"{folder / _INDEX}: expected an object `weight_map`")
        names = sorted({str(name) for name in weight_map.values()})
        for name in names:
            if Path(name).name != name:
                raise HeadraceError(f"{folder / _INDEX}: file {name!r}: expected names of files "
                                    f"in the same folder")
            if not (folder / name).is_file():
                raise HeadraceError(f"{folder / name}: missing, but {_INDEX} names it: download "
                                    f"the checkpoint again")
    elif (folder / _SINGLE).is_file():
        names = [_SINGLE]
    else:
        names = sorted(path.name for path in folder.glob("*.safetensors"))
    if not names:
        others = sorted(path.name for path in folder.glob("*.bin"))
        hint = f"; {others[0]} is not supported, convert it" if others else ""
        raise HeadraceError(f"{folder}: no weights: expected {_SINGLE}, or {_INDEX} with its "
                            f"files{hint}")
    files = [SafetensorsFile(folder / name) for name in names]
    return {tensor: file for file in files for tensor in file.entries}


def load_checkpoint(model: str | Path) -> Checkpoint:
    """Open a checkpoint by the path of its folder or by the name of a built-in model.

    Everything but the weights is read and checked; weights are read one by one when asked for.

    Raises
    ------
    HeadraceError
        If something is missing, damaged, not supported, or does not fit together.
    """
    folder = find_model(model)
    shape = read_shape(folder)
    files = _open_files(folder)
    if not shape.tied and "lm_head.weight" not in files and "model.embed_tokens.weight" in files:
        raise HeadraceError(f"{folder}: missing tensor 'lm_head.weight': expected shape "
                            f"{[shape.vocab, shape.dim]}, as tie_word_embeddings is false")
    tokenizer = load_tokenizer(folder, vocab=shape.vocab, bos=shape.bos)
    return Checkpoint(folder, shape, files, tokenizer)

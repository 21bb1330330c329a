"""Checkpoint folders in the layout of Hugging Face."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import HeadraceError
from .facts import read_json
from .hf_config import read_shape
from .model import Checkpoint, check_finite, check_tensors
from .safetensors import SafetensorsFile
from .shape import ModelShape
from .tokenizer import Tokenizer, load_tokenizer


__all__ = ["FolderCheckpoint", "load_folder"]


_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


class FolderCheckpoint(Checkpoint):
    """A folder in the layout of Hugging Face.

    Parameters
    ----------
    folder : Path
        The folder.
    shape : ModelShape
        Shape of the model.
    files : dict of str to SafetensorsFile
        File of each tensor.
    tokenizer : Tokenizer or None
        Its tokenizer.
    """

    kind = "Hugging Face folder"

    def __init__(self, folder: Path, shape: ModelShape, files: dict[str, SafetensorsFile],
                 tokenizer: Tokenizer | None):
        super().__init__(folder, shape, tokenizer,
                         no_tokenizer="there is no tokenizer.json or tokenizer.model")
        self._files = files
        check_tensors(folder, shape, {name: file.entries[name].shape
                                      for name, file in files.items()})
        for name in files:
            if name.startswith("model.layers.") and name.endswith(".bias") and (
                    name not in shape.tensors()):
                raise HeadraceError(f"{files[name].path}: tensor {name!r}: a bias that "
                                    f"architecture {shape.architecture} does not have; the "
                                    f"result would be another one than the model's")

    def tensor(self, name: str) -> NDArray[np.float32]:
        values = self._files[name].read(name)
        check_finite(self._files[name].path, name, values)
        return values

    def stored(self) -> dict[str, tuple[str, int]]:
        return {name: (entry.dtype, entry.end - entry.begin)
                for name in self.shape.tensors()
                for entry in [self._files[name].entries[name]]}


def _open_files(folder: Path) -> dict[str, SafetensorsFile]:
    """Find the file of every tensor."""
    if (folder / _INDEX).is_file():
        weight_map = read_json(folder / _INDEX).get("weight_map")
        if not isinstance(weight_map, dict):
            raise HeadraceError(f"{folder / _INDEX}: expected an object `weight_map`")
        names = sorted({str(name) for name in weight_map.values()})
        for name in names:
            # File systems take 255 bytes, and no surrogates, which are not printable.
            if (Path(name).name != name or not name.isprintable()
                    or len(name.encode("utf-8", "replace")) > 255):
                raise HeadraceError(f"{folder / _INDEX}: file {name[:80]!r}: expected names of "
                                    f"files in the same folder")
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


def load_folder(folder: Path) -> FolderCheckpoint:
    """Open a checkpoint folder.

    Everything but the weights is read and checked; weights are read one by one when asked for.

    Raises
    ------
    HeadraceError
        If something is missing, damaged, not supported, or does not fit together.
    """
    shape = read_shape(folder)
    files = _open_files(folder)
    if not shape.tied and "lm_head.weight" not in files and "model.embed_tokens.weight" in files:
        raise HeadraceError(f"{folder}: missing tensor 'lm_head.weight': expected shape "
                            f"{[shape.vocab, shape.dim]}, as tie_word_embeddings is false")
    tokenizer = load_tokenizer(folder, vocab=shape.vocab, bos=shape.bos)
    return FolderCheckpoint(folder, shape, files, tokenizer)

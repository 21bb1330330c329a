"""GGUF files: shape, weights, tokenizer and chat template from one file."""

from pathlib import Path

import numpy as np
from gguf.constants import GGMLQuantizationType as Type
from numpy.typing import NDArray

from ..errors import HeadraceError
from ..quantiser import Native, Quantised
from .gguf_blocks import NATIVE, SUPPORTED, native_blocks, to_float
from .gguf_header import GGUFEntry, GGUFHeader, read_header
from .gguf_names import ROPE_FACTORS, gguf_name, hf_name
from .gguf_shape import gguf_form, read_gguf_shape
from .gguf_tokenizer import read_tokenizer
from .model import Checkpoint, check_finite, check_tensors
from .shape import ModelShape
from .tokenizer import Tokenizer


__all__ = ["GGUFCheckpoint", "load_gguf"]


def _turned(shape: ModelShape, name: str) -> NDArray[np.int64] | None:
    """Rows of q and k in the order of Hugging Face; None for other tensors.

    GGUF files of some architectures have the rows of a head as pairs ``(2 i, 2 i + 1)`` that the
    rotary embedding turns; Hugging Face's have ``(i, i + n / 2)``, as have all other files.
    """
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return None
    size = shape.head_dim
    heads = shape.heads if name.endswith("q_proj.weight") else shape.kv_heads
    head = np.arange(size).reshape(-1, 2).T.ravel()
    return (np.arange(heads)[:, None] * size + head).ravel()


class GGUFCheckpoint(Checkpoint):
    """An opened GGUF file. Weights are memory-mapped and read one tensor at a time.

    Parameters
    ----------
    path : Path
        The file.
    shape : ModelShape
        Shape of the model.
    entries : dict of str to GGUFEntry
        Tensors by their names in the file.
    tokenizer, no_tokenizer
        See :class:`Checkpoint`.
    permuted : bool
        Rows of q and k are in the order of rotary pairs.
    """

    kind = "GGUF file"

    def __init__(self, path: Path, shape: ModelShape, entries: dict[str, GGUFEntry],
                 tokenizer: Tokenizer | None, no_tokenizer: str, *, permuted: bool = False):
        super().__init__(path, shape, tokenizer, no_tokenizer=no_tokenizer,
                         name=path.name.removesuffix(".gguf"))
        self._entries, self._permuted = entries, permuted
        self._map = np.memmap(path, np.uint8, "r")

    def _name(self, name: str) -> str:
        return gguf_name(name, post_norms=self.shape.post_norms)

    def _raw(self, name: str) -> tuple[GGUFEntry, NDArray[np.uint8]]:
        entry = self._entries[self._name(name)]
        return entry, self._map[entry.begin:entry.end]

    def _order(self, name: str) -> NDArray[np.int64] | None:
        return _turned(self.shape, name) if self._permuted else None

    def tensor(self, name: str) -> NDArray[np.float32]:
        entry, raw = self._raw(name)
        values = to_float(raw, entry.dtype, entry.shape)
        check_finite(self.path, self._name(name), values)
        order = self._order(name)
        return values if order is None else values[order]

    def native(self, name: str) -> Native | None:
        kind = NATIVE.get(self._entries[self._name(name)].dtype)
        return None if kind is None else Native(kind.fmt, kind.exact)

    def blocks(self, name: str) -> Quantised:
        entry, raw = self._raw(name)
        n, k = entry.shape
        found = native_blocks(raw, entry.dtype, (n, k))
        for values in (found.scales, found.minima):
            if values is not None:
                check_finite(self.path, f"{self._name(name)} (scales)", values)
        order = self._order(name)
        if order is None:
            return found
        minima = None if found.minima is None else found.minima[:, order]
        return Quantised(found.q[:, order], found.scales[:, order], minima)

    def stored(self) -> dict[str, tuple[str, int]]:
        return {name: (entry.dtype.name, entry.end - entry.begin)
                for name, entry in self._entries.items()}


def _checked(path: Path, shape: ModelShape, entries: dict[str, GGUFEntry]) -> None:
    """Check that the tensors are those of the model, and of types that can be read."""
    found = {}
    for name, entry in entries.items():
        if name == ROPE_FACTORS:
            continue
        hf = hf_name(name, shape)
        if hf is None:
            reason = ("long and short rotary embeddings are not supported"
                      if name.startswith("rope_factors") else
                      f"a bias that architecture {shape.architecture} does not have"
                      if name.endswith(".bias") else
                      f"a {shape.architecture} model of {shape.layers} layers has no such tensor")
            raise HeadraceError(f"{path}: tensor {name!r}: {reason}")
        if entry.dtype not in SUPPORTED:
            raise HeadraceError(f"{path}: tensor {name!r} has type {entry.dtype.name}: supported "
                                f"are {', '.join(each.name for each in SUPPORTED)}; take another "
                                f"quantisation of the model")
        found[hf] = entry.shape
    check_tensors(path, shape, found, "the metadata")


def _rope_factors(path: Path, header: GGUFHeader) -> tuple[float, ...]:
    """Content of the tensor of factors; empty if there is none."""
    entry = header.entries.get(ROPE_FACTORS)
    if entry is None:
        return ()
    if entry.dtype != Type.F32 or len(entry.shape) != 1 or entry.shape[0] > 1 << 16:
        raise HeadraceError(f"{path}: tensor {ROPE_FACTORS!r} has type {entry.dtype.name} and "
                            f"shape {list(entry.shape)}: expected F32, one for each pair of a head")
    raw = np.memmap(path, np.uint8, "r")[entry.begin:entry.end]
    values = to_float(raw, entry.dtype, entry.shape)
    check_finite(path, ROPE_FACTORS, values)
    if values.min() <= 0:
        raise HeadraceError(f"{path}: tensor {ROPE_FACTORS!r} holds {values.min()}: expected "
                            f"factors above 0; the file is damaged")
    return tuple(values.tolist())


def load_gguf(path: Path) -> GGUFCheckpoint:
    """Open a GGUF file: everything but the weights is read and checked.

    Raises
    ------
    HeadraceError
        If something is missing, damaged, not supported, or does not fit together.
    """
    header = read_header(path)
    form = gguf_form(path, header.fields)
    shape = read_gguf_shape(path, header.fields, header.entries, _rope_factors(path, header))
    _checked(path, shape, header.entries)
    tokenizer, reason = read_tokenizer(path, header.fields, shape.vocab)
    return GGUFCheckpoint(path, shape, header.entries, tokenizer, reason, permuted=form.permuted)

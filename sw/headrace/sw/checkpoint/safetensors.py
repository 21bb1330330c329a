"""Safetensors files, memory-mapped: one tensor at a time is read and converted to float32."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import HeadraceError


__all__ = ["SafetensorsFile", "TensorEntry"]


_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}

# Values that are converted at a time.
_RUN = 1 << 20


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies: type, shape, and bytes ``begin ... end`` of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _entry(path: Path, name: str, facts: object, data: int, size: int) -> TensorEntry:
    """Check what the header says of one tensor."""
    try:
        dtype, shape = str(facts["dtype"]), tuple(int(n) for n in facts["shape"])  # type: ignore
        begin, end = (int(n) for n in facts["data_offsets"])  # type: ignore
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise HeadraceError(f"{path}: the header describes tensor {name!r} wrongly: expected "
                            f"dtype, shape and data_offsets; download the file again") from error
    if begin < 0 or end < begin or min(shape, default=0) < 0:
        raise HeadraceError(f"{path}: tensor {name!r} has shape {list(shape)} at bytes "
                            f"{begin} to {end}: the header is damaged; download the file again")
    if data + end > size:
        raise HeadraceError(f"{path}: truncated: tensor {name!r} ends at byte {data + end}, but "
                            f"the file has {size} bytes; download the file again")
    if dtype in _ITEM_BYTES:
        expected = _ITEM_BYTES[dtype] * math.prod(shape)
        if end - begin != expected:
            raise HeadraceError(f"{path}: tensor {name!r} of type {dtype} and shape {list(shape)} "
                                f"needs {expected} bytes, but the header gives it {end - begin}; "
                                f"download the file again")
    return TensorEntry(dtype, shape, data + begin, data + end)


class SafetensorsFile:
    """One safetensors file.

    Parameters
    ----------
    path : Path
        The file. Its header is read and checked against its length at once, its tensors later.

    Attributes
    ----------
    entries : dict of str to TensorEntry
        Tensors by name.

    Raises
    ------
    HeadraceError
        If the file is missing, truncated, or no safetensors file.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                head = file.read(8)
                length = int.from_bytes(head, "little")
                if len(head) < 8 or 8 + length > size:
                    raise HeadraceError(f"{path}: truncated: a header of {length} bytes does not "
                                        f"fit into a file of {size} bytes; download the file "
                                        f"again")
                text = file.read(length)
        except OSError as error:
            raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected a "
                                f"safetensors file") from error
        try:
            header = json.loads(text)
            if not isinstance(header, dict):
                raise ValueError("the header is no object")
        except (ValueError, RecursionError) as error:
            raise HeadraceError(f"{path}: not a safetensors file: {error}") from error
        header.pop("__metadata__", None)
        self.entries = {name: _entry(path, name, facts, 8 + length, size)
                        for name, facts in header.items()}
        self._map = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)

    def read(self, name: str) -> NDArray[np.float32]:
        """Read a tensor as float32. F16 and BF16 convert exactly.

        Raises
        ------
        HeadraceError
            If the tensor is of another type.
        """
        entry = self.entries[name]
        if entry.dtype not in _ITEM_BYTES:
            raise HeadraceError(f"{self.path}: tensor {name!r} has type {entry.dtype}: supported "
                                f"are {', '.join(_ITEM_BYTES)}; convert the checkpoint")
        raw = self._map[entry.begin:entry.end]
        item = _ITEM_BYTES[entry.dtype]
        values = np.empty(len(raw) // item, np.float32)
        # In runs: what is not needed for long stays small.
        for at in range(0, len(values), _RUN):
            # A copy: tensors may begin at any byte.
            run = np.array(raw[item * at:item * (at + _RUN)])
            if entry.dtype == "BF16":
                bits = run.view("<u2").astype(np.uint32) << np.uint32(16)
                values[at:at + _RUN] = bits.view(np.float32)
            else:
                values[at:at + _RUN] = run.view("<f4" if entry.dtype == "F32" else "<f2")
        return values.reshape(entry.shape)

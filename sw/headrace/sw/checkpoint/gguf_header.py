"""Headers of GGUF files, read with every count checked against the length of the file.

The reader of the `gguf` library makes arrays by counts that it does not check, and a NumPy view per
string of the vocabulary. Its tables of types are used here; the walk is our own.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from ..errors import HeadraceError


__all__ = ["GGUFEntry", "GGUFHeader", "read_header"]


VERSIONS = (2, 3)

#: Lengths of names and keys, by the specification of the format.
_NAME_BYTES = 65535

_SCALARS = {
    GGUFValueType.UINT8: "B", GGUFValueType.INT8: "b", GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h", GGUFValueType.UINT32: "I", GGUFValueType.INT32: "i",
    GGUFValueType.UINT64: "Q", GGUFValueType.INT64: "q", GGUFValueType.FLOAT32: "f",
    GGUFValueType.FLOAT64: "d", GGUFValueType.BOOL: "?",
}


@dataclass(frozen=True)
class GGUFEntry:
    """Where a tensor lies: type, shape with the longest stride first, bytes ``begin ... end``."""

    dtype: GGMLQuantizationType
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class GGUFHeader:
    """What a header says.

    Attributes
    ----------
    version : int
        Version of the format.
    fields : dict
        Metadata: numbers, strings, and lists of them.
    entries : dict of str to GGUFEntry
        Tensors by name.
    """

    version: int
    fields: dict[str, Any]
    entries: dict[str, GGUFEntry]


class _Cursor:
    """A walk through the bytes of a header; nothing is read behind the end of the file."""

    def __init__(self, path: Path, data: mmap.mmap):
        self.path, self.data, self.size, self.at = path, data, len(data), 0

    def error(self, text: str) -> HeadraceError:
        return HeadraceError(f"{self.path}: {text}; download the file again")

    def need(self, count: int, unit: int, what: str) -> None:
        """Check that `count` items of at least `unit` bytes can follow."""
        if count * unit > self.size - self.at:
            raise self.error(f"truncated or damaged: {what} needs at least {count * unit:,} bytes "
                             f"from byte {self.at:,} on, but the file has {self.size:,}")

    def take(self, code: str, what: str) -> Any:
        self.need(1, struct.calcsize("<" + code), what)
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self, what: str, limit: int | None = None) -> str:
        length = self.take("Q", what)
        if limit is not None and length > limit:
            raise self.error(f"damaged: {what} has {length:,} bytes: expected at most {limit:,}")
        self.need(length, 1, what)
        raw = self.data[self.at:self.at + length]
        self.at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"damaged: {what} is no UTF-8 ({raw[:40]!r})") from error

    def kind(self, what: str) -> GGUFValueType:
        code = self.take("I", what)
        try:
            return GGUFValueType(code)
        except ValueError as error:
            raise self.error(f"damaged: {what} has type {code}: expected 0 to "
                             f"{max(GGUFValueType)}") from error

    def value(self, kind: GGUFValueType, what: str) -> Any:
        if kind == GGUFValueType.STRING:
            return self.text(what)
        if kind != GGUFValueType.ARRAY:
            return self.take(_SCALARS[kind], what)
        item, count = self.kind(what), self.take("Q", what)
        if item == GGUFValueType.ARRAY:
            raise HeadraceError(f"{self.path}: {what} is an array of arrays: not supported")
        if item == GGUFValueType.STRING:
            self.need(count, 8, what)
            return [self.text(f"{what}[{index}]") for index in range(count)]
        code = _SCALARS[item]
        self.need(count, struct.calcsize(code), what)
        values = list(struct.unpack_from(f"<{count}{code}", self.data, self.at))
        self.at += count * struct.calcsize(code)
        return values


def _fields(cursor: _Cursor, count: int) -> dict[str, Any]:
    # A key's length, its type and the shortest value.
    cursor.need(count, 8 + 4 + 1, f"metadata of {count:,} keys")
    fields: dict[str, Any] = {}
    for index in range(count):
        key = cursor.text(f"key {index}", _NAME_BYTES)
        if key in fields:
            raise cursor.error(f"damaged: key {key!r} occurs twice")
        fields[key] = cursor.value(cursor.kind(f"key {key!r}"), f"key {key!r}")
    return fields


def _entry(cursor: _Cursor, name: str) -> GGUFEntry:
    """Read the description of a tensor; `begin` counts from the data for now."""
    what = f"tensor {name!r}"
    dims = cursor.take("I", what)
    if not 1 <= dims <= 4:
        raise cursor.error(f"damaged: {what} has {dims} dimensions: expected 1 to 4")
    shape = tuple(cursor.take("Q", what) for _ in range(dims))[::-1]
    code, begin = cursor.take("I", what), cursor.take("Q", what)
    try:
        dtype = GGMLQuantizationType(code)
    except ValueError as error:
        raise HeadraceError(f"{cursor.path}: {what} has the unknown type {code}: expected a type "
                            f"of GGUF version 3; the file is damaged or newer than the `gguf` "
                            f"library that is installed") from error
    block, block_bytes = GGML_QUANT_SIZES[dtype]
    if min(shape) < 1 or shape[-1] % block:
        raise cursor.error(f"damaged: {what} of type {dtype.name} has shape {list(shape)}: "
                           f"expected rows of a multiple of {block} values")
    elements = 1
    for size in shape:
        elements *= size
    return GGUFEntry(dtype, shape, begin, begin + elements // block * block_bytes)


def _entries(cursor: _Cursor, count: int) -> dict[str, GGUFEntry]:
    # Length of the name, dimensions, one size, type, offset.
    cursor.need(count, 8 + 4 + 8 + 4 + 8, f"a list of {count:,} tensors")
    entries: dict[str, GGUFEntry] = {}
    for index in range(count):
        name = cursor.text(f"the name of tensor {index}", _NAME_BYTES)
        if name in entries:
            raise cursor.error(f"damaged: tensor {name!r} occurs twice")
        entries[name] = _entry(cursor, name)
    return entries


def _placed(cursor: _Cursor, entries: dict[str, GGUFEntry], fields: dict[str, Any]
            ) -> dict[str, GGUFEntry]:
    """Count from the beginning of the file, and check the offsets."""
    unit = fields.get("general.alignment", 32)
    if not isinstance(unit, int) or unit < 1 or unit & unit - 1:
        raise cursor.error(f"damaged: general.alignment is {unit!r}: expected a power of two")
    data = -(-cursor.at // unit) * unit
    placed = {}
    for name, entry in entries.items():
        if entry.begin % unit:
            raise cursor.error(f"damaged: tensor {name!r} begins at offset {entry.begin:,}: "
                               f"expected a multiple of {unit} (general.alignment)")
        if data + entry.end > cursor.size:
            raise cursor.error(f"truncated or damaged: tensor {name!r} ends at byte "
                               f"{data + entry.end:,}, but the file has {cursor.size:,} bytes")
        placed[name] = GGUFEntry(entry.dtype, entry.shape, data + entry.begin, data + entry.end)
    return placed


def read_header(path: Path) -> GGUFHeader:
    """Read and check the header of a GGUF file.

    Raises
    ------
    HeadraceError
        If the file is missing, truncated, damaged, or of another version.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if magic != b"GGUF":
                raise HeadraceError(f"{path}: not a GGUF file: it begins with {magic!r}, expected "
                                    f"b'GGUF'")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _walk(_Cursor(path, data))
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected a GGUF "
                            f"file") from error


def _walk(cursor: _Cursor) -> GGUFHeader:
    cursor.at = 4
    version = cursor.take("I", "the version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        kind = "a big-endian file" if swapped else f"version {version}"
        raise HeadraceError(f"{cursor.path}: GGUF, {kind}: supported are little-endian files of "
                            f"version 2 and 3; convert the model again")
    tensors, keys = cursor.take("Q", "the header"), cursor.take("Q", "the header")
    fields = _fields(cursor, keys)
    entries = _entries(cursor, tensors)
    return GGUFHeader(version, fields, _placed(cursor, entries, fields))

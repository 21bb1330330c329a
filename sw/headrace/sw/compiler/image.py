"""Image: what the compiler makes and every machine runs, in memory and as a file."""

import json
import os
import zlib
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN, Config, ConfigError
from headrace.hw.isa import INSTRUCTION_BYTES, Format, Op, decode
from headrace.hw.regmap import VERSION

from ..checkpoint import ModelShape
from ..errors import HeadraceError
from ..layout import CacheLayout
from .sizes import Sizes
from .traffic import Traffic, pass_traffic


__all__ = ["Image", "Need", "Region", "load_image"]


_MAGIC = b"HEADRACE IMAGE\n"

#: Version of the file format.
_FILE_VERSION = 1


@dataclass(frozen=True)
class Region:
    """A part of the memory map: bytes ``begin ... begin + size`` after the base."""

    begin: int
    size: int

    @property
    def end(self) -> int:
        """First byte behind the region."""
        return self.begin + self.size

    @property
    def unit(self) -> int:
        """Beginning in 64-byte units, as in instructions."""
        return self.begin // ALIGN


@dataclass(frozen=True)
class Need:
    """What a matrix takes at least: `macs` of a position, and `bytes` of a pass, unpadded.

    `layer` is None for the output layer; `bytes` is 0 if no instruction reads the matrix.
    """

    name: str
    layer: int | None
    macs: int
    bytes: int

    @property
    def part(self) -> str:
        """Name of the matrix in the image."""
        return self.name if self.layer is None else f"layers.{self.layer}.{self.name}"


@dataclass(kw_only=True)
class Image:
    """A compiled model.

    Parameters
    ----------
    model : str
        Name of the model.
    shape : ModelShape
        Its shape.
    config : Config
        Configuration that the image is compiled for.
    group : int
        Quantisation group.
    context : int
        Positions that the cache has room for.
    chunk : int
        Most positions of a pass.
    max_passes : int
        Most passes of a run: records that there is room for.
    instructions : int
        Instructions of the program.
    kv_pinned : int
        64-byte units of the cache that the KV buffer holds.
    regions : dict of str to Region
        Memory map: ``program``, ``tables``, ``weights``, ``cache``, ``tokens``, ``logits`` and
        ``records``, in this order.
    parts : dict of str to Region
        Every table and matrix by name.
    content : uint8 array
        Memory from the base to the end of the weights; the rest is not part of the file.
    """

    model: str
    shape: ModelShape
    config: Config
    group: int
    context: int
    chunk: int
    max_passes: int
    instructions: int
    kv_pinned: int
    regions: dict[str, Region]
    parts: dict[str, Region] = field(default_factory=dict)
    content: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8), repr=False)

    @property
    def fingerprint(self) -> int:
        """Fingerprint of the configuration that the image is compiled for."""
        return self.config.fingerprint

    @property
    def total_bytes(self) -> int:
        """Bytes of memory in all."""
        return max(region.end for region in self.regions.values())

    @property
    def prefill_chunk(self) -> int:
        """Positions of a prefill pass by default: whole row sets, as a set takes its time whether
        it is full or not."""
        rows = self.config.rows
        return self.chunk if self.chunk < rows else self.chunk // rows * rows

    @property
    def sizes(self) -> Sizes:
        """Padded sizes of the model."""
        return Sizes(self.shape, self.config, self.group)

    @property
    def cache(self) -> CacheLayout:
        """Layout of the cache."""
        return CacheLayout.of(self.config, layers=self.shape.layers,
                              kv_heads=self.shape.kv_heads, head_dim=self.sizes.head_dim)

    @cached_property
    def program(self) -> list[dict[str, int]]:
        """The decoded instructions."""
        begin = self.regions["program"].begin
        return [decode(self.content[at:at + INSTRUCTION_BYTES].tobytes())
                for at in range(begin, begin + self.instructions * INSTRUCTION_BYTES,
                                INSTRUCTION_BYTES)]

    def expected_traffic(self, position: int, positions: int, head: bool, logits: bool = False
                         ) -> Traffic:
        """Bytes that a pass moves, exactly.

        Parameters
        ----------
        position, positions : int
            First position, and number of positions.
        head, logits : bool
            The pass computes logits; it writes them to memory.
        """
        return pass_traffic(self.config, self.program, position=position, positions=positions,
                            head=head, logits=logits, kv_base=self.regions["cache"].unit,
                            kv_pinned=self.kv_pinned)

    def least_bytes(self, position: int, positions: int, head: bool) -> int:
        """Bytes that a pass must read whatever the machine: unpadded weights and scales, and the
        cached tokens before `position` that the KV buffer does not hold, each once."""
        shape = self.shape
        pinned = self.kv_pinned / self.cache.pitch_units * 32
        tokens = max(0.0, position - pinned)
        return self._least_weights(head) + round(
            tokens * shape.layers * shape.kv_heads * 2 * (shape.head_dim + 2))

    def _least_weights(self, head: bool) -> int:
        """Bytes of the unpadded weights and scales that the program reads."""
        return sum(need.bytes for need in self.matrix_needs() if head or need.layer is not None)

    @property
    def stream_waste(self) -> dict[str, float]:
        """Parts of the weight stream of a pass that are padding.

        ``columns``: columns between `cols` and the next power of two, a property of the
        configuration; ``all``: these, and what fills the last tiles, groups and headers.
        """
        stored = sum(self.parts[need.part].size for need in self.matrix_needs() if need.bytes)
        return {"columns": self.config.stream_waste,
                "all": 1 - self._least_weights(head=True) / stored}

    def useful_macs(self, position: int, positions: int, head: bool) -> int:
        """Multiplications that the model needs: no padding, no masked products."""
        shape = self.shape
        total = sum(need.macs * (int(head) if need.layer is None else positions)
                    for need in self.matrix_needs())
        attended = positions * position + positions * (positions + 1) // 2
        return total + 2 * attended * shape.layers * shape.heads * shape.head_dim

    def matrix_needs(self) -> list[Need]:
        """What each matrix needs, in the order of their use; the output layer is the last."""
        shape = self.shape
        q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        sizes = {"kv": (shape.dim, 2 * kv), "q": (shape.dim, q), "o": (q, shape.dim),
                 "gate_up": (shape.dim, 2 * shape.ffn), "down": (shape.ffn, shape.dim)}
        formats = {code["addr"]: Format(code["fmt"]) for code in self.program
                   if code["op"] == Op.MATMUL}
        result = []
        for layer in [*range(shape.layers), None]:
            for name, (k, n) in (sizes if layer is not None else
                                 {"head": (shape.dim, shape.vocab)}).items():
                part = name if layer is None else f"layers.{layer}.{name}"
                fmt = formats.get(self.parts[part].unit)
                values = k if fmt == Format.W8 else -(-k // 2)
                size = n * (values + (4 if fmt == Format.W4A else 2) * -(-k // self.group))
                result.append(Need(name, layer, k * n, 0 if fmt is None else size))
        return result

    def save(self, path: str | Path) -> None:
        """Write the image to a file, under a temporary name first.

        Raises
        ------
        HeadraceError
            If the file cannot be written.
        """
        path = Path(path)
        header = json.dumps({
            "file_version": _FILE_VERSION, "isa_version": VERSION,
            "fingerprint": self.fingerprint, "model": self.model, "shape": asdict(self.shape),
            "config": asdict(self.config), "group": self.group, "context": self.context,
            "chunk": self.chunk, "max_passes": self.max_passes,
            "instructions": self.instructions, "kv_pinned": self.kv_pinned,
            "regions": {name: [r.begin, r.size] for name, r in self.regions.items()},
            "parts": {name: [r.begin, r.size] for name, r in self.parts.items()},
            "bytes": self.content.size, "crc32": zlib.crc32(self.content.data),
        }).encode()
        partial = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            with partial.open("wb") as file:
                file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
                file.write(self.content.data)
            os.replace(partial, path)
        except OSError as error:
            raise HeadraceError(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            partial.unlink(missing_ok=True)


def _parse(path: Path, header: dict[str, Any], content: NDArray[np.uint8]) -> Image:
    shape = dict(header["shape"])
    shape["eos"] = tuple(shape["eos"])
    regions = {name: Region(*pair) for name, pair in header["regions"].items()}
    parts = {name: Region(*pair) for name, pair in header["parts"].items()}
    image = Image(model=header["model"], shape=ModelShape(**shape),
                  config=Config(**header["config"]), regions=regions, parts=parts,
                  content=content,
                  **{name: header[name] for name in ("group", "context", "chunk", "max_passes",
                                                     "instructions", "kv_pinned")})
    if image.fingerprint != header["fingerprint"]:
        raise HeadraceError(f"{path}: the image was made for fingerprint "
                            f"{header['fingerprint']:08x}, but its configuration now gives "
                            f"{image.fingerprint:08x}: compile it again with this version")
    return image


def load_image(path: str | Path) -> Image:
    """Read an image from a file.

    Raises
    ------
    HeadraceError
        If the file is missing, truncated, damaged, or of another version.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected an image that "
                            f"headrace wrote") from error
    if not raw.startswith(_MAGIC):
        raise HeadraceError(f"{path}: not an image of headrace; compile the model again")
    begin = len(_MAGIC) + 8
    length = int.from_bytes(raw[len(_MAGIC):begin], "little")
    damaged = f"{path}: the image is damaged: {{}}; compile the model again"
    try:
        header = json.loads(raw[begin:begin + length])
        if header["file_version"] != _FILE_VERSION:
            raise HeadraceError(f"{path}: file version {header['file_version']}: expected "
                                f"{_FILE_VERSION}; compile the model again with this version")
        if header["isa_version"] != VERSION:
            raise HeadraceError(f"{path}: instruction set version {header['isa_version']:#x}: "
                                f"expected {VERSION:#x}; compile the model again")
        content = np.frombuffer(raw, np.uint8, offset=begin + length)
        if content.size != header["bytes"]:
            raise HeadraceError(damaged.format(f"truncated, {content.size} of {header['bytes']} "
                                               f"bytes of memory"))
        if zlib.crc32(content.data) != header["crc32"]:
            raise HeadraceError(damaged.format("the checksum of its memory is wrong"))
        return _parse(path, header, content)
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise HeadraceError(damaged.format(f"its header is wrong ({error!r})")) from error

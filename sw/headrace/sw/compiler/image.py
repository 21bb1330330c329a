"""Image: what the compiler makes and every machine runs."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN, Config
from headrace.hw.isa import INSTRUCTION_BYTES, Format, Op, decode

from ..checkpoint import ModelShape, Tokenizer
from ..layout import CacheLayout
from .sizes import Sizes
from .traffic import Traffic, attended_tokens, pass_traffic


__all__ = ["Image", "Need", "Region"]


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
    def bytes(self) -> slice:
        """Where it lies in the content of an image."""
        return slice(self.begin, self.end)

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
    group, act_bits : int
        Quantisation group; bits of the activations that meet weights.
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
    tokenizer : Tokenizer or None
        Tokenizer of the model.
    origins : dict of str to str
        Where the integers of each matrix come from, see
        :func:`headrace.sw.compiler.weights.origin`.
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
    tokenizer: Tokenizer | None = None
    origins: dict[str, str] = field(default_factory=dict)
    act_bits: int = 8

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
        return Sizes(self.shape, self.config, self.group, self.act_bits)

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
        tokens = 0.0
        for layer in range(shape.layers):
            first = max(0, position + 1 - shape.window(layer)) if shape.window(layer) else 0
            tokens += max(0.0, position - max(pinned, first))
        return self._least_weights(head) + round(
            tokens * shape.kv_heads * 2 * (shape.head_dim + 2))

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
        attended = sum(attended_tokens(position, positions, shape.window(layer))
                       for layer in range(shape.layers))
        return total + 2 * attended * shape.heads * shape.head_dim

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
        """Write the image to a file, see :func:`headrace.sw.compiler.image_file.save_image`."""
        from .image_file import save_image
        save_image(self, path)

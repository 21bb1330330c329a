"""Checkpoint and configuration to image."""

from collections.abc import Callable

import numpy as np

from headrace.hw.config import ALIGN, Config
from headrace.hw.isa import INSTRUCTION_BYTES
from headrace.hw.regmap import RECORD_BYTES

from ..checkpoint import Weights
from ..errors import HeadraceError
from ..layout import CacheLayout, align
from ..quantiser import Policy
from ..weight_layout import pack_weights
from .image import Image, Region
from .program import Matrix, Placement, build_program, matrices, program_length
from .sizes import Sizes
from .weights import matrix, table


__all__ = ["compile_model"]


#: Passes of one run: each leaves a record in memory.
MAX_PASSES = 128


def _tables(sizes: Sizes, context: int) -> dict[str, int]:
    """Bytes of every table."""
    result = {}
    for layer in range(sizes.shape.layers):
        result[f"layers.{layer}.attention_norm"] = 4 * sizes.dim
        result[f"layers.{layer}.mlp_norm"] = 4 * sizes.dim
    result["final_norm"] = 4 * sizes.dim
    result["rope"] = 4 * sizes.head_dim * context
    result["embedding"] = align(4 * sizes.dim) * sizes.shape.vocab
    return result


class _Map:
    """Memory map under construction: parts follow each other, each on 64 bytes."""

    def __init__(self):
        self.end = 0
        self.regions: dict[str, Region] = {}
        self.parts: dict[str, Region] = {}

    def region(self, name: str, parts: dict[str, int] | int) -> None:
        begin = self.end
        if isinstance(parts, int):
            self.end = align(begin + parts)
        else:
            for part, size in parts.items():
                self.parts[part] = Region(self.end, size)
                self.end = align(self.end + size)
        self.regions[name] = Region(begin, self.end - begin)


def _place(sizes: Sizes, specs: dict[str, Matrix], cache: CacheLayout, context: int,
           program_bytes: int) -> _Map:
    places = _Map()
    places.region("program", program_bytes)
    places.region("tables", _tables(sizes, context))
    places.region("weights", {name: spec.words * sizes.config.stride
                              for name, spec in specs.items()})
    places.region("cache", cache.size(context))
    # LOGITS writes the token that follows the last position, too.
    places.region("tokens", 4 * (context + 1))
    places.region("logits", 4 * sizes.shape.vocab)
    places.region("records", RECORD_BYTES * MAX_PASSES)
    return places


def compile_model(checkpoint: Weights, config: Config, *, policy: Policy | None = None,
                  context: int | None = None, repeat: int = 1,
                  progress: Callable[[str], None] | None = None) -> Image:
    """Compile a checkpoint for a configuration.

    Parameters
    ----------
    checkpoint : Weights
        The model. Its weights are read one tensor at a time.
    config : Config
        The machine.
    policy : Policy, optional
        Formats of the weights; W8 in groups of 32 by default.
    context : int, optional
        Positions that the cache has room for; as many as the model knows by default.
    repeat : int
        Times that a pass goes through the layers, for measurements: it reads the same weights
        and the same cache again.
    progress : callable, optional
        Called with the name of each matrix and table.

    Raises
    ------
    HeadraceError
        If the model does not fit the configuration, or its weights are damaged.
    """
    policy = policy or Policy()
    shape = checkpoint.shape
    if context is not None and not 1 <= context <= shape.context:
        raise HeadraceError(f"context {context}: expected 1 to {shape.context}, the positions "
                            f"that the model knows")
    context = context or shape.context
    sizes = Sizes(shape, config, policy.group)
    sizes.check()
    specs = matrices(sizes, policy.format)
    cache = CacheLayout.of(config, layers=shape.layers, kv_heads=shape.kv_heads,
                           head_dim=sizes.head_dim)
    places = _place(sizes, specs, cache, context,
                    program_length(sizes, repeat) * INSTRUCTION_BYTES)
    if places.end > config.memory_bytes:
        rest = places.end - places.regions["cache"].size
        raise HeadraceError(
            f"model {checkpoint.name!r} is larger than the memory of configuration "
            f"{config.name!r}: {places.end:,} bytes are needed ({rest:,} and a cache of "
            f"{places.regions['cache'].size:,} for {context} positions), but there are "
            f"{config.memory_bytes:,} (memory_bytes): take a larger configuration, or a shorter "
            f"context")

    chunk = sizes.chunk
    place = Placement(sizes, chunk, specs, places.regions, places.parts, cache)
    program = build_program(place, repeat)
    block = cache.block_units
    total_units = places.regions["cache"].size // ALIGN
    image = Image(model=checkpoint.name, shape=shape, config=config, group=policy.group,
                  context=context, chunk=chunk, max_passes=MAX_PASSES,
                  instructions=len(program) // INSTRUCTION_BYTES,
                  kv_pinned=min(total_units, config.kv_bytes // ALIGN // block * block),
                  regions=places.regions, parts=places.parts,
                  content=np.zeros(places.regions["weights"].end, np.uint8))
    image.content[:len(program)] = np.frombuffer(program, np.uint8)
    for name in _tables(sizes, context):
        if progress:
            progress(name)
        begin, size = places.parts[name].begin, places.parts[name].size
        values = table(checkpoint, sizes, name, context)
        rows = image.content[begin:begin + size].reshape(-1, size // max(1, len(values))
                                                         if values.ndim > 1 else size)
        raw = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(len(rows), -1)
        rows[:, :raw.shape[1]] = raw
    for name, spec in specs.items():
        if progress:
            progress(name)
        quantised = matrix(checkpoint, sizes, spec)
        packed = pack_weights(spec.fmt, quantised.q, quantised.scales, quantised.minima,
                              cols=config.cols, stride=config.stride, narrow=spec.narrow)
        begin, size = places.parts[name].begin, places.parts[name].size
        image.content[begin:begin + size] = packed
    return image

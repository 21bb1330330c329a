"""Checkpoint and configuration to image."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.hw.config import ALIGN, Config
from headrace.hw.isa import INSTRUCTION_BYTES
from headrace.hw.regmap import RECORD_BYTES

from ..checkpoint import Weights
from ..errors import HeadraceError
from ..layout import CacheLayout, align
from ..quantiser import Policy
from ..weight_layout import column_bytes
from .image import Image, Region
from .program import Matrix, Placement, build_program, matrices, program_length
from .sizes import Sizes
from .weights import matrix_format, origin, pack_matrix, write_table


__all__ = ["Plan", "compile_model", "plan_model"]


#: Passes of one run: each leaves a record in memory.
MAX_PASSES = 128


def _tables(sizes: Sizes, context: int) -> dict[str, int]:
    """Bytes of every table."""
    result = {}
    for layer in range(sizes.shape.layers):
        for name in sizes.shape.norms():
            result[f"layers.{layer}.{name}"] = 4 * sizes.norm_elems(name)
        if sizes.shape.qkv_bias:
            result[f"layers.{layer}.kv_bias"] = 4 * sizes.kv_dim
            result[f"layers.{layer}.q_bias"] = 4 * sizes.q_dim
    result["final_norm"] = 4 * sizes.dim
    for index in range(len(sizes.shape.all_ropes)):
        result[f"rope.{index}"] = 4 * sizes.head_dim * context
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


@dataclass(frozen=True)
class Plan:
    """What is known of an image before a weight is read.

    Attributes
    ----------
    sizes : Sizes
        Padded sizes.
    specs : dict of str to Matrix
        Matrices.
    cache : CacheLayout
        Layout of the cache.
    repeat : int
        Times that a pass goes through the layers.
    """

    sizes: Sizes
    specs: dict[str, Matrix]
    cache: CacheLayout
    repeat: int

    def place(self, context: int) -> _Map:
        """Memory map for a number of positions."""
        sizes, places = self.sizes, _Map()
        places.region("program", program_length(sizes, self.repeat) * INSTRUCTION_BYTES)
        places.region("tables", _tables(sizes, context))
        places.region("weights", {name: spec.words * sizes.config.stride
                                  for name, spec in self.specs.items()})
        places.region("cache", self.cache.size(context))
        # LOGITS writes the token that follows the last position, too.
        places.region("tokens", 4 * (context + 1))
        places.region("logits", 4 * sizes.shape.vocab)
        places.region("records", RECORD_BYTES * MAX_PASSES)
        return places

    @property
    def weights(self) -> int:
        """Values of all matrices, without the padding of tiles."""
        return sum(spec.k * spec.columns * self._parts(name) for name, spec in self.specs.items())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all matrices with their scales, without the padding of tiles: what one decode
        pass must read of them."""
        return sum(spec.columns * self._parts(name) * spec.k_groups
                   * column_bytes(spec.fmt, spec.group) for name, spec in self.specs.items())

    @property
    def token_cache_bytes(self) -> int:
        """Bytes of the cache that belong to one token."""
        shape = self.sizes.shape
        return shape.layers * shape.kv_heads * 2 * (self.sizes.head_dim + 2)

    @staticmethod
    def _parts(name: str) -> int:
        return 2 if name.endswith(".gate_up") else 1

    def largest_context(self) -> int:
        """Most positions, up to those that the model knows, that fit into the memory; 0 if none
        does."""
        low, high = 0, self.sizes.shape.context
        while low < high:
            middle = (low + high + 1) // 2
            if self.place(middle).end <= self.sizes.config.memory_bytes:
                low = middle
            else:
                high = middle - 1
        return low


def plan_model(checkpoint: Weights, config: Config, *, policy: Policy | None = None,
               repeat: int = 1) -> Plan:
    """Plan the image of a checkpoint for a configuration, without reading a weight.

    Raises
    ------
    HeadraceError
        If the configuration cannot run the model, whatever its memory.
    """
    policy, shape = policy or Policy(), checkpoint.shape
    sizes = Sizes(shape, config, policy.group, policy.act_bits)
    sizes.check()
    specs = matrices(sizes, lambda name: matrix_format(checkpoint, sizes, policy, name))
    kinds = {name.rpartition(".")[2] for name in specs}
    for key, _ in policy.tensors:
        if key not in specs and key not in kinds:
            raise HeadraceError(f"quantisation: the model has no matrix {key!r}: expected a kind "
                                f"({', '.join(sorted(kinds))}), or a matrix as "
                                f"layers.{shape.layers - 1}.down")
    cache = CacheLayout.of(config, layers=shape.layers, kv_heads=shape.kv_heads,
                           head_dim=sizes.head_dim)
    return Plan(sizes, specs, cache, repeat)


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
        Formats of the weights; by default the file's own integers are taken over, and the rest is
        W8, in groups of 32.
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
    policy, shape = policy or Policy(), checkpoint.shape
    if context is not None and not 1 <= context <= shape.context:
        raise HeadraceError(f"context {context}: expected 1 to {shape.context}, the positions "
                            f"that the model knows")
    context = context or shape.context
    plan = plan_model(checkpoint, config, policy=policy, repeat=repeat)
    sizes, specs, cache, places = plan.sizes, plan.specs, plan.cache, plan.place(context)
    if places.end > config.memory_bytes:
        rest = places.end - places.regions["cache"].size
        most = plan.largest_context()
        hint = f", or a context of up to {most:,}" if most else ""
        raise HeadraceError(
            f"model {checkpoint.name!r} is larger than the memory of configuration "
            f"{config.name!r}: {places.end:,} bytes are needed ({rest:,} and a cache of "
            f"{places.regions['cache'].size:,} for {context} positions), but there are "
            f"{config.memory_bytes:,} (memory_bytes): take a larger configuration{hint}")

    chunk = sizes.chunk
    place = Placement(sizes, chunk, specs, places.regions, places.parts, cache)
    program = build_program(place, repeat)
    block = cache.block_units
    total_units = places.regions["cache"].size // ALIGN
    image = Image(model=checkpoint.name, shape=shape, config=config, group=policy.group,
                  act_bits=policy.act_bits,
                  context=context, chunk=chunk, max_passes=MAX_PASSES,
                  instructions=len(program) // INSTRUCTION_BYTES,
                  kv_pinned=min(total_units, config.kv_bytes // ALIGN // block * block),
                  regions=places.regions, parts=places.parts,
                  content=np.zeros(places.regions["weights"].end, np.uint8),
                  tokenizer=checkpoint.tokenizer,
                  origins={name: origin(checkpoint, sizes, spec)
                           for name, spec in specs.items()})
    image.content[:len(program)] = np.frombuffer(program, np.uint8)
    for name in _tables(sizes, context):
        if progress:
            progress(name)
        write_table(checkpoint, sizes, name, context, image.content[places.parts[name].bytes])
    for name, spec in specs.items():
        if progress:
            progress(name)
        pack_matrix(checkpoint, sizes, spec, image.content[places.parts[name].bytes])
    return image

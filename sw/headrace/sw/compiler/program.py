"""Program of a pass: the instruction list that serves prefill and decode alike."""

from dataclasses import dataclass, field

import numpy as np

from headrace.hw.config import ALIGN
from headrace.hw.formats import fp32_bits
from headrace.hw.isa import Format, Op, encode

from ..checkpoint import Rope
from ..layout import CacheLayout
from ..weight_layout import block_words, matrix_words, weight_bits
from .image import Region
from .sizes import Sizes


__all__ = ["Matrix", "Placement", "build_program", "matrices", "program_length"]


@dataclass(frozen=True)
class Matrix:
    """A weight matrix of the program, in padded sizes.

    `words` is its length in words of `stride` bytes, `narrow` log2(stride / columns) of its last
    tile, 0 for a full one.
    """

    name: str
    k: int
    columns: int
    tiles: int
    fmt: Format
    group: int
    narrow: int = 0

    @property
    def k_groups(self) -> int:
        """Groups along K."""
        return self.k // self.group

    @property
    def words(self) -> int:
        """Length in words of `stride` bytes."""
        return matrix_words(self.fmt, self.group, tiles=self.tiles, groups=self.k_groups,
                            narrow=self.narrow)

    @property
    def taken(self) -> dict[str, int]:
        """Fields of the instruction that takes the results."""
        return {"tiles": self.tiles, "narrow": self.narrow}


def matrices(sizes: Sizes, format_of) -> dict[str, Matrix]:
    """Return every matrix of the model by name, in the order of their use."""
    result = {}

    def put(name: str, k: int, columns: int, parts: int = 1) -> None:
        fmt = format_of(name)
        # Gate and up tiles come in pairs, and are full.
        narrow = 0 if parts > 1 else sizes.config.last_tile(columns, weight_bits(fmt))
        result[name] = Matrix(name, k, columns, parts * sizes.tiles(columns), fmt, sizes.group,
                              narrow)

    for layer in range(sizes.shape.layers):
        put(f"layers.{layer}.kv", sizes.dim, sizes.kv_dim)
        put(f"layers.{layer}.q", sizes.dim, sizes.q_dim)
        put(f"layers.{layer}.o", sizes.q_dim, sizes.dim)
        put(f"layers.{layer}.gate_up", sizes.dim, sizes.ffn, 2)
        put(f"layers.{layer}.down", sizes.ffn, sizes.dim)
    put("head", sizes.dim, sizes.shape.vocab)
    return result


def program_length(sizes: Sizes, repeat: int) -> int:
    """Instructions of a pass."""
    shape = sizes.shape
    extra = 2 * (shape.qkv_bias + shape.qk_norm + shape.post_norms)
    return repeat * shape.layers * (15 + 3 * len(sizes.pieces) + extra) + 5


@dataclass
class Placement:
    """What the program needs to know: sizes, chunk, matrices and where everything lies."""

    sizes: Sizes
    chunk: int
    matrices: dict[str, Matrix]
    regions: dict[str, Region]
    parts: dict[str, Region]
    cache: CacheLayout
    code: list[bytes] = field(default_factory=list)

    def __post_init__(self):
        sizes, lanes = self.sizes, self.sizes.config.lanes
        # Residual stream first, then the work area that k/v, q and the MLP use in turn: each is
        # consumed before the vector unit, which works in order, writes the next.
        self.residual = {"x_base": 0, "x_stride": sizes.dim // lanes}
        self.work_base = self.chunk * sizes.dim // lanes
        self.hd = {"heads": sizes.shape.kv_heads, "n_rep": sizes.shape.n_rep,
                   "head_dim": sizes.head_dim}
        self.v = {"v_select": sizes.config.sub_select(self.cache.v_cols),
                  "v_tiles": sizes.head_dim // self.cache.v_cols}
        self.heads_a = {"a_base": 0, "a_stride": sizes.head_dim // lanes, "s_base": 0,
                        "s_stride": sizes.head_groups}

    @property
    def act16(self) -> int:
        """Whether activations that meet weights have 16 bits."""
        return int(self.sizes.halves == 2)

    def emit(self, op: Op, **values: int) -> None:
        """Append an instruction; fields that are not given and may be 0 are 0."""
        self.code.append(encode(op, **values))

    def work(self, elems: int) -> dict[str, int]:
        """X fields of a vector of the work area."""
        return {"x_base": self.work_base, "x_stride": elems // self.sizes.config.lanes}

    def a(self, elems: int, skip: int = 0, part: int = 0) -> dict[str, int]:
        """A fields of a vector of `elems` elements, from its element `part` on.

        Vectors begin at 0, their readers are done before; `skip` leaves room for vectors of so
        many elements that are still being read.
        """
        sizes = self.sizes
        sets = -(-self.chunk // sizes.config.rows) * sizes.halves
        return {"a_base": (sets * skip + part) // sizes.config.lanes,
                "a_stride": elems // sizes.config.lanes,
                "s_base": (self.chunk * skip + part) // sizes.group,
                "s_stride": elems // sizes.group}

    def norm(self, name: str, **flags: int) -> None:
        """Emit RMSNorm of the residual stream to A."""
        sizes = self.sizes
        self.emit(Op.NORM, post_a=1, group16=sizes.group // 16, dim=sizes.dim,
                  inv_dim=fp32_bits(1 / sizes.shape.dim), **self.residual, **self.a(sizes.dim),
                  eps=fp32_bits(sizes.shape.eps), table=self.parts[name].unit,
                  act16=self.act16, **{"last_only": 0, **flags})

    def quant(self, elems: int, a: dict[str, int] | None = None, post_a: int = 1) -> None:
        """Emit quantisation of a vector of the work area to A."""
        self.emit(Op.QUANT, post_a=post_a, last_only=0, group16=self.sizes.group // 16, dim=elems,
                  act16=self.act16, **self.work(elems), **(a or self.a(elems)))

    def matmul(self, name: str, *, a: dict[str, int] | None = None, tiles: int | None = None,
               first: int = 0, **flags: int) -> None:
        """Emit a product of A and a matrix, or `tiles` tiles of it from tile `first` on."""
        matrix = self.matrices[name]
        tile_words = matrix.k_groups * block_words(matrix.fmt, matrix.group)
        tiles = matrix.tiles - first if tiles is None else tiles
        narrow = matrix.narrow if first + tiles == matrix.tiles else 0
        words = matrix_words(matrix.fmt, matrix.group, tiles=tiles, groups=matrix.k_groups,
                             narrow=narrow)
        begin = self.parts[name].begin + first * tile_words * self.sizes.config.stride
        assert begin % ALIGN == 0
        self.emit(Op.MATMUL, group16=matrix.group // 16, fmt=int(matrix.fmt),
                  k_groups=matrix.k_groups, **(a or self.a(matrix.k)), addr=begin // ALIGN,
                  words=words, tiles=tiles, narrow=narrow, halves=self.act16,
                  **{"wait_a": 1, "last_only": 0, **flags})


def _bias(place: Placement, layer: int, kind: str, elems: int) -> None:
    """Put a bias where the product will be added: the same row at every position, as a table with
    a distance of 0 between its rows."""
    if place.sizes.shape.qkv_bias:
        place.emit(Op.EMBED, dim=elems, pitch=0, **place.work(elems),
                   addr=place.parts[f"layers.{layer}.{kind}_bias"].unit,
                   tokens=place.regions["tokens"].unit)


def _keep(place: Placement, layer: int, kind: str, elems: int, heads: int, table_base: int) -> None:
    """Store the product for keys and values, or queries, and normalise its heads."""
    name, shape = f"layers.{layer}.", place.sizes.shape
    place.emit(Op.ADD if shape.qkv_bias else Op.STORE, last_only=0, limit=elems,
               **place.work(elems), **place.matrices[name + kind].taken)
    if shape.qk_norm:
        work = place.work(elems)
        place.emit(Op.RMS, accumulate=0, dim=place.sizes.head_dim,
                   inv_dim=fp32_bits(1 / shape.head_dim), **work, y_base=work["x_base"],
                   vectors=heads, table_base=table_base, eps=fp32_bits(shape.eps),
                   table=place.parts[f"{name}{kind[0]}_norm"].unit)


def _add(place: Placement, layer: int, kind: str, block: str) -> None:
    """Add the result of a matrix to the residual stream, behind a norm if there is one."""
    sizes, name = place.sizes, f"layers.{layer}."
    taken = place.matrices[name + kind].taken
    if not sizes.shape.post_norms:
        place.emit(Op.ADD, last_only=0, limit=sizes.dim, **place.residual, **taken)
        return
    work = place.work(sizes.dim)
    place.emit(Op.STORE, last_only=0, limit=sizes.dim, **work, **taken)
    place.emit(Op.RMS, accumulate=1, dim=sizes.dim, inv_dim=fp32_bits(1 / sizes.shape.dim), **work,
               y_base=place.residual["x_base"], vectors=1, table_base=0,
               eps=fp32_bits(sizes.shape.eps), table=place.parts[f"{name}{block}_post_norm"].unit)


def _layer(place: Placement, layer: int) -> None:
    sizes, shape = place.sizes, place.sizes.shape
    name = f"layers.{layer}."
    cache = {"pitch": place.cache.pitch_units,
             "addr": place.regions["cache"].unit + place.cache.unit(0, layer, 0)}
    scale = fp32_bits(shape.score_factor)
    gains = place.chunk * sizes.head_dim // sizes.config.lanes
    q = place.work(sizes.q_dim)

    place.norm(name + "attention_norm")
    place.matmul(name + "kv")
    _bias(place, layer, "kv", sizes.kv_dim)
    _keep(place, layer, "kv", sizes.kv_dim, shape.kv_heads, 0)
    # The product for q runs while keys and values travel to the cache.
    place.matmul(name + "q", wait_a=0)
    place.emit(Op.APPEND, **place.v, **cache, **place.work(sizes.kv_dim), **place.hd,
               table=place.parts[f"rope.{shape.rope_index(layer)}"].unit)
    _bias(place, layer, "q", sizes.q_dim)
    # All padded columns of q are stored: their zeros stay behind the heads' outputs below. The
    # gains of their norm lie behind the angles, which ROPE needs.
    _keep(place, layer, "q", sizes.q_dim, shape.heads, gains)
    place.emit(Op.ROPE, post_a=1, act16=place.act16, **q, **place.heads_a, **place.hd)
    place.emit(Op.ATTN, wait_a=1, halves=place.act16, **place.v, **cache, **place.heads_a,
               **place.hd, scale=scale, window=shape.window(layer))
    place.emit(Op.ATTN_OUT, **place.v, **q, **place.hd)
    place.quant(sizes.q_dim)
    place.matmul(name + "o")
    _add(place, layer, "o", "attention")
    place.norm(name + "mlp_norm")
    # In pieces, X holds a part of the hidden vector at a time: more positions fit into a pass.
    # Their input stays in A until the last piece, so the hidden vector is laid behind it.
    skip = sizes.dim if len(sizes.pieces) > 1 else 0
    column = first = 0
    for columns in sizes.pieces:
        tiles = 2 * sizes.tiles(columns)
        place.matmul(name + "gate_up", tiles=tiles, first=first, wait_a=int(first == 0))
        place.emit(Op.GLU, last_only=0, gelu=int(shape.activation == "gelu"), limit=columns,
                   **place.work(columns), tiles=tiles)
        place.quant(columns, place.a(sizes.ffn, skip, column),
                    post_a=int(column + columns == sizes.ffn))
        column, first = column + columns, first + tiles
    place.matmul(name + "down", a=place.a(sizes.ffn, skip))
    _add(place, layer, "down", "mlp")


def build_program(place: Placement, repeat: int = 1) -> bytes:
    """Encode the program of a pass, in which all layers are executed `repeat` times."""
    sizes, shape = place.sizes, place.sizes.shape
    place.code.clear()
    place.emit(Op.EMBED, dim=sizes.dim, pitch=-(-4 * sizes.dim // 64), **place.residual,
               addr=place.parts["embedding"].unit, tokens=place.regions["tokens"].unit)
    for _ in range(repeat):
        for layer in range(shape.layers):
            _layer(place, layer)
    place.norm("final_norm", last_only=1, head=1)
    place.matmul("head", last_only=1, head=1)
    place.emit(Op.LOGITS, head=1, limit=shape.vocab, addr=place.regions["logits"].unit,
               tokens=place.regions["tokens"].unit, **place.matrices["head"].taken)
    place.emit(Op.END, addr=place.regions["records"].unit)
    return b"".join(place.code)


def rope_rows(rope: Rope, elems: int, padded: int, positions: int) -> np.ndarray:
    """Return the rows ``(cos_0, sin_0, cos_1, sin_1, ...)``, rounded once from float64.

    `elems` of `padded` elements of a head are turned. Pairs that only exist as padding are not:
    cos 1, sin 0.
    """
    pairs = elems // 2
    angle = np.arange(positions)[:, None] * rope.frequencies(elems)
    rows = np.zeros((positions, padded // 2, 2))
    rows[..., 0] = 1
    rows[:, :pairs, 0] = rope.magnitude * np.cos(angle)
    rows[:, :pairs, 1] = rope.magnitude * np.sin(angle)
    return rows.reshape(positions, padded).astype(np.float32)

"""Padded sizes of a model on a configuration, and the largest chunk that its SRAM takes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from headrace.hw.config import ALIGN, KV_BLOCK, Config

from ..checkpoint import ModelShape
from ..errors import HeadraceError
from ..layout import align


__all__ = ["Sizes"]


# The MLP is cut into up to 2 ** 5 pieces.
_PIECES_LOG2 = 5


@dataclass(frozen=True)
class Demand:
    """What one resource must hold for some number of positions, and what there is."""

    what: str
    need: int
    have: int
    unit: str
    field: str


@dataclass(frozen=True)
class Sizes:
    """A model's dimensions, padded as the machine wants them.

    Parameters
    ----------
    shape : ModelShape
        The model.
    config : Config
        The machine.
    group : int
        Quantisation group of weights and activations.
    act_bits : int
        Bits of the activations that meet weights, 8 or 16.
    """

    shape: ModelShape
    config: Config
    group: int = 32
    act_bits: int = 8

    @property
    def halves(self) -> int:
        """Row sets of A that hold the activations of a row set: high and low halves."""
        return self.act_bits // 8

    @property
    def dim(self) -> int:
        """Width, padded to the group."""
        return align(self.shape.dim, self.group)

    @property
    def ffn(self) -> int:
        """Width of the MLP, padded to the group."""
        return align(self.shape.ffn, self.group)

    @property
    def head_dim(self) -> int:
        """Head dimension, padded to 16."""
        return align(self.shape.head_dim, 16)

    @property
    def q_dim(self) -> int:
        """Elements of all query heads, padded to the group."""
        return align(self.shape.heads * self.head_dim, self.group)

    @property
    def kv_dim(self) -> int:
        """Elements of all keys and values of a position."""
        return 2 * self.shape.kv_heads * self.head_dim

    @property
    def head_groups(self) -> int:
        """Activation scales of one query head: groups of 32, the last may be shorter."""
        return -(-self.head_dim // KV_BLOCK)

    def norm_elems(self, name: str) -> int:
        """Padded elements of a norm of a layer, by its name in the program."""
        return self.head_dim if name in ("q_norm", "k_norm") else self.dim

    def ffn_pieces(self, count: int) -> list[int]:
        """Columns of the MLP's hidden vector in each piece, for up to `count` pieces.

        A piece is whole tiles and whole groups, and its weights begin on 64 bytes, as blocks
        have an even number of words; the last piece is what is left.
        """
        stride = self.config.stride
        step = math.lcm(self.group, self.config.cols * max(1, ALIGN // (4 * stride)))
        size = align(-(-self.ffn // count), step)
        whole, rest = divmod(self.ffn, size)
        return [size] * whole + [rest] * (rest > 0)

    def work(self, pieces: int) -> int:
        """Elements of the work area of a position: k and v, then q, then a piece of the MLP, and
        what is added to the residual stream if it has a norm of its own."""
        post = self.dim if self.shape.post_norms else 0
        return max(self.kv_dim, self.q_dim, self.ffn_pieces(pieces)[0], post)

    def tiles(self, columns: int) -> int:
        """Column tiles of a matrix."""
        return -(-columns // self.config.cols)

    def demands(self, positions: int, pieces: int = 1) -> Iterator[Demand]:
        """Yield everything whose size depends on the positions of a pass.

        With the MLP in more than one piece, X holds one piece of its hidden vector at a time, and
        A holds the input of the MLP until the last piece is multiplied.
        """
        config, shape = self.config, self.shape
        sets = -(-positions // config.rows)
        streams = positions * shape.n_rep
        widths = (self.dim, self.q_dim, self.ffn + (self.dim if pieces > 1 else 0))
        x_elems = positions * (self.dim + self.work(pieces))
        yield Demand("fp32 vectors", 4 * x_elems, config.x_bytes, "bytes", "x_bytes")
        words = max(*(sets * self.halves * width // config.lanes for width in widths),
                    shape.kv_heads * -(-streams // config.rows) * self.halves * self.head_dim
                    // config.lanes)
        yield Demand(f"int{self.act_bits} activations", words * config.a_word_bytes, config.a_words
                     * config.a_word_bytes, "bytes", "a_bytes")
        scales = max(*(positions * width // self.group for width in widths),
                     shape.kv_heads * streams * self.head_groups)
        yield Demand("activation scales", scales, config.s_words, "scales", "a_bytes")
        yield Demand("attention streams", streams, config.streams, "streams", "streams")
        rows = positions + shape.qk_norm      # the gains of q lie behind the angles
        yield Demand("the rotary table", rows * self.head_dim, config.table_elems,
                     "elements", "table_elems")

    def check(self) -> None:
        """Refuse a model that the configuration cannot run, whatever the chunk.

        Raises
        ------
        HeadraceError
            With what is needed, what there is, and the field to change.
        """
        config, shape = self.config, self.shape
        if self.group % 16 or not 16 <= self.group <= 128:
            raise HeadraceError(f"quantisation group {self.group}: expected a multiple of 16, "
                                f"from 16 to 128")
        if config.group < self.group:
            raise self._error("a quantisation group", self.group, config.group, "values", "group")
        if self.head_dim > config.head_dim:
            raise self._error("a head (padded to 16)", self.head_dim, config.head_dim, "elements",
                              "head_dim")
        if self.dim > config.table_elems:
            raise self._error("a row of norm gains", self.dim, config.table_elems, "elements",
                              "table_elems")
        for what, size, bits in (("width", self.dim, 16), ("width of the MLP", self.ffn, 16),
                                 ("width of all heads", self.q_dim, 16),
                                 ("number of K/V heads", shape.kv_heads, 8),
                                 ("sliding window", max(shape.window_of, default=0), 16),
                                 ("number of query heads per K/V head", shape.n_rep, 8)):
            if size >= 1 << bits:
                raise HeadraceError(f"model: {what} {size} (padded): the instruction set ends at "
                                    f"{(1 << bits) - 1}; take a smaller model")
        if shape.score_cap or shape.logit_cap:
            raise HeadraceError(f"model: architecture {shape.architecture} caps its scores or "
                                f"logits (softcapping), which the machine cannot do: it would "
                                f"compute something else than the model")
        for demand in self.demands(1, self.plan[1]):
            if demand.need > demand.have:
                raise self._error(f"one position of {demand.what}", demand.need, demand.have,
                                  demand.unit, demand.field)

    def _error(self, what: str, need: int, have: int, unit: str, field: str) -> HeadraceError:
        return HeadraceError(f"the model does not fit configuration {self.config.name!r}: {what} "
                             f"takes up {need} {unit}, but there are {have} ({field}): take a "
                             f"larger configuration, or raise {field}")

    @cached_property
    def plan(self) -> tuple[int, int]:
        """Most positions of a pass, after :meth:`check`, and pieces of the MLP that allow it."""
        best = (0, 1)
        for log2 in range(_PIECES_LOG2 + 1):
            count = self._chunk(1 << log2)
            if count > best[0]:
                best = (count, 1 << log2)
        return max(1, best[0]), best[1]

    def _chunk(self, pieces: int) -> int:
        for positions in range(self.config.chunk_positions, 0, -1):
            if all(demand.need <= demand.have for demand in self.demands(positions, pieces)):
                return positions
        return 0

    @property
    def chunk(self) -> int:
        """Most positions of a pass, after :meth:`check`."""
        return self.plan[0]

    @property
    def pieces(self) -> list[int]:
        """Columns of each piece of the MLP's hidden vector."""
        return self.ffn_pieces(self.plan[1])

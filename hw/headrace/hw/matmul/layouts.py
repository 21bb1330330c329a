"""Layouts inside the matmul unit."""

from amaranth import *
from amaranth.lib import data

from ..config import KV_BLOCK, Config


__all__ = ["PassLayout", "RowLayout", "SCALE_SLOTS", "column_groups", "fold_log2", "in_buffer",
           "macs_bits", "narrow_shape", "narrow_values", "walk_values"]


#: Blocks whose weight scales are held at once. A block frees its slot with its last row.
SCALE_SLOTS = 4


def narrow_values(config: Config):
    """Values of `narrow`, log2(stride / columns of a tile); 0 is a full tile."""
    dims = range(16, config.head_dim + 1, 16)
    return sorted({*config.last_tiles(8), config.sub_select(config.k_cols),
                   *(config.sub_select(config.v_cols(dim)) for dim in dims)})


def in_buffer(config: Config, buffer, size, addr):
    """Address of word `addr` of a buffer of probabilities, in a memory of all of `size` words."""
    if size & (size - 1) == 0:
        return Cat(addr[:size.bit_length() - 1], buffer)
    return Array(size * i for i in range(config.p_buffers))[buffer] + addr


def fold_log2(config: Config, narrow: int):
    """log2 of the rows that a tile takes per cycle."""
    return (config.fold(config.stride >> narrow) if narrow else 1).bit_length() - 1


def walk_values(config: Config):
    """log2 of the cycles that a word of the ring lasts; 4-bit rows of a full tile last two."""
    return sorted({0, 1, *(narrow - fold_log2(config, narrow)
                           for narrow in narrow_values(config))})


def narrow_shape(config: Config):
    """Shape of `narrow` where it only tells folds apart: nothing if there is none."""
    return unsigned(2 if config.folds > 1 else 0)


def column_groups(config: Config):
    """Which of the activations of a cycle a column takes, for each value of `narrow`.

    Returns
    -------
    dict
        From the choice, a tuple of ``(narrow, index)`` with `index` above 0, to the columns that
        make it. Columns that a tile does not use take any.
    """
    result = {}
    for column in range(config.cols):
        choice = []
        for narrow in narrow_values(config):
            index = column // (config.stride >> narrow)
            if 0 < index < 1 << fold_log2(config, narrow):
                choice.append((narrow, index))
        result.setdefault(tuple(choice), []).append(column)
    return result


def macs_bits(config: Config):
    """Width of the useful multiply-accumulates of one row in one pass."""
    return (max(config.cols, KV_BLOCK) * 128).bit_length()


def PassLayout(config: Config):
    """One pass over the array: one block of weights, one set of rows."""
    return data.StructLayout({
        # Streaming.
        "attn": 1,                              # K or V, without a header
        "v": 1,                                 # V: activations are probabilities
        "length": 8,                            # rows of K
        "select": 2,                            # log2 of rows in one word of the ring
        "narrow": 2,                            # log2(stride / columns of the tile)
        "fold": range(config.folds.bit_length()),   # log2 of rows in one cycle
        "nibbles": 1,                           # int4
        "affine": 1,                            # unsigned int4, with minima
        "rows": range(config.rows + 1),         # used rows of the array
        "addr": 16,                             # first word of activations
        # The block.
        "opens": 1,                             # first pass that uses it
        "closes": 1,                            # last pass that uses it
        "words": range(config.ring_words + 1),  # its length in the ring, header included
        "header": 3,                            # words of its header
        # Conditions.
        "wait_a": 1,                            # take a token: activations are complete
        "wait_p": 1,                            # take a token: probabilities are complete
        "free_p": 1,                            # the probabilities are not needed afterwards
        # Rows.
        "group": 16,                            # activation scale of the group in its stream
        "s_base": 16,
        "s_stride": 16,
        "s_start": 1,                           # first pass of an instruction
        "restart": 1,                           # begins with stream 0
        "head_done": 1,                         # the next scales belong to another head
        "acc_start": 1,                         # begins at the first word of its storage
        "first": 1,                             # accumulation starts from +0
        "last": 1,                              # results leave
        "low": 1,                               # low halves of the streams of the pass before
        "row_words": range(config.col_words + 1),
        # Useful products: tokens of stream 0 that count, clipped from above; streams per position.
        "tokens": signed(13),
        "beyond": signed(13),    # tokens up to the window of the first position, likewise
        "n_rep": 8,
    })


def RowLayout(config: Config):
    """What the accumulator must know about one row of sums."""
    return data.StructLayout({
        "addr": range(config.acc_words),        # first word of storage
        "words": range(config.col_words + 1),
        "narrow": narrow_shape(config),         # log2(stride / columns of the tile)
        "act_scale": 32,
        "rescale": 32,
        "row_scale": 32,
        "first": 1,
        "last": 1,
        "scores": 1,                            # destination: scores, or else results
        "scaled": 1,                            # weight scales are in `slot`; otherwise they are 1
        "affine": 1,
        "slot": range(SCALE_SLOTS),
        "release": 1,                           # last row that uses the slot
    })

"""Layouts and signatures between the units of the accelerator.

`docs/architecture.md` says what travels on each of them, and in which order.
"""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from .config import Config
from .isa import FIELDS, INSTRUCTION_BYTES


__all__ = ["AWriteSignature", "AppendLayout", "BlockLayout", "CommandLayout", "PScaleLayout",
           "PWriteSignature", "RequestLayout", "ResultLayout", "SWriteSignature", "field", "words"]


def words(count, bits=32):
    """Layout of `count` values of `bits` bits: one word of a stream of vectors."""
    return data.ArrayLayout(unsigned(bits), count)


#: An instruction on its way to an engine, with the scalars of its pass.
CommandLayout = data.StructLayout({
    "code": 8 * INSTRUCTION_BYTES,
    "position": 32,          # first position of the pass
    "positions": 16,         # positions in the pass, at least 1
    "index": 16,             # number of the pass in the run
    "head": 1,               # the pass computes logits
    "logits": 1,             # logits are written to memory
})


def field(command, name):
    """Slice of a field of the instruction in a `CommandLayout` view."""
    spec = FIELDS[name]
    return command.code[spec.offset:spec.offset + spec.bits]


#: A read asked by the vector unit: `bytes` from `addr` bytes after the memory base.
RequestLayout = data.StructLayout({"addr": 40, "bytes": 20, "cls": 3})

#: Head of an append to the cache: `head_dim` int8 values of one token and head follow.
AppendLayout = data.StructLayout({
    "addr": 32,              # 64-byte units: block of 32 tokens of this layer and head
    "token": 5,              # token in the block
    "value": 1,              # 0: a key, 1: a value
    "head_dim": 16,
    "v_select": 4,
    "scale": 16,             # fp16
})

#: One block of 32 tokens on its way through the softmax pipeline.
BlockLayout = data.StructLayout({
    "block": 27,             # index: the tokens are 32 * block ... 32 * block + 31
    "first": 1,              # first block of a K/V head: the running state begins
    "last": 1,               # last block of a K/V head: the reciprocal of the sum is due
    "streams": 16,           # streams in flight: positions * n_rep
    "n_rep": 8,
    "position": 32,          # position of streams 0 ... n_rep - 1
    "window": 16,            # positions that a stream sees, its own included; 0 for all
    "scale": 32,             # fp32 factor of the scores
})

#: Factors of one stream for the product of a block with V.
PScaleLayout = data.StructLayout({"act_scale": 32, "rescale": 32, "inv_sum": 32})


def ResultLayout(config: Config):
    """Results of the matmul unit: `lanes` fp32 values of one row, and the row's `row_scale`."""
    return data.StructLayout({"values": words(config.lanes), "row_scale": 32})


class AWriteSignature(wiring.Signature):
    """Write port of the activation SRAM: `lanes` int8 values of one row (stream % rows)."""

    def __init__(self, config: Config):
        super().__init__({
            "en": Out(1), "addr": Out(range(config.a_words)), "row": Out(range(config.rows)),
            "data": Out(words(config.lanes, 8)),
        })


class SWriteSignature(wiring.Signature):
    """Write port of the memory of activation scales: one fp32 value."""

    def __init__(self, config: Config):
        super().__init__({"en": Out(1), "addr": Out(range(config.s_words)), "data": Out(32)})


class PWriteSignature(wiring.Signature):
    """Write ports of the quantised probabilities and of their factors, from the softmax pipeline.

    `buffer` is the number of the block since the reset, modulo ``config.p_buffers``. `p_addr` is
    ``(stream // rows) * (32 // lanes) + token // lanes``.
    """

    def __init__(self, config: Config):
        p_words = -(-config.streams // config.rows) * (32 // config.lanes)
        super().__init__({
            "buffer": Out(range(config.p_buffers)),
            "p_en": Out(1), "p_addr": Out(range(p_words)), "p_row": Out(range(config.rows)),
            "p_data": Out(words(config.lanes, 8)),
            "scale_en": Out(1), "stream": Out(range(config.streams)), "scale": Out(PScaleLayout),
            "done": Out(1),      # pulse: the block is complete in `buffer`
        })

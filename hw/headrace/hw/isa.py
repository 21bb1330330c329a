"""Instruction set: what the compiler writes, and what the sequencer and the golden machine read.

An instruction is eight little-endian 32-bit words. The opcode is always in the same place; the
other fields are placed once, in :data:`FIELDS`, and an instruction uses those that
:data:`OPCODES` lists for it. `docs/isa.md` describes what each instruction does.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum


__all__ = ["ENGINES", "FIELDS", "INSTRUCTION_BYTES", "OPCODES", "Field", "Format", "Op", "decode",
           "encode"]


INSTRUCTION_BYTES = 32


class Op(IntEnum):
    """Opcodes. Zero is no instruction, so that a jump into empty memory is an error."""

    EMBED = 1       # rows of the embedding table -> X
    NORM = 2        # X -> RMSNorm -> quantised -> A
    QUANT = 3       # X -> quantised -> A
    MATMUL = 4      # A x weights -> result stream
    STORE = 5       # result stream -> X
    ADD = 6         # X + result stream -> X
    GLU = 7         # silu or gelu (gate tile) * up tile of the result stream -> X
    APPEND = 8      # X -> RoPE (keys) -> quantised -> cache
    ROPE = 9        # X -> RoPE -> quantised -> A (queries)
    ATTN = 10       # A (queries) x cache -> result stream, with online softmax
    ATTN_OUT = 11   # result stream x 1/sum -> X
    LOGITS = 12     # result stream -> arg-max; logits and next token to memory
    END = 13        # end of the pass: counters to memory
    RMS = 14        # X -> RMSNorm of parts of a vector -> X


class Format(IntEnum):
    """Formats of the weights of a MATMUL."""

    W8 = 0          # int8, one fp16 scale per group and column
    W4 = 1          # int4, signed, one fp16 scale
    W4A = 2         # int4, unsigned, one fp16 scale and one fp16 minimum


@dataclass(frozen=True)
class Field:
    """A field of an instruction: `bits` bits of word `word`, from bit `lsb`."""

    name: str
    word: int
    lsb: int
    bits: int
    doc: str

    @property
    def offset(self) -> int:
        """Position of the lowest bit in the whole instruction."""
        return 32 * self.word + self.lsb


#: Every field by name.
FIELDS = {row[0]: Field(*row) for row in (
    ("op", 0, 0, 8, "opcode"),
    ("wait_a", 0, 8, 1, "take one `post_a` token before the first pass over the array"),
    ("post_a", 0, 9, 1, "give one token to the matmul unit when the results are in A"),
    ("last_only", 0, 10, 1, "only the last position of the pass, as stream 0"),
    ("head", 0, 11, 1, "skipped unless the pass asks for logits"),
    ("gelu", 0, 12, 1, "the gate is GELU in its tanh form instead of SiLU"),
    ("accumulate", 0, 12, 1, "the result is added to what is there"),
    ("group16", 0, 12, 4, "quantisation group in units of 16 values"),
    ("dim", 0, 16, 16, "elements of a vector, padded to the group"),
    ("fmt", 0, 16, 4, "weight format, see Format"),
    ("halves", 0, 28, 1, "16-bit activations or queries: row sets come in pairs, high and "
                         "low halves"),
    ("v_select", 0, 16, 4, "log2(stride / columns of a V tile)"),
    ("narrow", 0, 20, 4, "log2(stride / columns of the last tile), 0 for a full one"),
    ("v_tiles", 0, 20, 8, "V tiles per head: head_dim / columns of a V tile"),
    ("pitch", 1, 0, 32, "64-byte units from one embedding row, or block of 32 tokens, to the next"),
    ("k_groups", 1, 0, 16, "groups along K"),
    ("limit", 1, 0, 32, "columns of the result that are kept"),
    ("inv_dim", 1, 0, 32, "fp32: 1 / unpadded dimension"),
    ("x_base", 2, 0, 16, "word of X where position 0 begins"),
    ("x_stride", 2, 16, 16, "words of X from one position to the next"),
    ("window", 2, 0, 16, "positions that are attended to, the own one included; 0 for all"),
    ("y_base", 3, 0, 16, "word of X where the result of position 0 begins"),
    ("vectors", 3, 16, 8, "vectors of a position, one behind the other"),
    ("a_base", 3, 0, 16, "word of A where row set 0 begins"),
    ("a_stride", 3, 16, 16, "words of A from one row set to the next"),
    ("table_base", 4, 0, 16, "word of the table SRAM where the gains are kept"),
    ("s_base", 4, 0, 16, "first activation scale of stream 0"),
    ("s_stride", 4, 16, 16, "activation scales from one stream to the next"),
    ("addr", 5, 0, 32, "address in 64-byte units: weights, embedding, cache of the layer, logits, "
                       "records"),
    ("act16", 5, 0, 1, "quantise to 16 bits, in a row set of high and one of low halves"),
    ("words", 6, 0, 32, "words of `stride` bytes in the weight stream"),
    ("eps", 6, 0, 32, "fp32: added to the mean square"),
    ("heads", 6, 0, 8, "K/V heads"),
    ("n_rep", 6, 8, 8, "query heads per K/V head"),
    ("head_dim", 6, 16, 16, "head dimension, padded to 16"),
    ("tokens", 6, 0, 32, "address of the token buffer, in 64-byte units"),
    ("tiles", 7, 0, 24, "column tiles"),
    ("table", 7, 0, 32, "address of the table (norm gains, RoPE), in 64-byte units"),
    ("scale", 7, 0, 32, "fp32: factor of the scores, 1 / sqrt(unpadded head dimension)"),
)}

_A = ("a_base", "a_stride", "s_base", "s_stride")
_X = ("x_base", "x_stride")
_HEADS = ("heads", "n_rep", "head_dim")

#: Fields of each instruction, besides `op` and `head`.
OPCODES = {
    Op.EMBED: ("dim", "pitch", *_X, "addr", "tokens"),
    Op.NORM: ("post_a", "last_only", "group16", "dim", "inv_dim", *_X, *_A, "act16", "eps",
              "table"),
    Op.QUANT: ("post_a", "last_only", "group16", "dim", *_X, *_A, "act16"),
    Op.MATMUL: ("wait_a", "last_only", "group16", "fmt", "narrow", "halves", "k_groups", *_A,
                "addr", "words", "tiles"),
    Op.STORE: ("last_only", "narrow", "limit", *_X, "tiles"),
    Op.ADD: ("last_only", "narrow", "limit", *_X, "tiles"),
    Op.GLU: ("last_only", "gelu", "limit", *_X, "tiles"),
    Op.APPEND: ("v_select", "v_tiles", "pitch", *_X, "addr", *_HEADS, "table"),
    Op.ROPE: ("post_a", *_X, *_A, "act16", *_HEADS),
    Op.ATTN: ("wait_a", "v_select", "v_tiles", "halves", "pitch", "window", *_A, "addr", *_HEADS,
              "scale"),
    Op.ATTN_OUT: ("v_select", "v_tiles", *_X, *_HEADS),
    Op.LOGITS: ("narrow", "limit", "addr", "tokens", "tiles"),
    Op.END: ("addr",),
    Op.RMS: ("accumulate", "dim", "inv_dim", *_X, "y_base", "vectors", "table_base", "eps",
             "table"),
}

#: Engines that take part in each instruction: the sequencer puts it into their queues.
ENGINES = {
    Op.EMBED: ("vector",),
    Op.NORM: ("memory", "vector"),
    Op.QUANT: ("vector",),
    Op.MATMUL: ("memory", "matmul"),
    Op.STORE: ("vector",),
    Op.ADD: ("vector",),
    Op.GLU: ("vector",),
    Op.APPEND: ("memory", "vector"),
    Op.ROPE: ("vector",),
    Op.ATTN: ("memory", "matmul"),
    Op.ATTN_OUT: ("vector",),
    Op.LOGITS: ("vector",),
    Op.END: ("vector",),
    Op.RMS: ("memory", "vector"),
}


def encode(op: Op, **values: int) -> bytes:
    """Encode an instruction.

    Raises
    ------
    ValueError
        If a field is missing or does not belong to the instruction, or a value does not fit it.
    """
    wanted = set(OPCODES[op])
    given = set(values) - {"head"}
    if given != wanted:
        raise ValueError(f"{op.name}: fields {sorted(given ^ wanted)} missing or unknown")
    bits = int(op)
    for name, value in values.items():
        field = FIELDS[name]
        if not 0 <= value < 1 << field.bits:
            raise ValueError(f"{op.name}.{name}: {value} does not fit into {field.bits} bits")
        bits |= int(value) << field.offset
    return bits.to_bytes(INSTRUCTION_BYTES, "little")


def decode(code: bytes) -> dict[str, int]:
    """Decode one instruction into its fields; `op` is an :class:`Op`.

    Raises
    ------
    ValueError
        If the opcode is unknown.
    """
    words = struct.unpack("<8I", code)
    op = Op(words[0] & 0xff)
    fields = {name: words[FIELDS[name].word] >> FIELDS[name].lsb & (1 << FIELDS[name].bits) - 1
              for name in ("head", *OPCODES[op])}
    return {"op": op, **fields}

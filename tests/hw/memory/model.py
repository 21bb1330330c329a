"""NumPy model of the memory system: what each command delivers, and what each write leaves."""

import numpy as np

from headrace.hw.config import CLASSES, KV_BLOCK
from headrace.hw.isa import OPCODES, encode


__all__ = ["Low", "MemoryModel", "command_bits", "same"]


class Low(int):
    """A word of which only the lowest 32 bits are defined."""


def same(received, expected):
    """Whether words are as expected, in number and in every defined bit."""
    return len(received) == len(expected) and all(
        (got & 0xffff_ffff if isinstance(want, Low) else got) == want
        for got, want in zip(received, expected))


def command_bits(op, *, position=0, positions=1, **fields):
    """An instruction with only the fields that the memory system reads, and its pass, as bits."""
    code = int.from_bytes(encode(op, **{**dict.fromkeys(OPCODES[op], 0), **fields}), "little")
    return code | position << 256 | positions << 288


class MemoryModel:
    """The far side's bytes, and the streams that they should become.

    Every method of a read returns ``(stream, words)`` pairs in their order, words as integers,
    and adds the beats that must be read to `beats` by class.
    """
    def __init__(self, config, size, seed, *, base=0, kv_base=0, kv_pinned=0):
        self.config = config
        self.rng = np.random.default_rng(seed)
        self.memory = self.rng.integers(0, 256, size, dtype=np.uint8)
        self.base = base
        self.kv_base = kv_base
        self.kv_pinned = kv_pinned
        self.beats = dict.fromkeys(CLASSES, 0)
        self.hits = 0

    def take(self, addr, size, word_bytes, cls, *, hit=False):
        beats = -(-size // self.config.port_bytes)
        if hit:
            self.hits += beats
        else:
            self.beats[cls] += beats
        data = self.memory[addr:addr + size].tobytes()
        assert len(data) == size and size % word_bytes == 0
        return [int.from_bytes(data[i:i + word_bytes], "little")
                for i in range(0, size, word_bytes)]

    def matmul(self, addr, count):
        stride = self.config.stride
        return [("weights", self.take(self.base + 64 * addr, count * stride, stride, "weights"))]

    def norm(self, table, dim):
        return [("tables", self.take(self.base + 64 * table, 4 * dim, 4 * self.config.lanes,
                                     "tables"))]

    def rope(self, table, head_dim, position, positions):
        row = 4 * head_dim
        return [("tables", self.take(self.base + 64 * table + position * row, positions * row,
                                     4 * self.config.lanes, "tables"))]

    def attn(self, addr, pitch, heads, head_dim, position, positions):
        config = self.config
        count = -(-(position + positions) // KV_BLOCK)
        blocks = [addr + b * pitch + j * (head_dim + 2) for j in range(heads)
                  for b in range(count)]
        result = []

        def part(block, offset, size, word, name):
            units = block + offset // 64
            hit = self.kv_base <= units < self.kv_base + self.kv_pinned
            result.append((name, self.take(self.base + 64 * block + offset, size, word, "kv",
                                           hit=hit)))

        def v_part(block):
            part(block, 128 + 32 * head_dim, 32 * head_dim, config.stride, "weights")

        for i, block in enumerate(blocks):
            part(block, 0, 128, 2 * config.softmax_lanes, "kv_scales")
            part(block, 128, 32 * head_dim, config.stride, "weights")
            if i >= config.attn_lead:
                v_part(blocks[i - config.attn_lead])
        for block in blocks[-config.attn_lead:]:
            v_part(block)
        return result

    def fetch(self, addr, count):
        return [("instructions", self.take(self.base + 64 * addr, 32 * count, 32, "program"))]

    def request(self, addr, size, cls):
        if size == 4:
            value, = self.take(self.base + addr, 4, 4, cls)
            return [("request_data", [Low(value)])]
        return [("request_data", self.take(self.base + addr, size, 4 * self.config.lanes, cls))]

    def append(self, addr, token, value, head_dim, v_select, scale, vector):
        """Apply an append to the memory."""
        config = self.config
        block = self.base + 64 * addr
        index = np.arange(head_dim)
        if value:
            vn = config.stride >> v_select
            at = 128 + 32 * head_dim + index // vn * 32 * vn + token * vn + index % vn
        else:
            kn = config.k_cols
            at = 128 + token // kn * head_dim * kn + index * kn + token % kn
        self.memory[block + at] = vector
        at = block + 2 * token + 64 * value
        self.memory[at:at + 2] = np.frombuffer(scale.to_bytes(2, "little"), np.uint8)
        return head_dim + 2

    def write(self, addr, data):
        """Apply a contiguous write `addr` bytes after the base."""
        data = np.frombuffer(np.ascontiguousarray(data), np.uint8)
        self.memory[self.base + addr:self.base + addr + len(data)] = data

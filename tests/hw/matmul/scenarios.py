"""Seeded sequences of instructions for the benches of the matmul unit."""

import numpy as np

from headrace.hw.config import KV_BLOCK
from headrace.hw.isa import Format

from .model import Traffic, add_attn, add_matmul


__all__ = ["Maker", "make"]


class Maker:
    """Makes instructions with random data, one after the other, in separate parts of A."""

    def __init__(self, config, seed):
        self.config = config
        self.rng = np.random.default_rng(seed)
        self.traffic = Traffic()
        self._a = self._s = 0

    def _place(self, a_words, scales):
        """A part of A and of the scales of its own, so that nothing is overwritten in use."""
        place = {"a_base": self._a, "s_base": self._s}
        self._a += a_words
        self._s += scales
        assert self._a <= self.config.a_words and self._s <= self.config.s_words
        return place

    def floats(self, *shape):
        """fp32 numbers of very different sizes, zeros among them."""
        value = self.rng.standard_normal(shape) * 2.0 ** self.rng.integers(-12, 12, shape)
        return np.where(self.rng.random(shape) < 0.05, 0, value).astype(np.float32)

    def scales(self, *shape, wild=False):
        """Bits of fp16 scales; wild ones include subnormals, infinities and NaN."""
        if wild:
            return self.rng.integers(0, 1 << 16, shape).astype(np.uint16)
        return (self.rng.standard_normal(shape) / 16).astype(np.float16).view(np.uint16)

    def ints(self, low, high, *shape, extreme=False):
        """Integers from `low` to `high`, or only these two."""
        if extreme:
            return np.where(self.rng.random(shape) < 0.5, low, high)
        return self.rng.integers(low, high + 1, shape)

    def matmul(self, *, positions, groups=2, tiles=2, group=32, fmt=Format.W8, last_only=0,
               extreme=False, same=False, wild=False, last=0, halves=False):
        """A MATMUL; `same` makes every product as large as it can be, of one sign; `last` is the
        width of a narrow tile behind the full ones."""
        config = self.config
        streams = 1 if last_only else positions
        k, n = groups * group, tiles * config.cols + last
        low, high = {Format.W8: (-128, 127), Format.W4: (-8, 7), Format.W4A: (0, 15)}[fmt]
        q = self.ints(-127, 127, streams, k, extreme=extreme)
        w = self.ints(low, high, k, n, extreme=extreme)
        if same:
            q[:], w[:] = -127, low
        q_low = self.ints(-128, 127, streams, k, extreme=extreme) if halves else None
        add_matmul(
            self.traffic, config, q=q, act_scale=self.floats(streams, groups), w=w,
            w_scale=self.scales(groups, n, wild=wild), w_min=self.scales(groups, n, wild=wild),
            group=group, fmt=fmt, last_only=last_only, positions=positions, q_low=q_low,
            **self._place((1 + halves) * -(-streams // config.rows) * k // config.lanes,
                          streams * groups))
        return self

    def attn(self, *, positions, n_rep, heads, head_dim, position, extreme=False, window=0):
        """An ATTN with probabilities of its own."""
        config, rng = self.config, self.rng
        streams = positions * n_rep
        blocks = -(-(position + positions) // KV_BLOCK)
        tokens = blocks * KV_BLOCK
        groups = -(-head_dim // KV_BLOCK)
        sets = -(-streams // config.rows)
        factors = np.abs(self.floats(heads, blocks, 3, streams))
        add_attn(
            self.traffic, config, q=self.ints(-127, 127, heads, streams, head_dim, extreme=extreme),
            act_scale=self.floats(heads, streams, groups),
            k=self.ints(-127, 127, heads, tokens, head_dim, extreme=extreme).astype(np.int8),
            v=self.ints(-127, 127, heads, tokens, head_dim, extreme=extreme).astype(np.int8),
            p=self.ints(0, 127, heads, streams, tokens, extreme=extreme), factors=factors,
            position=position, positions=positions, n_rep=n_rep, window=window,
            scale=np.float32(rng.random()),
            **self._place(heads * sets * head_dim // config.lanes, heads * streams * groups))
        return self


def make(config, name, seed):
    """The scenario `name`; the largest fit into `config`."""
    maker = Maker(config, seed)
    most = config.chunk_positions
    rows = config.rows
    cap = config.group
    if name == "matmul":
        maker.matmul(positions=1, groups=3)
        maker.matmul(positions=most, groups=2, tiles=1)
        maker.matmul(positions=min(rows, most), group=16, groups=2, tiles=3)
        maker.matmul(positions=min(rows + 1, most), groups=1, tiles=2)
        maker.matmul(positions=most, last_only=1, groups=2)
        maker.matmul(positions=min(2, most), group=cap, groups=2, extreme=True)
        maker.matmul(positions=min(rows, most), group=cap, groups=1, same=True, tiles=1)
        maker.matmul(positions=min(3, most), groups=2, wild=True)
    elif name == "int4":
        for fmt in (Format.W4, Format.W4A, Format.W8, Format.W4A):
            maker.matmul(positions=1, groups=2, fmt=fmt, tiles=1)
            maker.matmul(positions=min(rows + 1, most), groups=2, fmt=fmt)
        maker.matmul(positions=min(rows, most), group=cap, groups=1, same=True, fmt=Format.W4A)
        maker.matmul(positions=min(rows, most), group=16, groups=3, fmt=Format.W4, extreme=True)
    elif name == "halves":
        for fmt in Format:
            maker.matmul(positions=1, groups=3, fmt=fmt, halves=True)
            maker.matmul(positions=min(rows + 1, most), groups=2, fmt=fmt, tiles=1)
            maker.matmul(positions=most, groups=2, group=16, fmt=fmt, tiles=1, halves=True,
                         extreme=True)
        maker.matmul(positions=min(2, most), last_only=1, groups=1, tiles=1, halves=True, wild=True)
    elif name == "attention":
        # A tile of K has few tokens on a narrow array: short heads keep the benches short.
        dims = [d for d in ((16, 32, 48, 64) if config.cols >= 8 else (16, 48))
                if d <= config.head_dim]
        for i, dim in enumerate(dims):
            n_rep = 1 + i % 3
            positions = min(2, most, max(1, config.streams // n_rep))
            # The second position of the pass begins a new block.
            maker.attn(positions=positions, n_rep=n_rep, heads=1 + (i == 0), head_dim=dim,
                       position=31)
            maker.matmul(positions=1, groups=1, tiles=1)
        maker.attn(positions=1, n_rep=1, heads=3, head_dim=16, position=0)
        maker.attn(positions=1, n_rep=1, heads=1, head_dim=16, position=5)
        maker.attn(positions=1, n_rep=min(rows, 4, config.streams), heads=1, head_dim=16,
                   position=97, extreme=True)
        if rows > 1:
            maker.attn(positions=most, n_rep=max(1, config.streams // most), heads=1, head_dim=16,
                       position=20)
    elif name == "lead":
        # More blocks than any lead, heads of one block, fewer blocks than the lead, one.
        maker.attn(positions=min(2, most), n_rep=min(2, config.streams // min(2, most)), heads=3,
                   head_dim=16, position=94)
        maker.attn(positions=1, n_rep=min(3, config.streams), heads=9, head_dim=16, position=3)
        maker.matmul(positions=1, groups=1, tiles=1)
        maker.attn(positions=1, n_rep=1, heads=1, head_dim=16, position=63)
        maker.attn(positions=1, n_rep=1, heads=1, head_dim=16, position=0, extreme=True)
    elif name == "narrow":
        for fmt in (Format.W8, Format.W4, Format.W4A):
            for narrow in config.last_tiles(8 if fmt == Format.W8 else 4)[1:]:
                last = config.stride >> narrow
                maker.matmul(positions=1, groups=2, fmt=fmt, tiles=1, last=last)
                maker.matmul(positions=min(rows + 1, most), groups=1, fmt=fmt, tiles=0, last=last,
                             group=16)
                maker.matmul(positions=min(2, most), groups=3, fmt=fmt, tiles=0, last=last,
                             last_only=1)
                maker.matmul(positions=min(rows, most), groups=1, fmt=fmt, tiles=1, last=last,
                             same=True, group=cap)
            maker.matmul(positions=1, groups=1, fmt=fmt, tiles=1)
    elif name == "window":
        # Windows of one token, less than the chunk, more than a block, and more than there is.
        for window in (1, 3, 33, 40, 100):
            maker.attn(positions=most, n_rep=min(2, config.streams // most), heads=2, head_dim=16,
                       position=70, window=window)
        maker.attn(positions=1, n_rep=1, heads=3, head_dim=16, position=64, window=33)
    elif name == "drain":
        # All rows of the array in passes whose lengths differ: the shorter ones follow at once,
        # with one row set and with two.
        maker.attn(positions=most, n_rep=1, heads=1, head_dim=48, position=2)
        maker.attn(positions=most, n_rep=2, heads=1, head_dim=48, position=20)
    elif name == "prefill":
        maker.matmul(positions=most, groups=4, tiles=4)
        maker.matmul(positions=most, groups=2, tiles=4)
    elif name == "decode":
        maker.matmul(positions=1, groups=6, tiles=6)
        maker.matmul(positions=1, groups=3, tiles=4)
    elif name == "decode_int4":
        maker.matmul(positions=1, groups=6, tiles=6, fmt=Format.W4A)
    else:
        raise ValueError(f"unknown scenario {name!r}")
    return maker.traffic

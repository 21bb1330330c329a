"""The machine of `docs/architecture.md`, one scalar at a time and as literally as possible.

It shares nothing with the golden machine but the arithmetic of single numbers: no layout code, no
vectors, no shortcuts. So it checks layouts, order and addressing.
"""

import struct

import numpy as np

from headrace.sw import numerics
from headrace.sw.numerics import from_bits, quantise, quantise_kv, reduce16


def _scalar(function):
    return lambda *args: function(*(np.array([arg]) for arg in args))[0]


add, exp, from_fp16, from_int, mul, rcp, rsqrt = (
    _scalar(getattr(numerics, name))
    for name in ("add", "exp", "from_fp16", "from_int", "mul", "rcp", "rsqrt"))

ZERO, ONE = np.float32(0), np.float32(1)
GELU = [np.float32(2 * np.sqrt(2 / np.pi) * factor) for factor in (1, 0.044715)]
LOWEST = np.float32(np.finfo(np.float32).min)


class PlainMachine:
    """Executes passes on an image in `memory`."""

    def __init__(self, config, memory):
        self.config, self.memory = config, memory
        self.x = np.full(config.x_words * config.lanes, np.nan, np.float32)
        self.a = np.full(config.a_words * config.rows * config.lanes, 85, np.int8)
        self.s = np.full(config.s_words, np.nan, np.float32)

    def run_pass(self, program, *, position, positions, head, logits):
        self.position, self.positions, self.write_logits = position, positions, logits
        self.results = []
        for code in program:
            if head or not code["head"]:
                self.code = code
                getattr(self, f"do_{code['op'].name.lower()}")()

    # Addresses.

    def xi(self, p, i):
        lanes = self.config.lanes
        return (self.code["x_base"] + p * self.code["x_stride"] + i // lanes) * lanes + i % lanes

    def ai(self, base, s, k):
        rows, lanes = self.config.rows, self.config.lanes
        word = base + s // rows * self.code["a_stride"] + k // lanes
        return word * rows * lanes + s % rows * lanes + k % lanes

    def f32(self, byte):
        return np.float32(struct.unpack_from("<f", self.memory, byte)[0])

    def f16(self, byte):
        return from_fp16(struct.unpack_from("<H", self.memory, byte)[0])

    def i8(self, byte):
        return struct.unpack_from("<b", self.memory, byte)[0]

    def turns(self):
        """Positions of the loop: (position to read and write X at, stream)."""
        if self.code["last_only"]:
            return [(self.positions - 1, 0)]
        return [(p, p) for p in range(self.positions)]

    # Vector unit.

    def do_embed(self):
        code = self.code
        for p in range(self.positions):
            at = code["tokens"] * 64 + 4 * (self.position + p)
            token = struct.unpack_from("<I", self.memory, at)[0]
            for i in range(code["dim"]):
                self.x[self.xi(p, i)] = self.f32(64 * (code["addr"] + token * code["pitch"])
                                                 + 4 * i)

    def put(self, s, y, group):
        for g in range(0, len(y), group):
            q, scale = quantise(np.array(y[g:g + group], np.float32), group)
            for i in range(group):
                self.a[self.ai(self.code["a_base"], s, g + i)] = q[i]
            self.s[self.code["s_base"] + s * self.code["s_stride"] + g // group] = scale[0]

    def do_norm(self):
        code = self.code
        for p, s in self.turns():
            x = [self.x[self.xi(p, i)] for i in range(code["dim"])]
            total = reduce16(np.array([mul(v, v) for v in x]))
            r = rsqrt(add(mul(total, from_bits(code["inv_dim"])), from_bits(code["eps"])))
            y = [mul(mul(v, r), self.f32(64 * code["table"] + 4 * i)) for i, v in enumerate(x)]
            self.put(s, y, 16 * code["group16"])

    def do_rms(self):
        code = self.code
        for p in range(self.positions):
            for v in range(code["vectors"]):
                places = [v * code["dim"] + i for i in range(code["dim"])]
                x = [self.x[self.xi(p, i)] for i in places]
                total = reduce16(np.array([mul(value, value) for value in x]))
                r = rsqrt(add(mul(total, from_bits(code["inv_dim"])), from_bits(code["eps"])))
                for i, (place, value) in enumerate(zip(places, x)):
                    y = mul(mul(value, r), self.f32(64 * code["table"] + 4 * i))
                    at = (self.xi(p, place)
                          + (code["y_base"] - code["x_base"]) * self.config.lanes)
                    self.x[at] = add(self.x[at], y) if code["accumulate"] else y

    def do_quant(self):
        for p, s in self.turns():
            self.put(s, [self.x[self.xi(p, i)] for i in range(self.code["dim"])],
                     16 * self.code["group16"])

    def columns(self):
        """Yield (position, tile, column of the tile, value) of the oldest results."""
        tiles = self.results.pop(0)
        for t in range(self.code["tiles"]):
            for p, s in self.turns():
                for c in range(self.config.cols):
                    yield p, t, c, tiles[t][s][c]

    def do_store(self):
        for p, t, c, f in self.columns():
            if t * self.config.cols + c < self.code["limit"]:
                self.x[self.xi(p, t * self.config.cols + c)] = f

    def do_add(self):
        for p, t, c, f in self.columns():
            if t * self.config.cols + c < self.code["limit"]:
                i = self.xi(p, t * self.config.cols + c)
                self.x[i] = add(self.x[i], f)

    def do_glu(self):
        for p, t, c, f in self.columns():
            column = t // 2 * self.config.cols + c
            if column < self.code["limit"]:
                i = self.xi(p, column)
                if t % 2 == 0:
                    u = f
                    if self.code["gelu"]:
                        u = mul(f, add(GELU[0], mul(GELU[1], mul(f, f))))
                    self.x[i] = mul(f, rcp(add(ONE, exp(-u))))
                else:
                    self.x[i] = mul(self.x[i], f)

    def do_logits(self):
        code, values = self.code, []
        tiles = self.results.pop(0)
        for column in range(code["limit"]):
            values.append(np.float32(tiles[column // self.config.cols][0]
                                     [column % self.config.cols]))
        best = 0
        for column, value in enumerate(values):
            if value > values[best]:
                best = column
            if self.write_logits:
                struct.pack_into("<f", self.memory, 64 * code["addr"] + 4 * column, value)
        struct.pack_into("<I", self.memory,
                         64 * code["tokens"] + 4 * (self.position + self.positions), best)

    def do_end(self):
        assert not self.results

    # Matmul.

    def do_matmul(self):
        code, config = self.code, self.config
        group, groups, stride = 16 * code["group16"], code["k_groups"], config.stride
        streams = 1 if code["last_only"] else self.positions
        result = np.zeros((code["tiles"], streams, config.cols), np.float32)
        end = 64 * code["addr"]
        for t in range(code["tiles"]):
            # The last tile may be narrow: one word of scales, and rows of its columns only.
            cols, width, header = config.cols, stride, 2 * stride
            if code["narrow"] and t == code["tiles"] - 1:
                cols = width = stride >> code["narrow"]
                header = stride
            for g in range(groups):
                block, end = end, end + header + group * width
                for s in range(streams):
                    act = [int(self.a[self.ai(code["a_base"], s, g * group + i)])
                           for i in range(group)]
                    act_scale = self.s[code["s_base"] + s * code["s_stride"] + g]
                    for c in range(cols):
                        total = sum(a * self.i8(block + header + i * width + c)
                                    for i, a in enumerate(act))
                        factor = mul(act_scale, self.f16(block + 2 * c))
                        result[t, s, c] = add(result[t, s, c], mul(from_int(total), factor))
        assert end - 64 * code["addr"] == code["words"] * stride
        self.results.append(result)

    # Attention.

    def rotated(self, x, p):
        code, y = self.code, []
        head_dim = code["head_dim"]
        row = 64 * self.table + 4 * head_dim * (self.position + p)
        for i in range(head_dim // 2):
            cos, sin = self.f32(row + 8 * i), self.f32(row + 8 * i + 4)
            y.append(add(mul(x[2 * i], cos), mul(x[2 * i + 1], -sin)))
            y.append(add(mul(x[2 * i + 1], cos), mul(x[2 * i], sin)))
        return np.array(y, np.float32)

    def block(self, code, b, j):
        return 64 * (code["addr"] + b * code["pitch"] + j * (code["head_dim"] + 2))

    def k_at(self, code, block, t, k):
        kn = self.config.k_cols
        return block + 128 + t // kn * code["head_dim"] * kn + k * kn + t % kn

    def v_at(self, code, block, t, d):
        vn = self.config.stride >> code["v_select"]
        return block + 128 + 32 * code["head_dim"] + d // vn * 32 * vn + t * vn + d % vn

    def do_append(self):
        code = self.code
        head_dim, heads = code["head_dim"], code["heads"]
        self.table = code["table"]
        for j in range(heads):
            for p in range(self.positions):
                k = [self.x[self.xi(p, j * head_dim + i)] for i in range(head_dim)]
                v = [self.x[self.xi(p, (heads + j) * head_dim + i)] for i in range(head_dim)]
                b, t = divmod(self.position + p, 32)
                block = self.block(code, b, j)
                for offset, at, values in ((0, self.k_at, self.rotated(k, p)),
                                           (64, self.v_at, np.array(v, np.float32))):
                    q, scale = quantise_kv(values)
                    struct.pack_into("<H", self.memory, block + offset + 2 * t, int(scale))
                    for i in range(head_dim):
                        struct.pack_into("<b", self.memory, at(code, block, t, i), int(q[i]))

    def set_bases(self, code, j, streams):
        return (code["a_base"] + j * -(-streams // self.config.rows) * code["a_stride"],
                code["s_base"] + j * streams * code["s_stride"])

    def do_rope(self):
        code = self.code
        head_dim, n_rep = code["head_dim"], code["n_rep"]
        for j in range(code["heads"]):
            a_base, s_base = self.set_bases(code, j, self.positions * n_rep)
            for p in range(self.positions):
                for h in range(n_rep):
                    begin = (j * n_rep + h) * head_dim
                    y = self.rotated([self.x[self.xi(p, begin + i)] for i in range(head_dim)], p)
                    s = p * n_rep + h
                    for g in range(0, head_dim, 32):
                        part = y[g:g + 32]
                        q, scale = quantise(part, len(part))
                        for i in range(len(part)):
                            self.a[self.ai(a_base, s, g + i)] = q[i]
                        self.s[s_base + s * code["s_stride"] + g // 32] = scale[0]

    def do_attn(self):
        code = self.code
        self.results.append([[self.attend(code, j, s)
                              for s in range(self.positions * code["n_rep"])]
                             for j in range(code["heads"])])

    def attend(self, code, j, s):
        """One stream of one K/V head: its outputs and the reciprocal of its sum."""
        head_dim = code["head_dim"]
        a_base, s_base = self.set_bases(code, j, self.positions * code["n_rep"])
        query = [int(self.a[self.ai(a_base, s, k)]) for k in range(head_dim)]
        q = self.position + s // code["n_rep"]
        m, total, acc = LOWEST, ZERO, [ZERO] * head_dim
        for b in range((self.position + self.positions + 31) // 32):
            block = self.block(code, b, j)
            scores = {}
            for t in range(32):
                if 32 * b + t > q or code["window"] and 32 * b + t <= q - code["window"]:
                    continue
                dot = ZERO
                for g in range(0, head_dim, 32):
                    integer = sum(query[k] * self.i8(self.k_at(code, block, t, k))
                                  for k in range(g, min(g + 32, head_dim)))
                    dot = add(dot, mul(from_int(integer),
                                       self.s[s_base + s * code["s_stride"] + g // 32]))
                scores[t] = mul(mul(dot, self.f16(block + 2 * t)), from_bits(code["scale"]))
            top = m
            for score in scores.values():
                top = score if score > top else top
            r = exp(add(m, -top))
            p = np.zeros(32, np.float32)
            weighted = np.zeros(32, np.float32)
            for t, score in scores.items():
                p[t] = exp(add(score, -top))
                weighted[t] = mul(p[t], self.f16(block + 64 + 2 * t))
            m, total = top, add(mul(total, r), reduce16(p))
            weights, act_scale = quantise(weighted, 32)
            for d in range(head_dim):
                integer = sum(int(weights[t]) * self.i8(self.v_at(code, block, t, d))
                              for t in range(32))
                acc[d] = add(mul(acc[d], r), mul(from_int(integer), act_scale[0]))
        return acc, rcp(total)

    def do_attn_out(self):
        code = self.code
        for j, streams in enumerate(self.results.pop(0)):
            for s, (acc, inv_sum) in enumerate(streams):
                p, h = divmod(s, code["n_rep"])
                for d in range(code["head_dim"]):
                    at = (j * code["n_rep"] + h) * code["head_dim"] + d
                    self.x[self.xi(p, at)] = mul(acc[d], inv_sum)

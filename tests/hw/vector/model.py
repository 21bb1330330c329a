"""NumPy model of the vector unit: what goes in and out for a list of instructions."""

from collections import defaultdict

import numpy as np

from headrace.hw.config import CLASSES
from headrace.hw.interfaces import AppendLayout, CommandLayout, RequestLayout
from headrace.hw.isa import Op, encode
from headrace.hw.regmap import COUNTERS
from headrace.hw.vector.logits import LinearLayout
from headrace.hw.vector.record import SingleLayout
from headrace.sw import numerics as n


EXTREMES = np.array([0, 0x80000000, 1, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                     0xff800000, 0x7fc00000, 0xffffffff, 0x3f800000, 0x42fe0000, 0xc2ff8000],
                    np.uint32)


def floats(rng, *shape, extreme=0.0):
    """Random bits of fp32 numbers, some of them extreme."""
    spread = rng.choice([1e-3, 1.0, 30.0], size=(*shape[:-1], 1))
    bits = n.as_bits((rng.normal(size=shape) * spread).astype(np.float32))
    return np.where(rng.random(shape) < extreme, rng.choice(EXTREMES, size=shape), bits)


def counter(index, snapshot):
    """Word `index` of the record in the bench."""
    return (index * 0x9e3779b1 + snapshot * 0x1234567) & 0xffffffff


def pack(values, bits=32):
    """A word of a stream: element 0 in the lowest bits."""
    return sum((int(value) & (1 << bits) - 1) << bits * i for i, value in enumerate(values))


def const(layout, **values):
    return layout.const({name: int(value) for name, value in values.items()}).as_value().value


class VectorModel:
    """Executes instructions with random results and tables.

    Attributes
    ----------
    x : uint32 array
        Elements of X.
    a, s : int8 array (words, rows, lanes), uint32 array
        Activations and scales; entries never written are garbage that the bench also starts with.
    streams : dict of str to list of int
        Payloads of each stream, in order.
    pulses : list of tuple
        Each pulse with what must have happened before: (name, count or value ...).
    source : callable or None
        Makes results and tables of a shape, instead of random numbers.
    instructions : list of tuple
        What was executed: (op, positions, fields).
    """

    def __init__(self, config, seed=1, extreme=0.02):
        self.config = config
        self.rng = np.random.default_rng(seed)
        self.extreme = extreme
        self.x = np.zeros(config.x_words * config.lanes, np.uint32)
        self.table = np.zeros(0, np.uint32)
        self.a = self.rng.integers(-128, 128, (config.a_words, config.rows, config.lanes), np.int8)
        self.s = self.rng.integers(0, 1 << 32, config.s_words, np.uint32)
        self.a_start, self.s_start = self.a.copy(), self.s.copy()
        self.streams = defaultdict(list)
        self.pulses = []
        self.a_count = self.s_count = self.passes = 0
        self.source = None
        self.instructions = []

    def run(self, op, *, position=0, positions=1, index=0, logits=0, **fields):
        """Execute one instruction.

        The last tile of results is as narrow as it can be.
        """
        if op in (Op.STORE, Op.ADD, Op.LOGITS):
            fields["narrow"] = self.config.last_tile(fields["limit"], 8)
        code = int.from_bytes(encode(op, **fields), "little")
        self.streams["commands"].append(const(
            CommandLayout, code=code, position=position, positions=positions, index=index, head=1,
            logits=logits))
        self.position, self.positions, self.index, self.logits = position, positions, index, logits
        self.f = type("Fields", (), fields)
        self.instructions.append((op, positions, fields))
        if fields.get("last_only"):
            self.turns = [(positions - 1, 0)]
        else:
            self.turns = [(p, p) for p in range(positions)]
        (self.logits_op if op == Op.LOGITS else getattr(self, op.name.lower()))()

    def floats(self, *shape):
        if self.source is not None:
            return self.source(shape)
        return floats(self.rng, *shape, extreme=self.extreme)

    def words(self, stream, bits):
        for word in np.reshape(bits, (-1, self.config.lanes)).tolist():
            self.streams[stream].append(pack(word))

    def vector(self, p, start, count):
        """Slice of X: `count` elements of position `p` from element `start`."""
        begin = (self.f.x_base + p * self.f.x_stride) * self.config.lanes + start
        return slice(begin, begin + count)

    def load(self, count):
        self.table = self.floats(count)
        self.words("tables", self.table)

    # Towards A and the cache.

    def quantise(self, y, group, stream, a_base, s_base):
        config = self.config
        *halves, scale = (n.quantise16 if self.f.act16 else n.quantise)(y, group)
        for half, q in enumerate(halves):
            word = a_base + (len(halves) * (stream // config.rows) + half) * self.f.a_stride
            word += self.a_offset
            rows = q.reshape(-1, config.lanes)
            self.a[word:word + len(rows), stream % config.rows] = rows
            self.a_count += len(rows)
        at = s_base + stream * self.f.s_stride + self.s_offset
        self.s[at:at + len(scale)] = n.as_bits(scale)
        self.s_count += len(scale)
        self.a_offset += len(rows)
        self.s_offset += len(scale)

    def post(self):
        if self.f.post_a:
            self.pulses.append(("a_ready", self.a_count, self.s_count))

    def norm(self):
        f = self.f
        self.load(f.dim)
        gains = n.from_bits(self.table)
        for p, stream in self.turns:
            x = n.from_bits(self.x[self.vector(p, 0, f.dim)])[None]
            r = n.rms_scale(x, n.from_bits([f.inv_dim]), n.from_bits([f.eps]))
            self.a_offset = self.s_offset = 0
            self.quantise(n.mul(n.mul(x[0], r), gains), 16 * f.group16, stream, f.a_base, f.s_base)
        self.post()

    def rms(self):
        f = self.f
        self.load(f.dim)
        gains = n.from_bits(self.table)
        for p in range(self.positions):
            for v in range(f.vectors):
                place = self.vector(p, v * f.dim, f.dim)
                x = n.from_bits(self.x[place])[None]
                r = n.rms_scale(x, n.from_bits([f.inv_dim]), n.from_bits([f.eps]))
                y = n.mul(n.mul(x[0], r), gains)
                shift = (f.y_base - f.x_base) * self.config.lanes
                target = slice(place.start + shift, place.stop + shift)
                if f.accumulate:
                    y = n.add(n.from_bits(self.x[target]), y)
                self.x[target] = n.as_bits(y)

    def quant(self):
        f = self.f
        for p, stream in self.turns:
            self.a_offset = self.s_offset = 0
            self.quantise(n.from_bits(self.x[self.vector(p, 0, f.dim)]), 16 * f.group16, stream,
                          f.a_base, f.s_base)
        self.post()

    def rotated(self, x, p):
        hd = self.f.head_dim
        x, table = n.from_bits(x), n.from_bits(self.table[p * hd:(p + 1) * hd])
        cos, sin = table[0::2], table[1::2]
        y = np.empty(hd, np.float32)
        y[0::2] = n.add(n.mul(x[0::2], cos), n.mul(x[1::2], -sin))
        y[1::2] = n.add(n.mul(x[1::2], cos), n.mul(x[0::2], sin))
        return y

    def rope(self):
        f = self.f
        streams = self.positions * f.n_rep
        for j in range(f.heads):
            sets = -(-streams // self.config.rows) * (1 + f.act16)
            a_base = f.a_base + j * sets * f.a_stride
            s_base = f.s_base + j * streams * f.s_stride
            for stream in range(streams):
                p, h = divmod(stream, f.n_rep)
                x = self.x[self.vector(p, (j * f.n_rep + h) * f.head_dim, f.head_dim)]
                y = self.rotated(x, p)
                self.a_offset = self.s_offset = 0
                for start in range(0, f.head_dim, 32):
                    part = y[start:start + 32]
                    self.quantise(part, len(part), stream, a_base, s_base)
        self.post()

    def append(self):
        f = self.f
        hd = f.head_dim
        self.load(hd * self.positions)
        for j in range(f.heads):
            for p in range(self.positions):
                block, token = divmod(self.position + p, 32)
                key = self.rotated(self.x[self.vector(p, j * hd, hd)], p)
                value = n.from_bits(self.x[self.vector(p, (f.heads + j) * hd, hd)])
                for kind, vector in enumerate((key, value)):
                    q, scale = n.quantise_kv(vector[None])
                    self.streams["append"].append(const(
                        AppendLayout, addr=f.addr + block * f.pitch + j * (hd + 2), token=token,
                        value=kind, head_dim=hd, v_select=f.v_select, scale=scale[0]))
                    for word in q.reshape(-1, self.config.lanes).tolist():
                        self.streams["append_data"].append(pack(word, 8))
        self.pulses.append(("appended", len(self.streams["append_data"])))

    # From the matmul unit.

    def results(self, count, *, row_scale=None):
        """`count` words of one row of results."""
        values = self.floats(count, self.config.lanes)
        scale = 0x3f800000 if row_scale is None else row_scale
        for word in values.tolist():
            self.streams["results"].append(pack([*word, scale]))
        return values.reshape(-1)

    def tile_words(self, tile):
        """Words of a row of results in a tile."""
        narrow = getattr(self.f, "narrow", 0)
        if narrow and tile == self.f.tiles - 1:
            return (self.config.stride >> narrow) // self.config.lanes
        return self.config.col_words

    def columns(self, update):
        """`update(tile, x, f)` gives the bits of new elements of X."""
        for tile in range(self.f.tiles):
            for p, _ in self.turns:
                values = self.results(self.tile_words(tile))
                start = self.place(tile) * self.config.cols
                keep = max(0, min(len(values), self.f.limit - start))
                at = self.vector(p, start, keep)
                self.x[at] = update(tile, self.x[at], values[:keep])

    def place(self, tile):
        return tile

    def store(self):
        self.columns(lambda tile, x, f: f)

    def add(self):
        self.columns(lambda tile, x, f: n.as_bits(n.add(n.from_bits(x), n.from_bits(f))))

    def glu(self):
        self.place = lambda tile: tile // 2
        self.columns(lambda tile, x, f: n.as_bits(
            n.mul(n.from_bits(x), n.from_bits(f)) if tile % 2
            else (n.gelu if self.f.gelu else n.silu)(n.from_bits(f))))
        del self.place

    def attn_out(self):
        f, config = self.f, self.config
        vn = config.stride >> f.v_select
        scales = self.floats(f.heads, self.positions * f.n_rep, 1)
        for j in range(f.heads):
            for t in range(f.v_tiles):
                for stream in range(self.positions * f.n_rep):
                    p, h = divmod(stream, f.n_rep)
                    scale = scales[j, stream, 0]
                    values = self.results(vn // config.lanes, row_scale=scale)
                    at = self.vector(p, (j * f.n_rep + h) * f.head_dim + t * vn, vn)
                    self.x[at] = n.as_bits(n.mul(n.from_bits(values), n.from_bits([scale])))

    # From and to memory.

    def embed(self):
        f, config = self.f, self.config
        tokens = self.rng.integers(0, 1 << 17, self.positions).tolist()
        asked = [[], []]
        for p, token in enumerate(tokens):
            asked[0].append((f.tokens * 64 + 4 * (self.position + p), 4, "activations",
                             [[token, *self.rng.integers(0, 1 << 32, config.lanes - 1).tolist()]]))
            row = self.floats(f.dim)
            self.x[self.vector(p, 0, f.dim)] = row
            asked[1].append((64 * (f.addr + token * f.pitch), 4 * f.dim, "tables",
                             row.reshape(-1, config.lanes).tolist()))
        order = [asked[0][0]]
        for p in range(self.positions):
            order += [*asked[0][p + 1:p + 2], asked[1][p]]
        for addr, count, name, answer in order:
            self.streams["requests"].append(const(
                RequestLayout, addr=addr, bytes=count, cls=CLASSES.index(name)))
            self.streams["request_data"] += [pack(word) for word in answer]


    def logits_op(self):
        f, config = self.f, self.config
        values = np.concatenate([self.results(self.tile_words(t)) for t in range(f.tiles)])
        kept = n.from_bits(values[:f.limit])
        best = 0
        for column in range(1, f.limit):
            if kept[column] > kept[best]:
                best = column
        if self.logits:
            self.streams["linear"].append(const(LinearLayout, addr=f.addr, elems=f.limit))
            self.words("linear_data", values[:-(-f.limit // config.lanes) * config.lanes])
        self.streams["single"].append(const(
            SingleLayout, addr=64 * f.tokens + 4 * (self.position + self.positions), data=best))
        self.pulses.append(("token_stb", best))

    def end(self):
        for index in range(2 * len(COUNTERS)):
            self.streams["single"].append(const(
                SingleLayout, addr=64 * self.f.addr + 256 * self.index + 4 * index,
                data=counter(index, self.passes)))
        self.pulses.append(("pass_done", len(self.streams["single"])))
        self.passes += 1




def program(model, name):
    """Instructions of a test."""
    return PROGRAMS[name](model)


FP = {"inv_dim": int(n.as_bits(np.float32(1 / 50))), "eps": int(n.as_bits(np.float32(1e-5)))}


def fill(model):
    """Garbage in X and in the tables: NaN, infinities and random numbers."""
    config = model.config
    keep, model.extreme = model.extreme, 0.6
    tiles = config.x_words * config.lanes // config.cols
    model.run(Op.STORE, last_only=0, limit=tiles * config.cols, x_base=0, x_stride=0, tiles=tiles)
    model.run(Op.NORM, act16=0, post_a=0, last_only=0, group16=1,
              dim=min(config.table_elems, 64), x_base=0, x_stride=0, a_base=0, a_stride=1,
              s_base=0, s_stride=1, table=0, **FP)
    model.extreme = keep


def layer(model, *, positions, position, heads, n_rep, head_dim, dim, ffn, last=False, passes=1):
    """One layer, the embedding before and the vocabulary after it."""
    config = model.config
    lanes = config.lanes
    group16 = 2 if dim % 32 == 0 else 1
    rng = model.rng
    tile = config.cols

    def tiles(columns):
        return -(-columns // tile)

    qkv = (heads * n_rep + 2 * heads) * head_dim
    attn = heads * n_rep * head_dim
    # Regions of X: residual, q k v, and whatever comes after attention.
    x = {"x_base": 3, "x_stride": dim // lanes + 1}
    y_words = max(qkv, attn, -(-ffn // 32) * 32) // lanes
    y_base = 3 + positions * (dim // lanes + 1)
    y = {"x_base": y_base, "x_stride": y_words}
    kv = {"x_base": y_base + heads * n_rep * head_dim // lanes, "x_stride": y_words}
    assert y_base + positions * y_words <= config.x_words
    a = {"a_base": 2, "a_stride": max(dim, attn, -(-ffn // 32) * 32, head_dim) // lanes + 1,
         "s_base": 1, "s_stride": max(dim, attn, ffn + 31) // 16 + 1}
    hd = {"heads": heads, "n_rep": n_rep, "head_dim": head_dim}
    vn = config.v_cols(head_dim)
    v = {"v_select": config.sub_select(vn), "v_tiles": head_dim // vn}
    table = 0
    for index in range(passes):
        scalars = {"position": position, "positions": positions, "index": index,
                   "logits": int(index % 2 == 0)}

        def run(op, scalars=scalars, **fields):
            model.run(op, **scalars, **fields)

        run(Op.EMBED, dim=dim, pitch=dim // 16 + 1, addr=int(rng.integers(0, 1 << 30)),
            tokens=int(rng.integers(0, 1 << 30)), **x)
        run(Op.NORM, act16=0, post_a=1, last_only=0, group16=group16, dim=dim, table=table, **x,
            **a, **FP)
        run(Op.STORE, last_only=0, limit=qkv, tiles=tiles(qkv), **y)
        # Queries and keys as one, in their place; then onto the residual stream.
        run(Op.RMS, accumulate=0, dim=head_dim, y_base=y["x_base"], vectors=heads * (n_rep + 1),
            table_base=positions * head_dim // lanes, table=table, **y, **FP)
        if x["x_stride"] == dim // lanes + 1 and y_words > dim // lanes + 1:
            run(Op.RMS, accumulate=1, dim=dim, x_base=y_base, x_stride=x["x_stride"],
                y_base=x["x_base"], vectors=1, table_base=0, table=table, **FP)
        run(Op.APPEND, pitch=int(rng.integers(1, 1 << 16)), addr=int(rng.integers(0, 1 << 24)),
            table=table, **v, **kv, **hd)
        run(Op.ROPE, act16=0, post_a=1, **y, **a, **hd)
        run(Op.ATTN_OUT, **v, **y, **hd)
        flag = int(last)
        run(Op.QUANT, act16=0, post_a=1, last_only=flag, group16=2 if attn % 32 == 0 else 1,
            dim=attn, **y, **a)
        run(Op.ADD, last_only=flag, limit=dim, tiles=tiles(dim), **x)
        run(Op.NORM, act16=0, post_a=1, last_only=flag, group16=group16, dim=dim, table=table, **x,
            **a, **FP)
        run(Op.GLU, last_only=flag, gelu=index % 2, limit=ffn, tiles=2 * tiles(ffn), **y)
        run(Op.QUANT, act16=0, post_a=1, last_only=flag, group16=2, dim=-(-ffn // 32) * 32, **y,
            **a)
        run(Op.ADD, last_only=flag, limit=dim, tiles=tiles(dim), **x)
        room = a["a_base"] + 2 * a["a_stride"] <= config.a_words
        run(Op.NORM, act16=int(room), post_a=0, last_only=1, group16=group16, dim=dim, table=table,
            **x, **a, **FP)
        limit = 2 * tile + 3
        run(Op.LOGITS, limit=limit, addr=int(rng.integers(0, 1 << 32)), tiles=tiles(limit),
            tokens=int(rng.integers(0, 1 << 30)))
        run(Op.END, addr=int(rng.integers(0, 1 << 32)))
        position += positions


def special(model):
    """Values at the edges of quantisation, activation functions and arg-max; groups of all sizes.

    Zeros, subnormals, values whose fp16 scale is subnormal, zero or too large, infinities, NaN.
    """
    config = model.config
    lanes, rng = config.lanes, model.rng
    hd = 48
    columns = 4 * hd
    tiles = -(-columns // config.cols)
    words = columns // lanes
    x = {"x_base": 1, "x_stride": words + 1}
    a = {"a_base": 0, "a_stride": words, "s_base": 3, "s_stride": columns // 16}
    hds = {"heads": 1, "n_rep": 2, "head_dim": hd}
    vn = config.v_cols(hd)
    v = {"v_select": config.sub_select(vn), "v_tiles": hd // vn}
    limit = 3 * config.cols - 1

    def mixed(shape):
        return floats(rng, *shape, extreme=0.3)

    def scaled(factor):
        return lambda shape: n.as_bits(rng.normal(size=shape).astype(np.float32)
                                       * np.float32(factor))

    def sparse(shape):
        bits = scaled(1)(shape)
        return np.where(rng.random((*shape[:-1], 1)) < 0.8, 0, bits)

    def chosen(*values):
        table = np.array(values, np.uint32)
        return lambda shape: rng.choice(table, size=shape)

    sources = [chosen(0, 0x80000000), chosen(0, 1, 0x80000001), chosen(0x7fc00000, 0xff800001),
               chosen(0xff800000, 0x7f800000, 0x3f800000), chosen(0xff800000, 0xff7fffff),
               scaled(1e-7), scaled(3e-9), scaled(1e9), scaled(1e37), scaled(50), mixed, sparse]
    # Few lanes take many cycles: each of the two smallest numbers of lanes gets half.
    for index, source in enumerate(sources[lanes - 1::2] if lanes < 4 else sources):
        model.source = source
        scalars = {"position": int(rng.integers(0, 100)), "positions": 1 + index % 3,
                   "logits": index % 2}
        flag = index % 2
        model.run(Op.STORE, last_only=0, limit=columns, tiles=tiles, **x, **scalars)
        for group16 in range(1, config.group // 16 + 1):
            model.run(Op.QUANT, act16=0, post_a=1, last_only=flag, group16=group16,
                      dim=32 * group16, **x, **a, **scalars)
        model.run(Op.APPEND, pitch=5, addr=7, table=0, **v, **x, **hds, **scalars)
        model.source = None
        model.run(Op.NORM, act16=0, post_a=1, last_only=0, group16=1, dim=hd, table=0, **x, **a,
                  **FP, **scalars)
        for accumulate in (0, 1):
            model.run(Op.RMS, accumulate=accumulate, dim=hd, y_base=x["x_base"] + 2 * hd // lanes,
                      vectors=2, table_base=1, table=0, **x, **FP, **scalars)
        model.run(Op.APPEND, pitch=3, addr=2, table=0, **v, **x, **hds, **scalars)
        model.run(Op.ROPE, act16=0, post_a=0, **x, **a, **hds, **scalars)
        model.source = source
        model.run(Op.ADD, last_only=flag, limit=columns, tiles=tiles, **x, **scalars)
        # A last tile of one word; the only one, and behind a full one.
        model.run(Op.STORE, last_only=flag, limit=lanes, tiles=1, **x, **scalars)
        model.run(Op.ADD, last_only=0, limit=config.cols + lanes, tiles=2, **x, **scalars)
        for gelu in (0, 1):
            model.run(Op.GLU, last_only=flag, gelu=gelu, limit=columns, tiles=2 * tiles, **x,
                      **scalars)
        model.run(Op.ATTN_OUT, **v, **x, **hds, **scalars)
        for first in (False, True):
            if first:
                def behind_nan(shape, source=source):
                    values = source(shape)
                    values[0] = 0x7fc00000
                    return values
                model.source = behind_nan
            model.run(Op.LOGITS, limit=limit, addr=9, tiles=3, tokens=1, **scalars)
        model.source = None


PROGRAMS = {
    "special": lambda model: [fill(model), special(model)],
    # A prompt that crosses a block of the cache, then one position.
    "small": lambda model: [
        fill(model),
        layer(model, positions=3, position=30, heads=2, n_rep=2, head_dim=16, dim=48, ffn=64),
        layer(model, positions=1, position=33, heads=2, n_rep=2, head_dim=16, dim=48, ffn=64,
              passes=2),
    ],
    "wide": lambda model: [
        fill(model),
        layer(model, positions=4, position=62, heads=1, n_rep=3, head_dim=48, dim=64, ffn=96,
              last=True),
        layer(model, positions=1, position=0, heads=1, n_rep=1, head_dim=64, dim=32, ffn=32),
    ],
}

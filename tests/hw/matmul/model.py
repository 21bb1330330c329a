"""NumPy model of the matmul unit: arithmetic, order, and packing of what goes in and out.

The numbers are computed on matrices and packed afterwards; nothing here knows passes, rings or
pipelines.
"""

from dataclasses import dataclass, field

import numpy as np

from headrace.hw.config import KV_BLOCK
from headrace.hw.isa import Format, Op, encode
from headrace.sw.numerics import add, as_bits, from_fp16, from_int, low_scale, mul


ONE = np.float32(1)


@dataclass
class Traffic:
    """What goes into and comes out of the unit, in order."""

    commands: list = field(default_factory=list)     # (code, position, positions)
    weights: list = field(default_factory=list)      # words of the ring
    activations: list = field(default_factory=list)  # per command: (writes of A, writes of scales)
    results: list = field(default_factory=list)      # (bits of a word of lanes, row_scale)
    scores: list = field(default_factory=list)       # bits of a word of lanes
    blocks: list = field(default_factory=list)       # fields of BlockLayout
    probabilities: list = field(default_factory=list)   # per block: (P writes, factor writes)
    block_scores: list = field(default_factory=list)    # score words of each block
    macs: int = 0
    scale_bytes: int = 0
    busy: int = 0                                    # cycles of streaming


def accumulate(acc, q, act_scale, w, w_scale=ONE, rescale=ONE, w_min=None):
    """One group: `q[s, k]`, `act_scale[s]`, `w[k, n]`, `w_scale[n]`; `acc` None for +0."""
    total = q.astype(np.int64) @ w.astype(np.int64)
    scale = np.asarray(act_scale, np.float32)[:, None]
    term = mul(from_int(total), mul(scale, w_scale))
    start = np.float32(0) if acc is None else acc
    acc = add(mul(start, np.asarray(rescale, np.float32).reshape(-1, 1)), term)
    if w_min is not None:
        act_sum = mul(scale, from_int(q.astype(np.int64).sum(axis=1, keepdims=True)))
        acc = add(acc, mul(act_sum, w_min))
    return acc


def pack(values, bits):
    """Integers, the first in the low bits, as one integer."""
    word = 0
    for i, value in enumerate(values):
        word |= (int(value) & (1 << bits) - 1) << bits * i
    return word


def array_cycles(config, q, w, rng):
    """A pass ``q[r, k]``, ``w[k, n]`` as the array takes it, and what leaves.

    Returns
    -------
    cycles : list of (activations, weights)
        Flat lists; what is not used is random.
    sums : list of list
        Per row the sums of those columns that are used, then that of the activations.
    """
    k, n = w.shape
    fold = config.fold(n) if n < config.cols else 1
    steps = k // fold
    acts = rng.integers(-128, 128, (steps, config.rows, config.folds))
    acts[:, :, :fold] = q.reshape(len(q), steps, fold).swapaxes(0, 1)
    weights = rng.integers(-128, 128, (steps, config.cols))
    weights[:, :fold * n] = w.reshape(steps, fold * n)
    groups = [q[:, j::fold] @ w[j::fold] for j in range(fold)]
    sums = np.concatenate([*groups, q.sum(axis=1, keepdims=True)], axis=1)
    return ([(a.ravel().tolist(), b.tolist()) for a, b in zip(acts & 255, weights & 255)],
            sums.tolist())


def lane_words(config, rows):
    """Words of `lanes` values of each row of fp32 numbers."""
    return [pack(bits, 32) for row in rows
            for bits in as_bits(row).reshape(-1, config.lanes).tolist()]


def byte_words(config, data):
    """Words of the ring that hold these bytes."""
    data = np.frombuffer(data.tobytes(), np.uint8)
    assert data.size % config.stride == 0
    return [int.from_bytes(word.tobytes(), "little") for word in data.reshape(-1, config.stride)]


def activation_writes(config, q, a_base, a_stride):
    """Writes of A ``(addr, row, data)`` for streams `q[s, k]`."""
    lanes = config.lanes
    return [(a_base + s // config.rows * a_stride + k // lanes, s % config.rows,
             pack(row[k:k + lanes], 8))
            for s, row in enumerate(q) for k in range(0, len(row), lanes)]


def scale_writes(scales, s_base, s_stride):
    """Writes of activation scales ``(addr, bits)`` for `scales[s, g]`."""
    return [(s_base + s * s_stride + g, int(bits))
            for s, row in enumerate(as_bits(scales)) for g, bits in enumerate(row)]


def pack_weights(config, w, w_scale, w_min, fmt):
    """Words of a block `w[k, n]` with its header; with fewer columns than the array, narrow."""
    cols = w.shape[1]
    stride, slots = config.stride, config.stride
    if cols < config.cols:
        stride, slots = cols, slots // 2
    parts = []
    for part in (w_scale, w_min) if fmt == Format.W4A else (w_scale,):
        header = np.zeros(slots, np.uint16)
        header[:cols] = part
        parts.append(header.view(np.uint8))
    if fmt == Format.W8:
        body = np.zeros((len(w), stride), np.uint8)
        body[:, :cols] = w.astype(np.int8).view(np.uint8)
        parts.append(body.ravel())
    else:
        nibbles = np.zeros((len(w), stride), np.uint8)
        nibbles[:, :cols] = w & 15
        pairs = nibbles.reshape(-1, 2)
        parts.append((pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8))
    return byte_words(config, np.concatenate(parts))


def add_matmul(traffic, config, *, q, act_scale, w, w_scale, w_min, group, fmt, a_base, s_base,
               last_only, positions, position=0, wait_a=1, q_low=None):
    """Append a MATMUL of `q[s, k]`, `w[k, n]`, `w_scale[g, n]`; a rest of columns is narrow.

    With `q_low[s, k]` the activations have 16 bits, and `q` is their high halves.
    """
    streams, k = q.shape
    cols = config.cols
    last = w.shape[1] % cols
    narrow = config.sub_select(last) if last else 0
    groups, tiles = k // group, -(-w.shape[1] // cols)
    a_stride, s_stride = k // config.lanes, groups
    halves = [q] if q_low is None else [q, q_low]
    writes = ([write for index, half in enumerate(halves)
               for write in activation_writes(config, half, a_base + index * a_stride,
                                              len(halves) * a_stride)],
              scale_writes(act_scale, s_base, s_stride))
    words = []
    for tile in range(tiles):
        n = slice(tile * cols, (tile + 1) * cols)
        acc = None
        for g in range(groups):
            rows = slice(g * group, (g + 1) * group)
            affine = w_min[g, n] if fmt == Format.W4A else None
            words += pack_weights(config, w[rows, n], w_scale[g, n], affine, fmt)
            for half, scale in zip(halves, (act_scale, low_scale(act_scale))):
                acc = accumulate(acc, half[:, rows], scale[:, g], w[rows, n],
                                 from_fp16(w_scale[g, n]),
                                 w_min=None if affine is None else from_fp16(affine))
        traffic.results += [(word, int(as_bits(ONE))) for word in lane_words(config, acc)]
    code = encode(Op.MATMUL, wait_a=wait_a, last_only=last_only, group16=group // 16, fmt=int(fmt),
                  narrow=narrow, halves=len(halves) - 1,
                  k_groups=groups, a_base=a_base, a_stride=a_stride, s_base=s_base,
                  s_stride=s_stride, addr=0, words=len(words), tiles=tiles)
    traffic.commands.append((code, position, positions))
    traffic.activations.append(writes)
    traffic.weights += words
    sets = -(-streams // config.rows) * len(halves)
    traffic.macs += streams * k * w.shape[1]
    traffic.busy += sets * (k * (tiles - (last > 0)) + (k // config.fold(last) if last else 0))
    traffic.scale_bytes += (groups * (2 * tiles - (last > 0)) * config.stride
                            * (2 if fmt == Format.W4A else 1))


def add_attn(traffic, config, *, q, act_scale, k, v, p, factors, position, positions, n_rep, scale,
             a_base, s_base, window=0):
    """Append an ATTN.

    Arrays are indexed `q[head, s, hd]`, `act_scale[head, s, g]`, `k[head, token, hd]`,
    `v[head, token, hd]`, `p[head, s, token]`, `factors[head, block, 3, s]` (act_scale, rescale,
    inv_sum).
    """
    heads, streams, hd = q.shape
    rows, lanes = config.rows, config.lanes
    blocks = -(-(position + positions) // KV_BLOCK)
    begin = max(0, position + 1 - window) // KV_BLOCK if window else 0
    groups = -(-hd // KV_BLOCK)
    kn, vn = config.k_cols, config.v_cols(hd)
    sets = -(-streams // rows)
    a_stride, s_stride = hd // lanes, groups
    writes = ([], [])
    sequence = [(head, block) for head in range(heads) for block in range(begin, blocks)]
    acc = None

    def stream_k(head, block):
        tokens = k[head, block * KV_BLOCK:(block + 1) * KV_BLOCK]
        traffic.blocks.append({
            "block": block, "first": int(block == begin), "last": int(block == blocks - 1),
            "streams": streams, "n_rep": n_rep, "position": position, "window": window,
            "scale": int(as_bits(scale))})
        words = []
        for tile in range(0, KV_BLOCK, kn):
            total = None
            traffic.weights.extend(byte_words(config, np.ascontiguousarray(
                tokens[tile:tile + kn].T)))
            for g in range(groups):
                part = slice(g * KV_BLOCK, min((g + 1) * KV_BLOCK, hd))
                total = accumulate(total, q[head][:, part], act_scale[head][:, g],
                                   tokens[tile:tile + kn, part].T)
            words += lane_words(config, total)
        traffic.scores.extend(words)
        traffic.block_scores.append(len(words))
        part = p[head][:, block * KV_BLOCK:(block + 1) * KV_BLOCK]
        traffic.probabilities.append((
            activation_writes(config, part, 0, KV_BLOCK // lanes),
            [(s, pack(as_bits(factors[head, block, :, s]).tolist(), 32))
             for s in range(streams)]))
        for s in range(streams):
            count = position + s // n_rep + 1 - KV_BLOCK * block
            behind = count - window if window else 0
            seen = [min(max(number, 0), KV_BLOCK) for number in (count, behind)]
            traffic.macs += 2 * (seen[0] - seen[1]) * hd

    def stream_v(head, block):
        nonlocal acc
        tokens = v[head, block * KV_BLOCK:(block + 1) * KV_BLOCK]
        part = p[head][:, block * KV_BLOCK:(block + 1) * KV_BLOCK]
        act, rescale, inv_sum = factors[head, block]
        for tile in range(0, hd, vn):
            traffic.weights.extend(byte_words(config, np.ascontiguousarray(
                tokens[:, tile:tile + vn])))
        acc = accumulate(None if block == begin else acc, part, act, tokens, rescale=rescale)
        if block == blocks - 1:
            for tile in range(0, hd, vn):
                for s in range(streams):
                    traffic.results.extend(
                        (word, int(as_bits(inv_sum[s])))
                        for word in lane_words(config, acc[s:s + 1, tile:tile + vn]))

    for head in range(heads):
        writes[0].extend(activation_writes(config, q[head], a_base + head * sets * a_stride,
                                           a_stride))
        writes[1].extend(scale_writes(act_scale[head], s_base + head * streams * s_stride,
                                      s_stride))
    for i, place in enumerate(sequence):
        stream_k(*place)
        if i >= config.attn_lead:
            stream_v(*sequence[i - config.attn_lead])
    for place in sequence[-config.attn_lead:]:
        stream_v(*place)

    code = encode(Op.ATTN, wait_a=1, v_select=config.sub_select(vn), v_tiles=hd // vn, pitch=0,
                  window=window, halves=0,
                  a_base=a_base, a_stride=a_stride, s_base=s_base, s_stride=s_stride, addr=0,
                  heads=heads, n_rep=n_rep, head_dim=hd, scale=int(as_bits(scale)))
    traffic.commands.append((code, position, positions))
    traffic.activations.append(writes)
    length = (hd * (KV_BLOCK // kn) // config.fold(kn)
              + KV_BLOCK * (hd // vn) // config.fold(vn))
    traffic.busy += len(sequence) * sets * length

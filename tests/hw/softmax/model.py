"""NumPy model of the softmax pipeline, and random work for it."""

from dataclasses import dataclass

import numpy as np

from headrace.hw.formats import LOWEST_BITS
from headrace.sw.numerics import (
    add,
    as_bits,
    exp,
    from_bits,
    from_fp16,
    mul,
    quantise,
    rcp,
    reduce16,
)


@dataclass
class Block:
    """One block: the fields of `BlockLayout`, `scores[s, t]` and fp16 bits of the scales."""

    fields: dict
    scores: np.ndarray
    k_scales: np.ndarray
    v_scales: np.ndarray


def make_run(rng, *, heads, streams, n_rep, position, wild=False, window=0):
    """Blocks of one ATTN instruction, with garbage wherever a token is masked."""
    positions = -(-streams // n_rep)
    count = -(-(position + positions) // 32)
    begin = max(0, position + 1 - window) // 32 if window else 0
    scale = int(as_bits(np.float32(rng.uniform(0.05, 0.5))))
    blocks = []
    for _head in range(heads):
        for index in range(begin, count):
            scores = rng.normal(0, 300, (streams, 32)).astype(np.float32)
            k_scales = rng.uniform(0.001, 0.1, 32).astype(np.float16).view(np.uint16)
            v_scales = rng.uniform(0.001, 2, 32).astype(np.float16).view(np.uint16)
            if wild:
                k_scales[rng.integers(0, 32, 3)] = [0, 1, 0x7bff]
                v_scales[rng.integers(0, 32, 3)] = [0, 1, 0x7bff]
                scores[rng.random(scores.shape) < 0.1] *= np.float32(1e30)
                scores[rng.random(scores.shape) < 0.1] = 0
            token = 32 * index + np.arange(32)
            own = position + np.arange(streams) // n_rep
            masked = ~_seen(token, own, window)
            garbage = rng.integers(0, 1 << 32, scores.shape, dtype=np.uint32)
            garbage[rng.random(scores.shape) < 0.5] = 0xffffffff
            scores = np.where(masked, from_bits(garbage), scores)
            nobody = masked.all(axis=0)
            k_scales[nobody] = 0xffff
            v_scales[nobody] = 0x7e55
            fields = {"block": index, "first": int(index == begin), "last": int(index == count - 1),
                      "streams": streams, "n_rep": n_rep, "position": position, "scale": scale,
                      "window": window}
            blocks.append(Block(fields, scores, k_scales, v_scales))
    return blocks


def _seen(token, own, window):
    """Which tokens the streams at positions `own` see: ``[stream, token]``."""
    distance = own[:, None] - token
    return (distance >= 0) & ((distance < window) | (window == 0))


def expected(blocks):
    """For each block: q[s, t], act_scale, rescale and inv_sum bits of each stream."""
    results = []
    for block in blocks:
        f = block.fields
        streams = f["streams"]
        if f["first"]:
            top = np.full(streams, from_bits(LOWEST_BITS))
            total = np.zeros(streams, np.float32)
        own = f["position"] + np.arange(streams) // f["n_rep"]
        seen = _seen(32 * f["block"] + np.arange(32), own, f["window"])
        s = mul(mul(block.scores, from_fp16(block.k_scales)), from_bits(f["scale"]))
        new = top
        for t in range(32):
            with np.errstate(invalid="ignore"):
                new = np.where(seen[:, t] & (s[:, t] > new), s[:, t], new)
        rescale = exp(add(top, -new))
        p = np.where(seen, exp(add(s, -new[:, None])), np.float32(0))
        total = add(mul(total, rescale), reduce16(p))
        weighted = np.where(seen, mul(p, from_fp16(block.v_scales)), np.float32(0))
        q, act_scale = quantise(weighted)
        results.append((q, as_bits(act_scale[:, 0]), as_bits(rescale), as_bits(rcp(total))))
        top = new
    return results

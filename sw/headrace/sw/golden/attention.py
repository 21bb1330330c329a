"""Attention over the blocks of the cache, with online softmax."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN, KV_BLOCK
from headrace.hw.formats import LOWEST_BITS

from ..layout import CacheLayout
from ..numerics import add, exp, from_bits, from_fp16, mul, quantise, quantise_kv, rcp, reduce16
from .matmul import accumulate, exact_sums
from .state import Results, State


__all__ = ["append", "attention", "rotate"]


def rotate(x: NDArray[np.float32], rope: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn pairs of ``x[position, head, element]`` by ``rope[position, pair, (cos, sin)]``."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    even, odd = pairs[..., 0], pairs[..., 1]
    cos, sin = rope[:, None, :, 0], rope[:, None, :, 1]
    result = np.empty_like(pairs)
    result[..., 0] = add(mul(even, cos), mul(odd, -sin), clean=True)
    result[..., 1] = add(mul(odd, cos), mul(even, sin), clean=True)
    return result.reshape(x.shape)


def _layout(state: State, code: Mapping[str, int]) -> CacheLayout:
    heads, head_dim = code["heads"], code["head_dim"]
    return CacheLayout(layers=code["pitch"] // (heads * (head_dim + 2)), kv_heads=heads,
                       head_dim=head_dim, k_cols=state.config.k_cols,
                       v_cols=state.config.stride >> code["v_select"])


def _blocks(state: State, code: Mapping[str, int], count: int, *, write: bool, first: int = 0
            ) -> tuple[CacheLayout, NDArray[np.uint8]]:
    layout = _layout(state, code)
    count -= first
    size = ((count - 1) * code["pitch"] + code["heads"] * layout.block_units) * ALIGN
    begin = state.span(code["addr"] + first * code["pitch"], size, write=write)
    return layout, layout.blocks(state.memory, begin, count)


def append(state: State, code: Mapping[str, int], position: int, positions: int
           ) -> dict[str, NDArray]:
    """Execute APPEND: rotate keys, quantise, write both to the cache."""
    heads, head_dim = code["heads"], code["head_dim"]
    rows = state.floats(code["table"], head_dim * positions, offset=4 * head_dim * position)
    state.rope = rows.reshape(positions, head_dim // 2, 2)
    x = state.vectors(code, positions, 2 * heads * head_dim).reshape(positions, 2, heads, head_dim)
    k, k_scale = quantise_kv(rotate(x[:, 0], state.rope))
    v, v_scale = quantise_kv(x[:, 1])
    layout, blocks = _blocks(state, code, -(-(position + positions) // KV_BLOCK), write=True)
    k_bytes = np.array([layout.k_offset(i, 0) for i in range(head_dim)])
    v_bytes = np.array([layout.v_offset(i, 0) for i in range(head_dim)])
    for index in range(positions):
        block, token = divmod(position + index, KV_BLOCK)
        target = blocks[block]
        for offset, scale in ((2 * token, k_scale), (2 * (KV_BLOCK + token), v_scale)):
            target[:, offset:offset + 2] = scale[index].astype("<u2")[:, None].view(np.uint8)
        target[:, k_bytes + layout.k_offset(0, token) - k_bytes[0]] = k[index].view(np.uint8)
        target[:, v_bytes + token * layout.v_cols] = v[index].view(np.uint8)
    return {"k": k, "k_scale": k_scale, "v": v, "v_scale": v_scale}


def _scores(state: State, code: Mapping[str, int], keys: NDArray[np.int8], streams: int
            ) -> NDArray[np.float32]:
    """Accumulated ``q . k`` of ``[head, block, stream, token]``, groups of 32 along the head."""
    head_dim = code["head_dim"]
    bounds = [(at, min(at + KV_BLOCK, head_dim)) for at in range(0, head_dim, KV_BLOCK)]
    sets = [state.activations(code, streams, head_dim, len(bounds), index)
            for index in range(code["heads"])]
    q = np.stack([pair[0] for pair in sets]).astype(np.float32)[:, None]
    act_scale = np.stack([pair[1] for pair in sets])[:, None]
    k = keys.swapaxes(0, 1).astype(np.float32)
    terms = []
    for index, (low, high) in enumerate(bounds):
        both = mul(exact_sums(q[..., low:high], k[..., low:high, :]),
                   act_scale[..., index:index + 1], clean=True)
        # All high halves, then all low ones.
        terms += [both[..., at:at + streams, :] for at in range(0, both.shape[-2], streams)]
    return accumulate(np.stack(terms))


def _running_max(scores: NDArray[np.float32], keep: NDArray[np.bool_]
                 ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Maximum before and after each block, ``[head, block, stream]``. NaN never wins."""
    blocks = np.fmax.reduce(np.where(keep, scores, np.float32(-np.inf)), axis=-1)
    before, after = np.empty_like(blocks), np.empty_like(blocks)
    m = np.full(blocks[:, 0].shape, from_bits(LOWEST_BITS), np.float32)
    for index in range(blocks.shape[1]):
        before[:, index] = m
        m = np.where(blocks[:, index] > m, blocks[:, index], m)
        after[:, index] = m
    return before, after


def attention(state: State, code: Mapping[str, int], position: int, positions: int) -> Results:
    """Execute ATTN: ``values[head, stream, element]`` and the reciprocals of the sums.

    Blocks are computed side by side; only the running state goes from block to block, in the
    order and with the operations of `docs/architecture.md`.
    """
    n_rep = code["n_rep"]
    streams = positions * n_rep
    count = -(-(position + positions) // KV_BLOCK)
    window = code["window"]
    first = max(0, position + 1 - window) // KV_BLOCK if window else 0
    layout, blocks = _blocks(state, code, count, write=False, first=first)
    # [head, block, 1, token]
    scales = from_fp16(layout.scales(blocks)).swapaxes(0, 1)[..., None, :]
    products = _scores(state, code, layout.keys(blocks), streams)
    scores = mul(mul(products, scales[:, :, 0], clean=True), from_bits(code["scale"]))
    last = position + np.arange(streams) // n_rep
    tokens = np.arange(first * KV_BLOCK, count * KV_BLOCK).reshape(-1, 1, KV_BLOCK)
    keep = tokens <= last[:, None]
    if window:
        keep &= tokens > last[:, None] - window

    before, after = _running_max(scores, keep)
    rescale = exp(add(before, -after, clean=True))
    p = np.where(keep, exp(add(scores, -after[..., None], clean=True)), np.float32(0))
    sums = reduce16(p)
    weighted = np.where(keep, mul(p, scales[:, :, 1], clean=True), np.float32(0))
    q, act_scale = quantise(weighted, KV_BLOCK)
    values = layout.values(blocks).swapaxes(0, 1).astype(np.float32)
    terms = mul(exact_sums(q.astype(np.float32), values), act_scale, clean=True)

    total = np.zeros_like(sums[:, 0])
    acc = np.zeros_like(terms[:, 0])
    for index in range(count - first):
        r = rescale[:, index]
        total = add(mul(total, r, clean=True), sums[:, index], clean=True)
        acc = add(mul(acc, r[..., None], clean=True), terms[:, index], clean=True)
    steps = {"scores": products, "keep": np.broadcast_to(keep, scores.shape), "p": q,
             "p_scale": act_scale[..., 0], "rescale": rescale}
    return Results(acc, rcp(total), steps)

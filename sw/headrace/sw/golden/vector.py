"""Instructions of the vector unit."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..numerics import add, from_bits, gelu, mul, quantise, quantise16, rms_scale, silu
from .attention import rotate
from .state import State


__all__ = ["attention_out", "consume", "embed", "logits", "norm", "quant", "rms",
           "rope"]


Tensors = dict[str, NDArray]


def _rows(state: State, code: Mapping[str, int], positions: int, elems: int
          ) -> NDArray[np.float32]:
    """X of all positions; of the last one only with `last_only`."""
    rows = state.vectors(code, positions, elems)
    return rows[-1:] if code["last_only"] else rows


def embed(state: State, code: Mapping[str, int], position: int, positions: int) -> Tensors:
    """Execute EMBED."""
    x = state.vectors(code, positions, code["dim"])
    ids = state.read(code["tokens"], 4 * positions, offset=4 * position).view("<u4")
    for index, token in enumerate(ids.tolist()):
        x[index] = state.floats(code["addr"] + token * code["pitch"], code["dim"])
    return {"x": x}


def _quantise(state: State, code: Mapping[str, int], y: NDArray[np.float32]) -> Tensors:
    group = 16 * code["group16"]
    *halves, scales = (quantise16 if code["act16"] else quantise)(y, group)
    state.put_activations(code, halves, scales)
    return _activations(halves, scales)


def _activations(halves: list[NDArray[np.int8]], scales: NDArray[np.float32]) -> Tensors:
    """What was written to A, by name."""
    return {**dict(zip(("a", "a_low"), halves)), "scales": scales}


def norm(state: State, code: Mapping[str, int], positions: int) -> Tensors:
    """Execute NORM."""
    gains = state.floats(code["table"], code["dim"])
    x = _rows(state, code, positions, code["dim"])
    r = rms_scale(x, from_bits(code["inv_dim"]), from_bits(code["eps"]))
    return _quantise(state, code, mul(mul(x, r[:, None]), gains))


def rms(state: State, code: Mapping[str, int], positions: int) -> Tensors:
    """Execute RMS."""
    count, dim = code["vectors"], code["dim"]
    gains = state.floats(code["table"], dim)
    x = state.vectors(code, positions, count * dim).reshape(positions, count, dim)
    r = rms_scale(x, from_bits(code["inv_dim"]), from_bits(code["eps"]))
    y = mul(mul(x, r[..., None]), gains).reshape(positions, -1)
    target = state.vectors({**code, "x_base": code["y_base"]}, positions, count * dim)
    target[:] = add(target, y) if code["accumulate"] else y
    return {"x": target}


def quant(state: State, code: Mapping[str, int], positions: int) -> Tensors:
    """Execute QUANT."""
    return _quantise(state, code, _rows(state, code, positions, code["dim"]))


def consume(state: State, code: Mapping[str, int], positions: int, kind: str) -> Tensors:
    """Execute STORE, ADD or GLU, by `kind`."""
    f = state.results.popleft().values
    if kind == "glu":
        tiles = f.reshape(len(f), -1, 2, state.config.cols)
        gate, up = (tiles[:, :, part].reshape(len(f), -1)[:, :code["limit"]] for part in (0, 1))
        f = mul((gelu if code["gelu"] else silu)(gate), up, clean=True)
    f = f[:, :code["limit"]]
    x = _rows(state, code, positions, f.shape[1])
    x[:] = add(x, f) if kind == "add" else f
    return {"x": x}


def rope(state: State, code: Mapping[str, int], positions: int) -> Tensors:
    """Execute ROPE."""
    heads, n_rep, head_dim = code["heads"], code["n_rep"], code["head_dim"]
    x = state.vectors(code, positions, heads * n_rep * head_dim)
    turned = rotate(x.reshape(positions, heads * n_rep, head_dim), state.rope)
    # Groups of 32 along the head, the last one shorter: q, or its halves, and scales side by side.
    method = quantise16 if code["act16"] else quantise
    parts = [method(turned[..., low:low + 32], min(32, head_dim - low))
             for low in range(0, head_dim, 32)]
    *halves, scales = (np.concatenate(part, axis=-1) for part in zip(*parts))
    for head in range(heads):
        own = slice(head * n_rep, (head + 1) * n_rep)
        state.put_activations(code, [q[:, own].reshape(-1, head_dim) for q in halves],
                              scales[:, own].reshape(positions * n_rep, -1), head)
    return _activations(halves, scales)


def attention_out(state: State, code: Mapping[str, int], positions: int) -> Tensors:
    """Execute ATTN_OUT."""
    heads, n_rep, head_dim = code["heads"], code["n_rep"], code["head_dim"]
    results = state.results.popleft()
    assert results.row_scale is not None
    out = mul(results.values, results.row_scale[..., None], clean=True)
    x = state.vectors(code, positions, heads * n_rep * head_dim)
    by_head = out.reshape(heads, positions, n_rep * head_dim).swapaxes(0, 1)
    x[:] = by_head.reshape(positions, -1)
    return {"x": x}


def logits(state: State, code: Mapping[str, int], position: int, *, write: bool
           ) -> tuple[int, Tensors]:
    """Execute LOGITS for the next position; return the token."""
    f = state.results.popleft().values[0, :code["limit"]]
    # NaN never wins, unless it is the first: then nothing is greater.
    token = 0 if np.isnan(f[0]) else int(np.nanargmax(f))
    if write:
        begin = state.span(code["addr"], 4 * f.size, write=True)
        state.memory[begin:begin + 4 * f.size] = f.astype("<f4").view(np.uint8)
    begin = state.span(code["tokens"], 4, offset=4 * position, write=True)
    state.memory[begin:begin + 4] = np.array([token], "<u4").view(np.uint8)
    return token, {"logits": f, "token": np.array([token])}

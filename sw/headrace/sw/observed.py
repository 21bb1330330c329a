"""Tensors of a device, put together from its recording, beside those of the golden machine."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import KV_BLOCK, Config
from headrace.hw.isa import Op

from .recording import Recording


__all__ = ["Observed", "Tensor", "show"]


Code = Mapping[str, int]
Fields = Mapping[str, NDArray[np.uint32]]


def show(value: np.generic) -> str:
    """A value; with its bits where it is a floating-point number."""
    if value.dtype == np.float32:
        return f"{value!s} ({int(value.view(np.uint32)):#010x})"
    return f"{int(value):#06x}" if value.dtype == np.uint16 else str(int(value))


@dataclass(frozen=True)
class Tensor:
    """A tensor of an instruction on both machines.

    Attributes
    ----------
    name : str
        Its name.
    axes : tuple of str
        What its indices count.
    device, golden : arrays of one shape and type
        Both contents.
    written : bool array, optional
        What the device has written, all of it by default.
    counts : bool array, optional
        What is compared, all of it by default.
    first : dict of str to int
        First index of an axis, 0 by default.
    """

    name: str
    axes: tuple[str, ...]
    device: NDArray
    golden: NDArray
    written: NDArray[np.bool_] | None = None
    counts: NDArray[np.bool_] | None = None
    first: Mapping[str, int] = field(default_factory=dict)

    def difference(self) -> str | None:
        """Say where they differ first, in the order of their indices, with both values."""
        golden = np.ascontiguousarray(self.golden)
        device = np.ascontiguousarray(self.device)
        kind = f"u{golden.dtype.itemsize}"
        wrong = device.view(kind) != golden.view(kind)
        if self.written is not None:
            wrong = wrong | ~self.written
        if self.counts is not None:
            wrong = wrong & self.counts
        if not wrong.any():
            return None
        at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        where = ", ".join(f"{axis} {int(index) + self.first.get(axis, 0)}"
                          for axis, index in zip(self.axes, at))
        found = show(device[at])
        if self.written is not None and not self.written[at]:
            found = "not written"
        return f"{self.name}[{where}] is {found} on the device and {show(golden[at])} on golden"


def _bytes(words: NDArray[np.uint32], lanes: int) -> NDArray[np.int8]:
    """Bytes ``[record, lane]`` of packed words."""
    return words.astype("<u4").view(np.int8)[:, :lanes]


def _fit(values: NDArray, count: int) -> tuple[NDArray, NDArray[np.bool_]]:
    """Exactly `count` records, and which of them there are."""
    result = np.zeros((count, *values.shape[1:]), values.dtype)
    there = min(count, len(values))
    result[:there] = values[:there]
    written = np.zeros(result.shape, bool)
    written[:there] = True
    return result, written


def _target(code: Code) -> Code:
    """The instruction, with the place of its result instead of its operand: for RMS."""
    return {**code, "x_base": code["y_base"]} if code["op"] == Op.RMS else code


class Observed:
    """Decodes a recording, instruction by instruction in the order of the program.

    Parameters
    ----------
    config : Config
        The machine.
    recording : Recording
        What it wrote.
    """

    def __init__(self, config: Config, recording: Recording):
        self.config, self.recording = config, recording
        # Records of the softmax pipeline that belong to earlier instructions.
        self._taken: Counter[str] = Counter()

    def tensors(self, code: Code, golden: Mapping[str, NDArray], *, index: int, position: int,
                positions: int, limit: int | None = None, kind: Op | None = None) -> list[Tensor]:
        """Tensors of an instruction, in the order in which they are computed.

        Parameters
        ----------
        code : mapping
            The instruction.
        golden : mapping of str to array
            What the golden machine's trace gave.
        index : int
            Number of the instruction among those of the vector unit; of the one that takes the
            results, for MATMUL and ATTN.
        position, positions : int
            Of the pass.
        limit, kind : int, Op, optional
            Columns that count, and what takes them: for MATMUL.
        """
        match code["op"]:
            case Op.EMBED | Op.STORE | Op.ADD | Op.GLU | Op.ATTN_OUT:
                return [self._x(code, golden["x"], index, position, positions)]
            case Op.RMS:
                return [self._x(_target(code), golden["x"], index, position, positions)]
            case Op.NORM | Op.QUANT | Op.ROPE:
                return self._activations(code, golden, index, positions)
            case Op.APPEND:
                return self._append(code, golden, index, position, positions)
            case Op.MATMUL:
                return [self._products(golden["results"], index, limit, kind)]
            case Op.ATTN:
                return [*self._softmax(golden), *self._attention(golden, index)]
            case Op.LOGITS:
                return self._logits(golden, index)
        return []

    def strays(self, code: Code, golden: Mapping[str, NDArray], *, index: int, positions: int
               ) -> str | None:
        """Name the first write of an instruction to a place that it must leave alone."""
        for source, name in (("x", "X word"), ("a", "A word"), ("s", "scale")):
            addr = self.recording.of_instruction(source, index)["addr"][:, 0].astype(np.int64)
            wanted = self._places(source, code, golden, positions)
            stray = addr[~np.isin(addr, wanted)]
            if stray.size:
                return f"{name} {stray[0]} is written on the device and not on golden"
        return None

    def _places(self, source: str, code: Code, golden: Mapping[str, NDArray], positions: int
                ) -> NDArray[np.int64]:
        """Addresses that an instruction writes."""
        if source == "x" and "x" in golden:
            return self._x_places(_target(code), golden["x"], positions)
        if source != "x" and "a" in golden:
            return self._a_places(code, golden, positions)["as".index(source)]
        return np.zeros(0, np.int64)

    # X, A and scales.

    def _x_places(self, code: Code, x: NDArray, positions: int) -> NDArray[np.int64]:
        rows = np.arange(positions - len(x), positions)[:, None]
        return code["x_base"] + rows * code["x_stride"] + np.arange(
            x.shape[1] // self.config.lanes)

    def _x(self, code: Code, x: NDArray, index: int, position: int, positions: int) -> Tensor:
        found = self.recording.of_instruction("x", index)
        places = self._x_places(code, x, positions)
        words = np.zeros((self.config.x_words, self.config.lanes), np.uint32)
        written = np.zeros(self.config.x_words, bool)
        # Of several writes to one word the last stays, as in the memory.
        words[found["addr"][:, 0]] = found["data"]
        written[found["addr"][:, 0]] = True
        return Tensor("X", ("position", "element"),
                      words[places].reshape(x.shape).view(np.float32), x,
                      np.repeat(written[places], self.config.lanes, axis=1),
                      first={"position": position + positions - len(x)})

    def _a_places(self, code: Code, golden: Mapping[str, NDArray], positions: int
                  ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Words of A ``[half, stream, word]`` and scales ``[stream, group]``."""
        q, scales = (golden[name].reshape(-1, golden[name].shape[-1]) for name in ("a", "scales"))
        # Heads of ROPE have sets of their own, one after the other; q counts heads fastest.
        heads, n_rep = code.get("heads", 1), code.get("n_rep", 1)
        streams = len(q) // heads
        at, head = np.divmod(np.arange(len(q)), heads * n_rep)
        head, rep = np.divmod(head, n_rep)
        stream = at * n_rep + rep
        sets = -(-streams // self.config.rows)
        halves = 1 + ("a_low" in golden)
        row_set = halves * (head * sets + stream // self.config.rows)
        first = row_set + np.arange(halves)[:, None]
        places = (code["a_base"] + (first * code["a_stride"])[..., None]
                  + np.arange(q.shape[1] // self.config.lanes))
        s_places = code["s_base"] + (head * streams + stream) * code["s_stride"]
        return places, s_places[:, None] + np.arange(scales.shape[1])

    def _activations(self, code: Code, golden: Mapping[str, NDArray], index: int, positions: int
                     ) -> list[Tensor]:
        config = self.config
        q, scales = golden["a"], golden["scales"]
        places, s_places = self._a_places(code, golden, positions)
        heads, n_rep = code.get("heads", 1), code.get("n_rep", 1)
        at, rep = np.divmod(np.arange(len(s_places)), heads * n_rep)
        row = (at * n_rep + rep % n_rep) % config.rows

        found = self.recording.of_instruction("a", index)
        words = np.zeros((config.a_words, config.rows, config.lanes), np.int8)
        written = np.zeros(words.shape, bool)
        where = found["addr"][:, 0], found["row"][:, 0]
        words[where] = _bytes(found["data"], config.lanes)
        written[where] = True
        found = self.recording.of_instruction("s", index)
        s_words, s_written = np.zeros(config.s_words, np.uint32), np.zeros(config.s_words, bool)
        s_words[found["addr"][:, 0]] = found["data"][:, 0]
        s_written[found["addr"][:, 0]] = True

        axes = ("position", "head") if q.ndim == 3 else ("stream",)
        return [
            Tensor("scales", (*axes, "group"), s_words[s_places].reshape(scales.shape).view(
                np.float32), scales, s_written[s_places].reshape(scales.shape)),
            *(Tensor(name, (*axes, "element"), words[part, row[:, None]].reshape(q.shape),
                     golden[key], written[part, row[:, None]].reshape(q.shape))
              for part, name, key in zip(places, ("A", "A low"), ("a", "a_low"))),
        ]

    # The cache.

    def _append(self, code: Code, golden: Mapping[str, NDArray], index: int, position: int,
                positions: int) -> list[Tensor]:
        heads, head_dim, lanes = code["heads"], code["head_dim"], self.config.lanes
        found = self.recording.of_instruction("append", index)
        shape = (heads, positions, 2)
        block, token = np.divmod(position + np.arange(positions), KV_BLOCK)
        unit = code["addr"] + block * code["pitch"] + np.arange(heads)[:, None] * (head_dim + 2)
        expected = {
            "unit": np.broadcast_to(unit[..., None], shape),
            "token": np.broadcast_to(token[:, None], shape),
            "value": np.broadcast_to([0, 1], shape),
            "scale": np.stack([golden["k_scale"], golden["v_scale"]], axis=-1).swapaxes(0, 1),
        }
        axes = ("K/V head", "position", "key or value")
        first = {"position": position}
        tensors = []
        for name, values in expected.items():
            device, written = _fit(found[name][:, 0], 2 * heads * positions)
            kind = np.uint16 if name == "scale" else np.int64
            tensors.append(Tensor(
                f"cache {name}", axes, device.astype(kind).reshape(shape), values.astype(kind),
                written.reshape(shape), first=first))
        found = self.recording.of_instruction("append_data", index)
        device, written = _fit(_bytes(found["data"], lanes),
                               2 * heads * positions * head_dim // lanes)
        q = np.stack([golden["k"], golden["v"]], axis=-2).swapaxes(0, 1)
        tensors.append(Tensor("cache", (*axes, "element"), device.reshape(q.shape), q,
                              written.reshape(q.shape), first=first))
        return tensors

    # Results.

    def _words(self, index: int, count: int) -> tuple[Fields, NDArray[np.bool_]]:
        """Words of results that an instruction took, and which of them there are."""
        found = self.recording.of_instruction("results", index)
        values, written = _fit(found["values"], count)
        return {"values": values, "row_scale": _fit(found["row_scale"], count)[0]}, written

    def _products(self, results: NDArray, index: int, limit: int | None, kind: Op | None
                  ) -> Tensor:
        streams, columns = results.shape
        cols = self.config.cols
        tiles, rest = divmod(columns, cols)
        found, written = self._words(index, results.size // self.config.lanes)

        def ordered(values: NDArray[Any]) -> NDArray[Any]:
            full = values.reshape(-1)[:tiles * streams * cols].reshape(tiles, streams, cols)
            narrow = values.reshape(-1)[full.size:].reshape(streams, rest)
            return np.concatenate([full.swapaxes(0, 1).reshape(streams, -1), narrow], axis=1)

        tile, column = np.divmod(np.arange(columns), cols)
        kept = (tile // 2 if kind == Op.GLU else tile) * cols + column
        counts = np.ones(columns, bool) if limit is None else kept < limit
        return Tensor("results", ("stream", "column"), ordered(found["values"].view(np.float32)),
                      results, ordered(written), np.broadcast_to(counts, results.shape))

    def _attention(self, golden: Mapping[str, NDArray], index: int) -> list[Tensor]:
        results, inv_sum = golden["results"], golden["inv_sum"]
        heads, streams, head_dim = results.shape
        v_cols = self.config.v_cols(head_dim)
        shape = (heads, head_dim // v_cols, streams, v_cols)
        found, written = self._words(index, results.size // self.config.lanes)

        def ordered(values):
            return values.reshape(shape).swapaxes(1, 2).reshape(results.shape)

        factor = np.repeat(found["row_scale"], self.config.lanes, axis=1)
        return [
            Tensor("results", ("K/V head", "stream", "element"),
                   ordered(found["values"].view(np.float32)), results, ordered(written)),
            Tensor("row_scale", ("K/V head", "stream", "element"),
                   ordered(factor.view(np.float32)),
                   np.broadcast_to(inv_sum[..., None], results.shape), ordered(written)),
        ]

    def _logits(self, golden: Mapping[str, NDArray], index: int) -> list[Tensor]:
        tensors = []
        values = self.recording.of_instruction("logits", index)["values"]
        logits = golden["logits"]
        if values.size:
            device, written = _fit(values.reshape(-1), logits.size)
            tensors.append(Tensor("logits", ("column",), device.view(np.float32), logits, written))
        token, written = _fit(self.recording.of_instruction("token", index)["token"][:, 0], 1)
        tensors.append(Tensor("token", ("number",), token.astype(np.int64),
                              golden["token"].astype(np.int64), written))
        return tensors

    # The softmax pipeline.

    def _next(self, source: str, count: int) -> Fields:
        found = self.recording.in_order(source, self._taken[source], count)
        self._taken[source] += count
        return found

    def _softmax(self, golden: Mapping[str, NDArray]) -> list[Tensor]:
        lanes, k_cols = self.config.lanes, self.config.k_cols
        shape = golden["scores"].shape
        heads, blocks, streams, tokens = shape
        axes = ("K/V head", "block", "stream", "token")
        size = golden["scores"].size

        found = self._next("scores", size // lanes)
        values, written = _fit(found["values"], size // lanes)
        order = (heads, blocks, tokens // k_cols, streams, k_cols)

        def by_stream(values):
            return values.reshape(order).swapaxes(2, 3).reshape(shape)

        tensors = [Tensor("scores", axes, by_stream(values.view(np.float32)), golden["scores"],
                          by_stream(written), golden["keep"])]
        factors = self._next("p_scale", size // tokens)
        for name, source in (("rescale", "rescale"), ("p_scale", "act_scale"),
                             ("inv_sum", "inv_sum")):
            values, written = _fit(factors[source][:, 0], size // tokens)
            device = values.view(np.float32).reshape(shape[:3])
            there = written.reshape(shape[:3])
            if name == "inv_sum":
                # Of the last block only: the others' is not used.
                device, there = device[:, -1], there[:, -1]
            tensors.append(Tensor(name, axes[:3] if device.ndim == 3 else (axes[0], axes[2]),
                                  device, golden[name], there))
        found = self._next("p", size // lanes)
        values, written = _fit(_bytes(found["data"], lanes), size // lanes)
        tensors.insert(3, Tensor("p", axes, values.reshape(shape), golden["p"],
                                 written.reshape(shape)))
        return tensors

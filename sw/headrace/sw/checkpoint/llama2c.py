"""Checkpoints of llama2.c: a `.bin` file of float32 (its version 0), with `tokenizer.bin`."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import HeadraceError
from .model import Checkpoint, check_finite
from .shape import ModelShape
from .tokenizer import Tokenizer
from .vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, Vocabulary, VocabularyError, sentencepiece


__all__ = ["Llama2cCheckpoint", "load_llama2c"]


_HEADER = struct.Struct("<7i")
_MAGIC = 0x616b3432     # of versions 1 and 2
_UNKNOWN, _BOS, _EOS = range(3)


def _layout(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Parts of the file in their order; those of the layers are one array each."""
    layers, q = shape.layers, shape.heads * shape.head_dim
    kv = shape.kv_heads * shape.head_dim
    parts = {
        "model.embed_tokens": (shape.vocab, shape.dim),
        "input_layernorm": (layers, shape.dim),
        "self_attn.q_proj": (layers, q, shape.dim), "self_attn.k_proj": (layers, kv, shape.dim),
        "self_attn.v_proj": (layers, kv, shape.dim), "self_attn.o_proj": (layers, shape.dim, q),
        "post_attention_layernorm": (layers, shape.dim),
        "mlp.gate_proj": (layers, shape.ffn, shape.dim),
        "mlp.down_proj": (layers, shape.dim, shape.ffn),
        "mlp.up_proj": (layers, shape.ffn, shape.dim),
        "model.norm": (shape.dim,),
        "cosines": (shape.context, shape.head_dim // 2),
        "sines": (shape.context, shape.head_dim // 2),
    }
    return parts if shape.tied else parts | {"lm_head": (shape.vocab, shape.dim)}


class Llama2cCheckpoint(Checkpoint):
    """An opened `.bin` file of llama2.c; weights are memory-mapped.

    Parameters
    ----------
    path : Path
        The file.
    shape : ModelShape
        Shape of the model.
    tokenizer : Tokenizer or None
        Its tokenizer.
    """

    kind = "llama2.c file"

    def __init__(self, path: Path, shape: ModelShape, tokenizer: Tokenizer | None):
        super().__init__(path, shape, tokenizer, name=path.stem,
                         no_tokenizer="there is no tokenizer.bin or tokenizer.model beside it")
        data = np.memmap(path, "<f4", "r", offset=_HEADER.size)
        self._parts: dict[str, NDArray[np.float32]] = {}
        begin = 0
        for name, sizes in _layout(shape).items():
            count = int(np.prod(sizes, dtype=np.int64))
            self._parts[name] = data[begin:begin + count].reshape(sizes)
            begin += count

    def tensor(self, name: str) -> NDArray[np.float32]:
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            values = self._parts[part][int(layer)]
        else:
            values = self._parts[stem]
        check_finite(self.path, name, values)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # The file has the rows of a head as pairs that the rotary embedding turns.
            size = self.shape.head_dim
            return values.reshape(-1, size // 2, 2, values.shape[-1]).swapaxes(1, 2).reshape(
                values.shape)
        return np.array(values, np.float32)

    def stored(self) -> dict[str, tuple[str, int]]:
        return {name: ("F32", part.nbytes) for name, part in self._parts.items()
                if name not in ("cosines", "sines")}


def _shape(path: Path, size: int, head: bytes) -> ModelShape:
    if len(head) < _HEADER.size:
        raise HeadraceError(f"{path}: truncated: {size} bytes, expected a llama2.c checkpoint, "
                            f"which begins with {_HEADER.size} bytes of sizes")
    values = _HEADER.unpack(head)
    if values[0] == _MAGIC:
        raise HeadraceError(f"{path}: a llama2.c checkpoint of version {values[1]}: supported is "
                            f"version 0 (export.py --version 0), or the GGUF file of the model")
    dim, ffn, layers, heads, kv_heads, vocab, context = values
    tied, vocab = vocab > 0, abs(vocab)
    named = {"dim": dim, "hidden_dim": ffn, "n_layers": layers, "n_heads": heads,
             "n_kv_heads": kv_heads, "vocab_size": vocab, "seq_len": context}
    for name, value in named.items():
        if value < 1:
            raise HeadraceError(f"{path}: {name} is {value}: expected a number above 0; this is "
                                f"no llama2.c checkpoint of version 0, or a damaged one")
    if heads % kv_heads or dim % heads or dim // heads % 2:
        raise HeadraceError(f"{path}: dim {dim}, n_heads {heads}, n_kv_heads {kv_heads}: expected "
                            f"each to be a multiple of the next, and heads of an even size; this "
                            f"is no llama2.c checkpoint of version 0, or a damaged one")
    return ModelShape(dim=dim, ffn=ffn, layers=layers, vocab=vocab, heads=heads,
                      kv_heads=kv_heads, head_dim=dim // heads, context=context, eps=1e-5,
                      theta=10000.0, tied=tied, bos=_BOS, eos=(_EOS, _BOS))


def _pieces(path: Path, vocab: int) -> Vocabulary:
    """Tokens of a `tokenizer.bin`: per token its score, its length and its text."""
    raw = path.read_bytes()
    at, tokens, scores, types = 4, [], [], []
    for index in range(vocab):
        try:
            score, length = struct.unpack_from("<fi", raw, at)
        except struct.error as error:
            raise HeadraceError(f"{path}: truncated: {index} of {vocab} tokens; expected the "
                                f"tokenizer.bin that belongs to the model") from error
        at += 8
        if length < 0 or at + length > len(raw):
            raise HeadraceError(f"{path}: token {index} has {length} bytes at byte {at} of "
                                f"{len(raw)}: truncated or damaged")
        try:
            text = raw[at:at + length].decode("utf-8")
        except UnicodeDecodeError as error:
            raise HeadraceError(f"{path}: token {index} is no UTF-8 "
                                f"({raw[at:at + length][:40]!r}): damaged") from error
        at += length
        tokens.append(text)
        scores.append(score)
        types.append(BYTE if len(text) == 6 and text.startswith("<0x") else NORMAL)
    if at != len(raw):
        raise HeadraceError(f"{path}: {len(raw) - at} bytes behind {vocab} tokens: expected the "
                            f"tokenizer.bin that belongs to the model")
    # Their texts are for display there: `<s>` lies between line feeds.
    for token, name, kind in ((_UNKNOWN, "<unk>", UNKNOWN), (_BOS, "<s>", CONTROL),
                              (_EOS, "</s>", CONTROL)):
        if token < vocab:
            tokens[token], types[token] = name, kind
    # llama2.c shows the space that SentencePiece writes as another character.
    texts = [text if kind == BYTE else text.replace(" ", "\u2581")
             for text, kind in zip(tokens, types)]
    return Vocabulary(tokens=texts, types=types, scores=scores, bos=min(_BOS, vocab - 1),
                      unknown=_UNKNOWN)


def _tokenizer(path: Path, shape: ModelShape) -> Tokenizer | None:
    from .tokenizer import load_tokenizer

    beside = path.with_name("tokenizer.bin")
    if not beside.is_file():
        return load_tokenizer(path.parent, vocab=shape.vocab, bos=shape.bos)
    try:
        return sentencepiece(_pieces(beside, shape.vocab))
    except OSError as error:
        raise HeadraceError(f"{beside}: cannot be read: {error.strerror}") from error
    except VocabularyError as error:
        raise HeadraceError(f"{beside}: {error}") from error


def load_llama2c(path: Path) -> Llama2cCheckpoint:
    """Open a checkpoint of llama2.c.

    Raises
    ------
    HeadraceError
        If it is truncated, damaged, or of another version.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected a llama2.c "
                            f"checkpoint") from error
    shape = _shape(path, size, head)
    need = _HEADER.size
    for sizes in _layout(shape).values():
        product = 4
        for each in sizes:
            product *= each
        need += product
    if size != need:
        raise HeadraceError(f"{path}: {size:,} bytes, but a llama2.c checkpoint of these sizes "
                            f"(dim {shape.dim}, {shape.layers} layers, {shape.vocab} tokens) has "
                            f"{need:,}: it is truncated, or of another version")
    return Llama2cCheckpoint(path, shape, _tokenizer(path, shape))

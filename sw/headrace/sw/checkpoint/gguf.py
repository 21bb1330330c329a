"""GGUF files: shape, weights, tokenizer and chat template from one file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HeadraceError
from ..quantiser import Native, Quantised
from .facts import Facts
from .gguf_blocks import NATIVE, SUPPORTED, native_blocks, to_float
from .gguf_header import GGUFEntry, read_header
from .gguf_tokenizer import read_tokenizer
from .model import Checkpoint, check_finite, check_tensors
from .shape import ModelShape
from .tokenizer import Tokenizer


__all__ = ["GGUF_ARCHITECTURES", "GGUFCheckpoint", "load_gguf"]


#: Architectures of GGUF files that can be run.
GGUF_ARCHITECTURES = ("llama",)

_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_INNER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """Name in a GGUF file of a tensor of Hugging Face's layout."""
    stem = name.removesuffix(".weight")
    if stem in _OUTER:
        return f"{_OUTER[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_INNER[part]}.weight"


def _turned(shape: ModelShape, name: str) -> NDArray[np.int64] | None:
    """Rows of q and k in the order of Hugging Face; None for other tensors.

    GGUF files of Llama models have the rows of a head as pairs ``(2 i, 2 i + 1)`` that the rotary
    embedding turns; Hugging Face's have ``(i, i + n / 2)``.
    """
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return None
    size = shape.head_dim
    heads = shape.heads if name.endswith("q_proj.weight") else shape.kv_heads
    head = np.arange(size).reshape(-1, 2).T.ravel()
    return (np.arange(heads)[:, None] * size + head).ravel()


class GGUFCheckpoint(Checkpoint):
    """An opened GGUF file. Weights are memory-mapped and read one tensor at a time.

    Parameters
    ----------
    path : Path
        The file.
    shape : ModelShape
        Shape of the model.
    entries : dict of str to GGUFEntry
        Tensors by their names in the file.
    tokenizer, no_tokenizer
        See :class:`Checkpoint`.
    """

    kind = "GGUF file"

    def __init__(self, path: Path, shape: ModelShape, entries: dict[str, GGUFEntry],
                 tokenizer: Tokenizer | None, no_tokenizer: str):
        super().__init__(path, shape, tokenizer, no_tokenizer=no_tokenizer,
                         name=path.name.removesuffix(".gguf"))
        self._entries = entries
        self._map = np.memmap(path, np.uint8, "r")

    def _raw(self, name: str) -> tuple[GGUFEntry, NDArray[np.uint8]]:
        entry = self._entries[gguf_name(name)]
        return entry, self._map[entry.begin:entry.end]

    def tensor(self, name: str) -> NDArray[np.float32]:
        entry, raw = self._raw(name)
        values = to_float(raw, entry.dtype, entry.shape)
        check_finite(self.path, gguf_name(name), values)
        order = _turned(self.shape, name)
        return values if order is None else values[order]

    def native(self, name: str) -> Native | None:
        kind = NATIVE.get(self._entries[gguf_name(name)].dtype)
        return None if kind is None else Native(kind.fmt, kind.exact)

    def blocks(self, name: str) -> Quantised:
        entry, raw = self._raw(name)
        n, k = entry.shape
        found = native_blocks(raw, entry.dtype, (n, k))
        for values in (found.scales, found.minima):
            if values is not None:
                check_finite(self.path, f"{gguf_name(name)} (scales)", values)
        order = _turned(self.shape, name)
        if order is None:
            return found
        minima = None if found.minima is None else found.minima[:, order]
        return Quantised(found.q[:, order], found.scales[:, order], minima)

    def stored(self) -> dict[str, tuple[str, int]]:
        return {name: (entry.dtype.name, entry.end - entry.begin)
                for name, entry in self._entries.items()}


def _refuse(path: Path, key: str, value: Any, supported: str) -> HeadraceError:
    return HeadraceError(f"{path}: {key} is {value!r}: not supported; supported is {supported}")


def _check_supported(path: Path, fields: dict[str, Any], arch: str, head_dim: int) -> None:
    """Refuse what would compute something else than the model."""
    scaling = fields.get(f"{arch}.rope.scaling.type", "none")
    factor = fields.get(f"{arch}.rope.scaling.factor",
                        fields.get(f"{arch}.rope.scale_linear", 1.0))
    if scaling != "none" and not (scaling == "linear" and factor == 1.0):
        raise _refuse(path, f"{arch}.rope.scaling.type", scaling, "'none'")
    if factor != 1.0:
        raise _refuse(path, f"{arch}.rope.scaling.factor", factor, "1")
    for key in ("expert_count", "attention.sliding_window"):
        if fields.get(f"{arch}.{key}"):
            raise _refuse(path, f"{arch}.{key}", fields[f"{arch}.{key}"], "none")
    for key in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        found = fields.get(f"{arch}.{key}", head_dim)
        if found != head_dim:
            raise _refuse(path, f"{arch}.{key}", found, f"the size of a head, {head_dim}")


def _per_layer(facts: Facts, key: str, layers: int) -> None:
    """A value per layer becomes one value if all are equal."""
    value = facts.values.get(key)
    if isinstance(value, list):
        if len(value) != layers or len(set(value)) != 1:
            raise facts.error(key, "one number for all layers; layers of different sizes are not "
                                   "supported")
        facts.values = {**facts.values, key: value[0]}


def read_gguf_shape(path: Path, fields: dict[str, Any], entries: dict[str, GGUFEntry]
                    ) -> ModelShape:
    """Shape of the model from the metadata of a file.

    Raises
    ------
    HeadraceError
        If something is missing, or the model is not supported.
    """
    arch = fields.get("general.architecture")
    if arch not in GGUF_ARCHITECTURES:
        raise HeadraceError(f"{path}: unsupported architecture {arch!r} (general.architecture): "
                            f"supported: {', '.join(GGUF_ARCHITECTURES)}")
    facts = Facts(path, fields)
    dim, layers = facts.count(f"{arch}.embedding_length"), facts.count(f"{arch}.block_count")
    for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length"):
        _per_layer(facts, f"{arch}.{key}", layers)
    heads = facts.count(f"{arch}.attention.head_count")
    kv_heads = facts.count(f"{arch}.attention.head_count_kv", heads)
    if heads % kv_heads:
        raise facts.error(f"{arch}.attention.head_count_kv", f"a divisor of head_count, {heads}")
    key_length = f"{arch}.attention.key_length"
    if key_length not in fields and dim % heads:
        raise HeadraceError(f"{path}: {arch}.embedding_length {dim} is no multiple of head_count "
                            f"{heads}: expected {key_length} to be given")
    head_dim = facts.count(key_length, max(1, dim // heads))
    if head_dim % 2:
        raise facts.error(key_length, "an even number, as rotary embeddings turn pairs")
    _check_supported(path, fields, arch, head_dim)
    table = entries.get("token_embd.weight")
    vocab = facts.count(f"{arch}.vocab_size", table.shape[0] if table else None)
    eos = [token for key in ("eos_token_id", "eot_token_id", "eom_token_id")
           for token in facts.tokens(f"tokenizer.ggml.{key}")]
    bos = facts.tokens("tokenizer.ggml.bos_token_id")
    return ModelShape(
        dim=dim, ffn=facts.count(f"{arch}.feed_forward_length"), layers=layers, vocab=vocab,
        heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        context=facts.count(f"{arch}.context_length", 2048),
        eps=facts.number(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5),
        theta=facts.number(f"{arch}.rope.freq_base", 10000.0),
        tied="output.weight" not in entries, bos=bos[0] if bos else None,
        eos=tuple(dict.fromkeys(eos)))


def _checked(path: Path, shape: ModelShape, entries: dict[str, GGUFEntry]) -> None:
    """Check that the tensors are those of the model, and of types that can be read."""
    known = {outer: hf for hf, outer in _OUTER.items()}
    inner = {part: hf for hf, part in _INNER.items()}
    found = {}
    for name, entry in entries.items():
        stem = name.removesuffix(".weight")
        hf = known.get(stem)
        if stem.startswith("blk.") and name != stem:
            _, layer, part = (*stem.split(".", 2), "")[:3]
            if part in inner and layer.isdecimal() and int(layer) < shape.layers:
                hf = f"model.layers.{int(layer)}.{inner[part]}"
        if hf is None:
            reason = ("scaled rotary embeddings are not supported" if "rope" in name else
                      "biases are not supported" if name.endswith(".bias") else
                      f"a Llama model of {shape.layers} layers has no such tensor")
            raise HeadraceError(f"{path}: tensor {name!r}: {reason}")
        if entry.dtype not in SUPPORTED:
            raise HeadraceError(f"{path}: tensor {name!r} has type {entry.dtype.name}: supported "
                                f"are {', '.join(each.name for each in SUPPORTED)}; take another "
                                f"quantisation of the model")
        found[f"{hf}.weight"] = entry.shape
    check_tensors(path, shape, found, "the metadata")


def load_gguf(path: Path) -> GGUFCheckpoint:
    """Open a GGUF file: everything but the weights is read and checked.

    Raises
    ------
    HeadraceError
        If something is missing, damaged, not supported, or does not fit together.
    """
    header = read_header(path)
    shape = read_gguf_shape(path, header.fields, header.entries)
    _checked(path, shape, header.entries)
    tokenizer, reason = read_tokenizer(path, header.fields, shape.vocab)
    return GGUFCheckpoint(path, shape, header.entries, tokenizer, reason)

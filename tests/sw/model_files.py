"""Model files that the tests write: GGUF with the library's own writer, llama2.c by hand."""

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from gguf.quants import quantize

from headrace.sw.checkpoint import Checkpoint, ModelShape, SyntheticCheckpoint
from headrace.sw.checkpoint.gguf_names import gguf_name

from .models import shape


#: Types that the library cannot write; their blocks are random: bytes, and places of fp16 scales.
RANDOM_BLOCKS = {Type.Q4_K: (144, (0, 2)), Type.Q5_K: (176, (0, 2)), Type.Q6_K: (210, (208,))}

#: Architectures whose converters put rotary pairs of q and k side by side.
PERMUTED = ("llama", "smollm3")

FLOATS = (Type.F32, Type.F16, Type.BF16)

#: A vocabulary of byte-level BPE: 37 tokens.
BPE = ["<end>", "<user>", *"abcdefghijklmnopqrstuvwxyz", "\u0120", "th", "the", "\u0120the", "an",
       "and", "\u0120a", "cat", "in"]
MERGES = ["t h", "th e", "\u0120 the", "a n", "an d", "\u0120 a", "i n"]


def random_blocks(dtype: Type, rows: int, k: int, seed: int = 0) -> np.ndarray:
    """Random blocks with scales of a usual size, some negative."""
    size, places = RANDOM_BLOCKS[dtype]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows, k // 256, size), np.uint8)
    for at in places:
        scales = (rng.standard_normal((rows, k // 256, 1)) * 2e-4).astype(np.float16)
        blocks[..., at:at + 2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def permuted(w: np.ndarray, head_dim: int) -> np.ndarray:
    """Rows of q or k as converters to GGUF write them: halves of a head become pairs."""
    return w.reshape(-1, 2, head_dim // 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def llama3_factors(s: ModelShape) -> np.ndarray:
    """Divisors of frequencies, by the formula of Llama 3.1's model card."""
    rope, factors = s.all_ropes[0], []
    for pair in range(s.head_dim // 2):
        wave = 2 * math.pi * rope.theta ** (2 * pair / s.head_dim)
        if wave < rope.original / rope.high:
            factors.append(1.0)
        elif wave > rope.original / rope.low:
            factors.append(rope.factor)
        else:
            smooth = (rope.original / wave - rope.low) / (rope.high - rope.low)
            factors.append(1 / ((1 - smooth) / rope.factor + smooth))
    return np.array(factors, np.float32)


def architecture_metadata(s: ModelShape, arch: str) -> dict[str, tuple[str, Any]]:
    """Metadata as converters write them, without the name of the architecture in front."""
    rope = s.all_ropes[0]
    facts: dict[str, tuple[str, Any]] = {
        "context_length": ("add_uint32", s.context),
        "embedding_length": ("add_uint32", s.dim),
        "block_count": ("add_uint32", s.layers),
        "feed_forward_length": ("add_uint32", s.ffn),
        "attention.head_count": ("add_uint32", s.heads),
        "attention.head_count_kv": ("add_uint32", s.kv_heads),
        "attention.key_length": ("add_uint32", s.head_dim),
        "attention.value_length": ("add_uint32", s.head_dim),
        "attention.layer_norm_rms_epsilon": ("add_float32", s.eps),
        "rope.freq_base": ("add_float32", s.theta),
    }
    if not arch.startswith("gemma"):
        facts["rope.dimension_count"] = ("add_uint32", s.head_dim)
    if rope.kind in ("linear", "yarn"):
        facts["rope.scaling.type"] = ("add_string", rope.kind)
        facts["rope.scaling.factor"] = ("add_float32", rope.factor)
    if rope.kind == "yarn":
        facts["rope.scaling.original_context_length"] = ("add_uint32", rope.original)
    windows = s.window_of
    if any(windows):
        facts["attention.sliding_window"] = ("add_uint32", max(windows))
        if not all(windows) and not arch.startswith("gemma"):
            facts["attention.sliding_window_pattern"] = ("add_array", [w > 0 for w in windows])
    if s.score_cap:
        facts["attn_logit_softcapping"] = ("add_float32", s.score_cap)
        facts["final_logit_softcapping"] = ("add_float32", s.logit_cap)
    return facts


def write_gguf(path: Path, source: Checkpoint | None = None, dtype: Type = Type.F32, *,
               types: dict[str, Type] | None = None, tokens: list[str] | None = None,
               change: dict[str, Any] | None = None, replace: dict[str, Any] | None = None,
               drop: tuple[str, ...] = (), arch: str | None = None) -> Path:
    """Write a model to a GGUF file.

    Parameters
    ----------
    path : Path
        The file.
    source : Checkpoint, optional
        Shape and weights; the tiny model by default.
    dtype : GGMLQuantizationType
        Type of the matrices; `types` has those of single ones, by their names in the file.
    tokens : list of str, optional
        Byte-level BPE vocabulary; :data:`BPE` by default, none if empty.
    change : dict
        Metadata that are changed: ``{key: (method of the writer, value)}``.
    replace : dict
        Tensors that are replaced or added.
    drop : tuple of str
        Keys and tensors that are left out.
    arch : str, optional
        `general.architecture`; that of the model by default.
    """
    source = source or SyntheticCheckpoint(shape())
    s = source.shape
    arch = arch or s.architecture
    writer = GGUFWriter(path, arch)
    facts = {f"{arch}.{key}": value for key, value in architecture_metadata(s, arch).items()}
    tokens = BPE if tokens is None else tokens
    if tokens:
        facts |= {
            "tokenizer.ggml.model": ("add_string", "gpt2"),
            "tokenizer.ggml.pre": ("add_string", "smollm"),
            "tokenizer.ggml.tokens": ("add_array", tokens),
            "tokenizer.ggml.token_type": ("add_array", [3, 4] + [1] * (len(tokens) - 2)),
            "tokenizer.ggml.merges": ("add_array", MERGES),
            "tokenizer.ggml.bos_token_id": ("add_uint32", 1),
            "tokenizer.ggml.eos_token_id": ("add_uint32", 0),
            "tokenizer.chat_template": ("add_string", "{{ messages }}"),
        }
    for key, (method, value) in (facts | (change or {})).items():
        if key not in drop:
            getattr(writer, method)(key, value)
    tensors: dict[str, Any] = {}
    for name, sizes in s.tensors().items():
        w, written = source.tensor(name), gguf_name(name, post_norms=s.post_norms)
        if arch in PERMUTED and name.endswith(("q_proj.weight", "k_proj.weight")):
            w = permuted(w, s.head_dim)
        if "norm" in name:
            w = w + np.float32(s.gain_offset)
        kind = (types or {}).get(written, dtype if len(sizes) > 1 else Type.F32)
        tensors[written] = ((random_blocks(kind, *sizes, seed=len(tensors)), kind)
                            if kind in RANDOM_BLOCKS else (quantize(w, kind), kind))
    if s.all_ropes[0].kind == "llama3":
        tensors["rope_freqs.weight"] = (llama3_factors(s), Type.F32)
    for name, value in (tensors | (replace or {})).items():
        if name not in drop:
            data, kind = value
            writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_llama2c(path: Path, source: Checkpoint, tokens: Sequence[tuple[bytes, float]] = ()
                  ) -> Path:
    """Write a checkpoint of llama2.c, version 0, and its tokenizer beside it."""
    s = source.shape
    layers = [f"model.layers.{index}." for index in range(s.layers)]

    def parts(name: str) -> np.ndarray:
        ws = [source.tensor(f"{layer}{name}.weight") for layer in layers]
        if name.endswith(("q_proj", "k_proj")):
            ws = [permuted(w, s.head_dim) for w in ws]
        return np.stack(ws)

    angles = np.arange(s.context)[:, None] * s.theta ** (
        -2 * np.arange(s.head_dim // 2) / s.head_dim)
    arrays = [source.tensor("model.embed_tokens.weight")]
    arrays += [parts(name) for name in (
        "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", "post_attention_layernorm", "mlp.gate_proj", "mlp.down_proj",
        "mlp.up_proj")]
    arrays += [source.tensor("model.norm.weight"), np.cos(angles), np.sin(angles)]
    if not s.tied:
        arrays.append(source.tensor("lm_head.weight"))
    head = struct.pack("<7i", s.dim, s.ffn, s.layers, s.heads, s.kv_heads,
                       s.vocab if s.tied else -s.vocab, s.context)
    path.write_bytes(head + b"".join(np.asarray(a, "<f4").tobytes() for a in arrays))
    if tokens:
        raw = struct.pack("<i", max(len(text) for text, _ in tokens))
        raw += b"".join(struct.pack("<fi", score, len(text)) + text for text, score in tokens)
        path.with_name("tokenizer.bin").write_bytes(raw)
    return path

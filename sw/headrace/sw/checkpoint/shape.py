"""Shape of a model, from the `config.json` of its checkpoint."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import HeadraceError


__all__ = ["ARCHITECTURES", "Facts", "ModelShape", "read_json", "read_shape"]


#: Architectures that the compiler knows.
ARCHITECTURES = ("LlamaForCausalLM",)


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Dimensions and constants of a Llama model.

    Parameters
    ----------
    dim, ffn, layers, vocab : int
        Width, width of the MLP, number of layers, number of tokens.
    heads, kv_heads, head_dim : int
        Query heads, K/V heads, elements of a head.
    context : int
        Largest number of positions.
    eps, theta : float
        Constant of RMSNorm; base of the rotary embedding.
    tied : bool
        The output layer is the embedding table.
    bos : int or None
        Token that starts a text.
    eos : tuple of int
        Tokens that end a text.
    """

    dim: int
    ffn: int
    layers: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    eps: float
    theta: float
    tied: bool
    bos: int | None = None
    eos: tuple[int, ...] = ()

    @property
    def n_rep(self) -> int:
        """Query heads per K/V head."""
        return self.heads // self.kv_heads

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all weights, as in the checkpoint."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes = {"model.embed_tokens.weight": (self.vocab, self.dim),
                  "model.norm.weight": (self.dim,)}
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocab, self.dim)
        for index in range(self.layers):
            layer = f"model.layers.{index}."
            shapes |= {
                layer + "input_layernorm.weight": (self.dim,),
                layer + "self_attn.q_proj.weight": (q, self.dim),
                layer + "self_attn.k_proj.weight": (kv, self.dim),
                layer + "self_attn.v_proj.weight": (kv, self.dim),
                layer + "self_attn.o_proj.weight": (self.dim, q),
                layer + "post_attention_layernorm.weight": (self.dim,),
                layer + "mlp.gate_proj.weight": (self.ffn, self.dim),
                layer + "mlp.up_proj.weight": (self.ffn, self.dim),
                layer + "mlp.down_proj.weight": (self.dim, self.ffn),
            }
        return shapes


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    HeadraceError
        If the file is missing or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected a file of a "
                            f"Hugging Face checkpoint folder") from error
    except (ValueError, RecursionError) as error:
        raise HeadraceError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(content, dict):
        raise HeadraceError(f"{path}: expected a JSON object, not a {type(content).__name__}")
    return content


class Facts:
    """Typed access to the fields of a `config.json`, or to the metadata of another file."""

    def __init__(self, path: Path, values: Mapping[str, Any]):
        self.path, self.values = path, values

    def error(self, name: str, expected: str) -> HeadraceError:
        return HeadraceError(f"{self.path}: {name} is {self.values.get(name)!r}: expected "
                             f"{expected}")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) \
                or not 1 <= value < 1 << 31:
            raise self.error(name, "a whole number from 1 to 2**31 - 1")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) \
                or not 0 < value < 1e30:
            raise self.error(name, "a number above 0, at most 1e30")
        return float(value)

    def tokens(self, name: str) -> tuple[int, ...]:
        value = self.values.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values):
            raise self.error(name, "a token id, a list of them, or null")
        return tuple(values)


def _check_supported(path: Path, values: Mapping[str, Any]) -> None:
    """Refuse what would compute something else than the model."""
    names = values.get("architectures") or []
    if not isinstance(names, list):
        raise HeadraceError(f"{path}: architectures is {names!r}: expected a list of names")
    if not any(name in ARCHITECTURES for name in names):
        found = ", ".join(map(str, names)) or f"model_type {values.get('model_type')!r}"
        raise HeadraceError(f"{path}: unsupported architecture: {found}: supported: "
                            f"{', '.join(ARCHITECTURES)}")
    activation = values.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise HeadraceError(f"{path}: hidden_act is {activation!r}: supported: silu")
    for name in ("attention_bias", "mlp_bias"):
        if values.get(name):
            raise HeadraceError(f"{path}: {name} is true: biases are not supported; supported "
                                f"are Llama models without biases")
    if values.get("quantization_config"):
        raise HeadraceError(f"{path}: the checkpoint is quantised (quantization_config): "
                            f"supported are weights in F32, F16 or BF16; take the original "
                            f"checkpoint, headrace quantises it itself")
    for name in ("rope_scaling", "rope_parameters"):
        scaling = values.get(name)
        if isinstance(scaling, Mapping):
            kind = scaling.get("rope_type", scaling.get("type", "default"))
            if kind == "default":
                continue
            scaling = kind
        if scaling:
            raise HeadraceError(f"{path}: {name} of type {scaling!r}: scaled rotary embeddings "
                                f"are not supported; supported is the default with rope_theta")
    factor = values.get("partial_rotary_factor")
    if factor not in (None, 1, 1.0):
        raise HeadraceError(f"{path}: partial_rotary_factor is {factor!r}: supported: 1")


def read_shape(folder: Path) -> ModelShape:
    """Read the shape of the model in a checkpoint folder.

    Raises
    ------
    HeadraceError
        If `config.json` is missing or damaged, or the model is not supported.
    """
    path = folder / "config.json"
    values = read_json(path)
    _check_supported(path, values)
    facts = Facts(path, values)
    dim, heads = facts.count("hidden_size"), facts.count("num_attention_heads")
    kv_heads = facts.count("num_key_value_heads", heads)
    if heads % kv_heads:
        raise facts.error("num_key_value_heads", f"a divisor of num_attention_heads, {heads}")
    if values.get("head_dim") is None and dim % heads:
        raise HeadraceError(f"{path}: hidden_size {dim} is no multiple of num_attention_heads "
                            f"{heads}: expected head_dim to be given")
    head_dim = facts.count("head_dim", dim // heads)
    if head_dim % 2:
        raise facts.error("head_dim", "an even number, as rotary embeddings turn pairs")
    rope = values.get("rope_parameters")
    if isinstance(rope, Mapping) and rope.get("rope_theta") is not None:
        theta = Facts(path, rope).number("rope_theta", 10000.0)
    else:
        theta = facts.number("rope_theta", 10000.0)
    eos = facts.tokens("eos_token_id")
    if (folder / "generation_config.json").is_file():
        extra = Facts(folder / "generation_config.json",
                      read_json(folder / "generation_config.json"))
        eos = tuple(dict.fromkeys(eos + extra.tokens("eos_token_id")))
    bos = facts.tokens("bos_token_id")
    return ModelShape(
        dim=dim, ffn=facts.count("intermediate_size"), layers=facts.count("num_hidden_layers"),
        vocab=facts.count("vocab_size"), heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        context=facts.count("max_position_embeddings", 2048),
        eps=facts.number("rms_norm_eps", 1e-6),
        theta=theta, tied=bool(values.get("tie_word_embeddings", False)),
        bos=bos[0] if bos else None, eos=eos)

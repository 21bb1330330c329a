"""Shape of a model from the metadata of a GGUF file."""

from pathlib import Path
from typing import Any

from ..errors import HeadraceError
from .architectures import GGUF_FORMS, GGUFForm
from .facts import Facts
from .gguf_header import GGUFEntry
from .gguf_rope import read_gguf_rope
from .shape import ModelShape


__all__ = ["gguf_form", "read_gguf_shape"]


def gguf_form(path: Path, fields: dict[str, Any]) -> GGUFForm:
    """How the architecture of a file is held in it.

    Raises
    ------
    HeadraceError
        If the architecture is not supported.
    """
    arch = fields.get("general.architecture")
    if not isinstance(arch, str) or arch not in GGUF_FORMS:
        raise HeadraceError(f"{path}: unsupported architecture {arch!r} (general.architecture): "
                            f"supported: {', '.join(GGUF_FORMS)}")
    return GGUF_FORMS[arch]


def _refuse(facts: Facts, name: str, supported: str) -> HeadraceError:
    return HeadraceError(f"{facts.path}: {facts.prefix}{name} is {facts.get(name)!r}: not "
                         f"supported; supported is {supported}")


def _check_supported(facts: Facts, head_dim: int) -> None:
    """Refuse what would compute something else than the model."""
    if facts.get("expert_count"):
        raise _refuse(facts, "expert_count", "none")
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        if facts.get(name) not in (None, head_dim):
            raise _refuse(facts, name, f"the size of a head, {head_dim}")
    if facts.get("attention.causal") is False:
        raise _refuse(facts, "attention.causal", "true")


def _per_layer(facts: Facts, name: str, layers: int) -> None:
    """A value per layer becomes one value if all are equal."""
    value = facts.get(name)
    if isinstance(value, list):
        if len(value) != layers or len(set(value)) != 1:
            raise facts.error(name, "one number for all layers; layers of different sizes are not "
                                    "supported")
        facts.values = {**facts.values, facts.prefix + name: value[0]}


def read_gguf_shape(path: Path, fields: dict[str, Any], entries: dict[str, GGUFEntry],
                    factors: tuple[float, ...] = ()) -> ModelShape:
    """Shape of the model from the metadata of a file.

    Parameters
    ----------
    path : Path
        The file, for messages.
    fields : dict
        Its metadata.
    entries : dict of str to GGUFEntry
        Its tensors.
    factors : tuple of float
        Content of its tensor `rope_freqs.weight`.

    Raises
    ------
    HeadraceError
        If something is missing, or the model is not supported.
    """
    form = gguf_form(path, fields)
    defaults = {f"{form.name}.{name}": value for name, value in form.defaults.items()}
    facts = Facts(path, {**defaults, **fields}, f"{form.name}.")
    dim, layers = facts.count("embedding_length"), facts.layers("block_count")
    for name in ("attention.head_count", "attention.head_count_kv", "feed_forward_length"):
        _per_layer(facts, name, layers)
    heads = facts.count("attention.head_count")
    kv_heads = facts.count("attention.head_count_kv", heads)
    if heads % kv_heads:
        raise facts.error("attention.head_count_kv", f"a divisor of head_count, {heads}")
    if facts.get("attention.key_length") is None and dim % heads:
        raise HeadraceError(f"{path}: {form.name}.embedding_length {dim} is no multiple of "
                            f"head_count {heads}: expected {form.name}.attention.key_length to "
                            f"be given")
    head_dim = facts.count("attention.key_length", max(1, dim // heads))
    if head_dim % 2:
        raise facts.error("attention.key_length", "an even number, as rotary embeddings turn pairs")
    _check_supported(facts, head_dim)
    if factors and len(factors) != head_dim // 2:
        raise HeadraceError(f"{path}: tensor 'rope_freqs.weight' has {len(factors)} values: "
                            f"expected {head_dim // 2}, one for each pair of a head")
    table = entries.get("token_embd.weight")
    tokens = Facts(path, fields, "tokenizer.ggml.")
    eos = [token for name in ("eos_token_id", "eot_token_id", "eom_token_id")
           for token in tokens.tokens(name)]
    bos = tokens.tokens("bos_token_id")
    features = form.features(facts, read_gguf_rope(facts, factors))
    return ModelShape(
        architecture=form.name, dim=dim, ffn=facts.count("feed_forward_length"), layers=layers,
        vocab=facts.count("vocab_size", table.shape[0] if table else None), heads=heads,
        kv_heads=kv_heads, head_dim=head_dim, context=facts.count("context_length", 2048),
        eps=facts.number("attention.layer_norm_rms_epsilon", 1e-5),
        theta=features["ropes"][0].theta, tied="output.weight" not in entries,
        bos=bos[0] if bos else None, eos=tuple(dict.fromkeys(eos)), **features)

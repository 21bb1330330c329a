"""Shape of a model from the `config.json` of a Hugging Face folder."""

from pathlib import Path

from ..errors import HeadraceError
from .architectures import ARCHITECTURES
from .facts import Facts, read_json
from .shape import ModelShape


__all__ = ["read_shape"]


def read_shape(folder: Path) -> ModelShape:
    """Read the shape of the model in a checkpoint folder.

    Raises
    ------
    HeadraceError
        If `config.json` is missing or damaged, or the model is not supported.
    """
    path = folder / "config.json"
    values = read_json(path)
    names = values.get("architectures") or []
    if not isinstance(names, list):
        raise HeadraceError(f"{path}: architectures is {names!r}: expected a list of names")
    found = [ARCHITECTURES[name] for name in names
             if isinstance(name, str) and name in ARCHITECTURES]
    if not found:
        what = ", ".join(map(str, names)) or f"model_type {values.get('model_type')!r}"
        raise HeadraceError(f"{path}: unsupported architecture: {what}: supported: "
                            f"{', '.join(ARCHITECTURES)}")
    architecture = found[0]
    facts = Facts(path, {**architecture.defaults,
                         **{key: value for key, value in values.items() if value is not None
                            or key not in architecture.defaults}})
    if values.get("quantization_config"):
        raise HeadraceError(f"{path}: the checkpoint is quantised (quantization_config): "
                            f"supported are weights in F32, F16 or BF16; take the original "
                            f"checkpoint, headrace quantises it itself")
    facts.refuse(partial_rotary_factor=1.0)
    dim, heads = facts.count("hidden_size"), facts.count("num_attention_heads")
    kv_heads = facts.count("num_key_value_heads", heads)
    if heads % kv_heads:
        raise facts.error("num_key_value_heads", f"a divisor of num_attention_heads, {heads}")
    if facts.values.get("head_dim") is None and dim % heads:
        raise HeadraceError(f"{path}: hidden_size {dim} is no multiple of num_attention_heads "
                            f"{heads}: expected head_dim to be given")
    head_dim = facts.count("head_dim", dim // heads)
    if head_dim % 2:
        raise facts.error("head_dim", "an even number, as rotary embeddings turn pairs")
    eos = facts.tokens("eos_token_id")
    if (folder / "generation_config.json").is_file():
        extra = Facts(folder / "generation_config.json",
                      read_json(folder / "generation_config.json"))
        eos = tuple(dict.fromkeys(eos + extra.tokens("eos_token_id")))
    bos = facts.tokens("bos_token_id")
    features = architecture.features(facts)
    return ModelShape(
        architecture=architecture.short, dim=dim, ffn=facts.count("intermediate_size"),
        layers=facts.layers("num_hidden_layers"), vocab=facts.count("vocab_size"), heads=heads,
        kv_heads=kv_heads, head_dim=head_dim,
        context=facts.count("max_position_embeddings", 2048),
        eps=facts.number("rms_norm_eps", 1e-6), theta=features["ropes"][0].theta,
        tied=bool(facts.values.get("tie_word_embeddings", False)),
        bos=bos[0] if bos else None, eos=eos, **features)

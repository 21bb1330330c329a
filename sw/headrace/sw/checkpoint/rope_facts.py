"""Rotary embedding of a `config.json`: its present and its older spelling."""

from collections.abc import Mapping
from typing import Any

from .facts import Facts
from .rope import ROPE_KINDS, Rope


__all__ = ["read_rope"]


def read_rope(facts: Facts, entry: Any = None) -> Rope:
    """Read `rope_parameters`, or `rope_theta` with `rope_scaling`.

    Parameters
    ----------
    facts : Facts
        The file.
    entry : object, optional
        One entry of `rope_parameters` where layers differ.

    Raises
    ------
    HeadraceError
        If a field is missing or the kind of scaling is not supported.
    """
    name = "rope_parameters"
    values = facts.values.get(name) if entry is None else entry
    if values is None:
        name, values = "rope_scaling", facts.values.get("rope_scaling")
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        raise facts.error(name, "an object, or null")
    here = Facts(facts.path, values)
    theta = here.number("rope_theta", facts.number("rope_theta", 10000.0))
    kind = values.get("rope_type", values.get("type", "default"))
    known = [each for each in ROPE_KINDS if each not in ("none", "factors")]
    if kind not in known:
        raise facts.error(name, f"a rotary embedding of type {', '.join(known)}")
    if values.get("partial_rotary_factor") not in (None, 1, 1.0):
        raise here.error("partial_rotary_factor", "1: rotation of a part of a head is not "
                                                  "supported")
    if kind == "default":
        return Rope(theta=theta)
    factor = here.number("factor", 0.0 if "factor" in values else 1.0)
    if kind == "linear":
        return Rope(theta=theta, kind=kind, factor=factor)
    original = here.count("original_max_position_embeddings",
                          facts.count("max_position_embeddings"))
    if kind == "llama3":
        return Rope(theta=theta, kind=kind, factor=factor, original=original,
                    low=here.number("low_freq_factor", 1.0),
                    high=here.number("high_freq_factor", 4.0))
    here.refuse(mscale=None, mscale_all_dim=None, truncate=True)
    attention = here.number("attention_factor", 1.0) if values.get("attention_factor") else 0.0
    return Rope(theta=theta, kind=kind, factor=factor, original=original, attention=attention,
                low=here.number("beta_slow", 1.0), high=here.number("beta_fast", 32.0))

"""Rotary embedding of a GGUF file."""

from .facts import Facts
from .rope import Rope


__all__ = ["read_gguf_rope"]


def read_gguf_rope(facts: Facts, factors: tuple[float, ...] = ()) -> Rope:
    """Read `rope.freq_base` and `rope.scaling`.

    Parameters
    ----------
    facts : Facts
        Metadata of the architecture.
    factors : tuple of float
        Divisors of the frequencies, from the tensor `rope_freqs.weight`.

    Raises
    ------
    HeadraceError
        If the kind of scaling is not supported, or a value is out of range.
    """
    theta = facts.number("rope.freq_base", 10000.0)
    # The older spelling is a factor only.
    older = facts.get("rope.scale_linear")
    kind = facts.choice("rope.scaling.type", "none" if older in (None, 1, 1.0) else "linear",
                        {each: each for each in ("none", "linear", "yarn")})
    factor = facts.number("rope.scaling.factor",
                          facts.number("rope.scale_linear", 1.0) if kind == "linear" else 1.0)
    if kind == "none" and factor != 1:
        raise facts.error("rope.scaling.factor", "1, as rope.scaling.type is 'none'")
    if factors:
        if kind != "none":
            raise facts.error("rope.scaling.type", "'none', as the file has factors for each "
                                                   "frequency (rope_freqs.weight)")
        return Rope(theta=theta, kind="factors", factors=factors)
    if kind == "none" or factor == 1:
        return Rope(theta=theta)
    if kind == "linear":
        return Rope(theta=theta, kind="linear", factor=factor)
    facts.refuse(**{"rope.scaling.yarn_ext_factor": 1.0, "rope.scaling.yarn_log_multiplier": None})
    rope = Rope(theta=theta, kind="yarn", factor=factor,
                original=facts.count("rope.scaling.original_context_length",
                                     facts.count("context_length")),
                low=facts.number("rope.scaling.yarn_beta_slow", 1.0),
                high=facts.number("rope.scaling.yarn_beta_fast", 32.0))
    more = (facts.number("rope.scaling.attn_factor", 1.0)
            * facts.number("rope.scaling.yarn_attn_factor", 1.0))
    return rope if more == 1 else Rope(theta=theta, kind="yarn", factor=factor,
                                       original=rope.original, low=rope.low, high=rope.high,
                                       attention=more * rope.magnitude)

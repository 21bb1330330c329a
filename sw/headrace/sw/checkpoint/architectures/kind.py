"""What an architecture is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..facts import Facts
from ..rope import Rope


__all__ = ["ACTIVATIONS", "Architecture", "GGUFForm", "gguf_windows", "layer_windows"]


#: Names of activation functions in checkpoints, and what they are here. `gelu` itself is the form
#: with the error function, which the device does not have.
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu",
               "gelu_fast": "gelu"}


@dataclass(frozen=True, kw_only=True)
class GGUFForm:
    """How GGUF files hold an architecture.

    Parameters
    ----------
    name : str
        ``general.architecture``, which the names of its metadata begin with.
    features : callable
        Fields of :class:`~headrace.sw.checkpoint.shape.ModelShape` beyond the common ones, from
        the metadata of the architecture and the rotary embedding that they describe.
    permuted : bool
        Rows of q and k have the pairs that are rotated side by side.
    defaults : dict
        Metadata whose default is not Llama's.
    """

    name: str
    features: Callable[[Facts, Rope], dict[str, Any]]
    permuted: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """How a family of models differs from Llama.

    Parameters
    ----------
    name : str
        Class in `config.json`.
    short : str
        Name for people.
    features : callable
        Fields of :class:`~headrace.sw.checkpoint.shape.ModelShape` beyond the common ones, from
        the facts of a file.
    defaults : dict
        Common fields of `config.json` whose default is not Llama's.
    gguf : GGUFForm or None
        Its form in GGUF files; None if it shares that of another one.
    """

    name: str
    short: str
    features: Callable[[Facts], dict[str, Any]]
    defaults: dict[str, Any]
    gguf: GGUFForm | None = None


def layer_windows(facts: Facts, layers: int) -> tuple[int, ...]:
    """Window of each layer, from `layer_types` and `sliding_window`; empty if there is none."""
    kinds = facts.values.get("layer_types")
    if facts.values.get("sliding_window") is None:
        return ()
    window = facts.count("sliding_window")
    if kinds is None:
        return (window,) * layers
    known = {"full_attention": 0, "sliding_attention": window}
    if not isinstance(kinds, list) or len(kinds) != layers or not all(
            kind in list(known) for kind in kinds):
        raise facts.error("layer_types", f"a list of {layers} names, {' or '.join(known)}")
    windows = tuple(known[kind] for kind in kinds)
    return windows if any(windows) else ()


def gguf_windows(facts: Facts, period: int = 0, default: int | None = None) -> tuple[int, ...]:
    """Window of each layer, from `attention.sliding_window` and its pattern; empty if there is
    none.

    Parameters
    ----------
    facts : Facts
        Metadata of the architecture.
    period : int
        Every layer of such a number has no window, unless the file says otherwise; 0: all have one.
    default : int, optional
        Window, if the file does not say.
    """
    layers = facts.layers("block_count")
    value = facts.get("attention.sliding_window")
    if value == 0 or value is None and default is None:
        return ()
    window = facts.count("attention.sliding_window", default)
    pattern = facts.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) != layers or not all(each in (0, 1) for each in pattern):
            raise facts.error("attention.sliding_window_pattern",
                              f"a number, or {layers} of true or false")
        flags = [bool(each) for each in pattern]
    else:
        every = facts.count("attention.sliding_window_pattern", period) if pattern or period else 0
        flags = [not every or (layer + 1) % every != 0 for layer in range(layers)]
    return tuple(window if flag else 0 for flag in flags) if any(flags) else ()

"""What an architecture is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..facts import Facts


__all__ = ["ACTIVATIONS", "Architecture", "layer_windows"]


#: Names of activation functions in checkpoints, and what they are here. `gelu` itself is the form
#: with the error function, which the device does not have.
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu",
               "gelu_fast": "gelu"}


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
    """

    name: str
    short: str
    features: Callable[[Facts], dict[str, Any]]
    defaults: dict[str, Any]


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

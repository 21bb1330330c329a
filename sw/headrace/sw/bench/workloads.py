"""Workloads of ``headrace bench``, as data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..checkpoint import ModelShape
from ..errors import HeadraceError


__all__ = ["CASES", "CONFIGS", "FORMATS", "WORKLOADS", "Case", "Workload", "select"]


#: Configurations and weight formats that are measured unless others are asked for.
CONFIGS = ("edge", "wide")
FORMATS = ("w8", "w4", "w4a")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What runs.

    Parameters
    ----------
    name : str
        Name of the workload.
    shape : ModelShape or None
        Shape of a model with synthetic weights; None for the built-in model.
    part : {"layer", "head", "model"}
        What is measured of it: one layer, the output layer, or whole passes.
    doc : str
        One line about it.
    """

    name: str
    shape: ModelShape | None
    part: str
    doc: str


_LLAMA = ModelShape(dim=2048, ffn=8192, layers=1, vocab=128, heads=32, kv_heads=8, head_dim=64,
                    context=4096, eps=1e-5, theta=500000.0, tied=True)
_SMOLLM2 = ModelShape(dim=576, ffn=1536, layers=1, vocab=128, heads=9, kv_heads=3, head_dim=64,
                      context=4096, eps=1e-5, theta=100000.0, tied=True)

#: Workloads by name. A layer is measured on a model with a small vocabulary, which the
#: measurement cancels.
WORKLOADS = {workload.name: workload for workload in (
    Workload(name="llama-3.2-1b-layer", shape=_LLAMA, part="layer",
             doc="one layer of Llama-3.2-1B: dim 2048, 32 heads, 8 K/V heads, FFN 8192"),
    Workload(name="smollm2-135m-layer", shape=_SMOLLM2, part="layer",
             doc="one layer of SmolLM2-135M: dim 576, 9 heads, 3 K/V heads, FFN 1536"),
    Workload(name="smollm2-135m-head", shape=replace(_SMOLLM2, vocab=49152), part="head",
             doc="final norm and vocabulary projection of SmolLM2-135M: 49152 columns"),
    Workload(name="demo", shape=None, part="model",
             doc="the built-in model whole: a prompt, then tokens"),
)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One measurement of a workload.

    Parameters
    ----------
    workload : str
        Name of the workload.
    kind : {"decode", "prefill"}
        One new position after a history, or a prompt from position 0.
    context : int
        Tokens in the cache after the (first) pass: history and new positions.
    positions : int
        New positions.
    quick, slow : bool
        Part of the quick subset; only measured with ``--slow``.
    """

    workload: str
    kind: str
    context: int
    positions: int = 1
    quick: bool = False
    slow: bool = False

    def title(self, config: str, weights: str, memory: str) -> str:
        """One line that names the case on a machine."""
        return f"{self.workload} {self.kind} {self.context} on {config}, {weights}, {memory}"


#: Every measurement, in the order in which they run.
CASES = (
    Case(workload="demo", kind="prefill", context=32, positions=32, quick=True),
    Case(workload="demo", kind="decode", context=33, positions=16, quick=True),
    Case(workload="smollm2-135m-layer", kind="decode", context=512, quick=True),
    Case(workload="smollm2-135m-head", kind="decode", context=1),
    Case(workload="llama-3.2-1b-layer", kind="decode", context=512, quick=True),
    Case(workload="llama-3.2-1b-layer", kind="decode", context=2048),
    Case(workload="llama-3.2-1b-layer", kind="prefill", context=64, positions=64),
    Case(workload="llama-3.2-1b-layer", kind="prefill", context=256, positions=256, slow=True),
)


def _pick(what: str, wanted: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    for name in wanted:
        if name not in known:
            raise HeadraceError(f"no {what} {name!r}: expected one of {', '.join(known)}")
    return wanted or known


def select(*, workloads: Sequence[str] = (), weights: Sequence[str] = (),
           kinds: Sequence[str] = (), contexts: Sequence[int] = (), quick: bool = False,
           slow: bool = False) -> Iterator[tuple[Case, str]]:
    """Yield the cases to measure, each with a weight format.

    Parameters
    ----------
    workloads, weights, kinds : sequence of str
        Names; all where none is given.
    contexts : sequence of int
        Contexts; all where none is given.
    quick : bool
        Only the quick subset: its cases, with int8 weights where formats are not named.
    slow : bool
        The slow cases, too.

    Raises
    ------
    HeadraceError
        If a name is unknown.
    """
    chosen = _pick("workload", workloads, list(WORKLOADS))
    formats = _pick("weight format", weights, FORMATS[:1] if quick else FORMATS)
    for name in formats:
        _pick("weight format", [name], FORMATS)
    sorts = _pick("kind", kinds, ("decode", "prefill"))
    for case in CASES:
        if (case.workload in chosen and case.kind in sorts and (slow or not case.slow)
                and (case.quick or not quick) and (not contexts or case.context in contexts)):
            for fmt in formats:
                yield case, fmt

"""Rotary embeddings: angles per pair of a head, and the ways in which models scale them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


__all__ = ["ROPE_KINDS", "Rope"]


#: Kinds that are known, under the names of Hugging Face's `rope_type`, and ``none`` for layers
#: that are not rotated and ``factors`` where a file gives a divisor for each frequency.
ROPE_KINDS = ("default", "linear", "llama3", "yarn", "none", "factors")


@dataclass(frozen=True, kw_only=True)
class Rope:
    """A rotary embedding: pair ``i`` of a head at position ``p`` is turned by
    ``p * frequencies[i]`` and multiplied by `magnitude`.

    Parameters
    ----------
    theta : float
        Base: ``theta ** (-2 i / head_dim)`` before scaling.
    kind : str
        One of :data:`ROPE_KINDS`.
    factor : float
        Factor by which the context was stretched: ``linear``, ``llama3`` and ``yarn``.
    original : int
        Positions before stretching: ``llama3`` and ``yarn``.
    low, high : float
        ``llama3``: `low_freq_factor` and `high_freq_factor`; ``yarn``: `beta_slow` and
        `beta_fast`. Frequencies below are divided by `factor`, those above are kept, in between
        both are mixed.
    attention : float
        ``yarn``: factor of sines and cosines; 0 stands for ``0.1 ln(factor) + 1``.
    factors : tuple of float
        ``factors``: what each frequency is divided by.
    """

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    original: int = 0
    low: float = 1.0
    high: float = 4.0
    attention: float = 0.0
    factors: tuple[float, ...] = ()

    @property
    def magnitude(self) -> float:
        """Factor of sines and cosines."""
        if self.kind != "yarn":
            return 1.0
        return self.attention or (0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0)

    def frequencies(self, head_dim: int) -> NDArray[np.float64]:
        """Angle per position of each pair, shape ``(head_dim / 2,)``, in radians."""
        pairs = head_dim // 2
        plain = self.theta ** (-2 * np.arange(pairs) / head_dim)
        if self.kind == "none":
            return np.zeros(pairs)
        if self.kind == "linear":
            return plain / self.factor
        if self.kind == "factors":
            return plain / np.array(self.factors)
        if self.kind == "llama3":
            turns = self.original * plain / (2 * math.pi)
            kept = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
            return plain * kept + plain / self.factor * (1 - kept)
        if self.kind == "yarn":
            return self._yarn(plain, head_dim)
        return plain

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Rope":
        """Rebuild one from its fields as `dataclasses.asdict` and JSON leave them."""
        return cls(**{**values, "factors": tuple(values.get("factors", ()))})

    def _yarn(self, plain: NDArray[np.float64], head_dim: int) -> NDArray[np.float64]:
        # Pair in which a wave makes so many turns within the original context.
        def pair(turns: float) -> float:
            return (head_dim * math.log(self.original / (turns * 2 * math.pi))
                    / (2 * math.log(self.theta)))

        first = max(math.floor(pair(self.high)), 0)
        last = min(math.ceil(pair(self.low)), head_dim - 1)
        ramp = (np.arange(head_dim // 2) - first) / max(last - first, 0.001)
        kept = 1 - np.clip(ramp, 0, 1)
        return plain * kept + plain / self.factor * (1 - kept)

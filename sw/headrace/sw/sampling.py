"""Choice of the next token from logits: filters, and a draw that a seed repeats."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import HeadraceError


__all__ = ["Sampler", "Sampling"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. The steps are in this order:

    1. ``repetition_penalty``: logits of tokens that the text has so far, prompt included, are
       divided by it where positive, and multiplied where negative;
    2. ``temperature``: logits are divided by it; 0 takes the greatest one, and nothing below
       matters;
    3. ``top_k``: the k most probable tokens are kept;
    4. ``top_p``: of these, the fewest most probable ones that have at least this probability
       together;
    5. ``min_p``: of these, those at least this many times as probable as the first;
    6. one of what is left is drawn.

    Of equal logits, the token with the lower id comes first.

    Parameters
    ----------
    temperature : float
        0 or more.
    top_k : int
        0 keeps all.
    top_p : float
        Above 0; 1 keeps all.
    min_p : float
        0 keeps all; up to 1.
    repetition_penalty : float
        1 changes nothing.

    Raises
    ------
    HeadraceError
        If a value is out of its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self):
        for name, fits, expected in (
                ("temperature", 0 <= self.temperature <= 1e6, "0 (the greatest logit) to 1e6"),
                ("top_k", self.top_k >= 0, "at least 1, or 0 for all"),
                ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
                ("min_p", 0 <= self.min_p <= 1, "0 to 1"),
                ("repetition_penalty", 0 < self.repetition_penalty <= 1e6,
                 "above 0, at most 1e6; 1 changes nothing")):
            if not fits:
                raise HeadraceError(f"{name} is {getattr(self, name)}: expected {expected}")

    @property
    def greedy(self) -> bool:
        """The device's own arg-max is the choice: logits need not be read."""
        return self.temperature == 0 and self.repetition_penalty == 1

    def distribution(self, logits: NDArray[np.float32], seen: Iterable[int] = ()
                     ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens that may come next, most probable first, and their probabilities.

        NaN counts as minus infinity.

        Raises
        ------
        HeadraceError
            If no logit is above minus infinity.
        """
        x = logits.astype(np.float64)
        x[np.isnan(x)] = -np.inf
        ids = np.fromiter(set(seen), np.int64)
        x[ids] = np.where(x[ids] > 0, x[ids] / self.repetition_penalty,
                          x[ids] * self.repetition_penalty)
        top = x.max()
        if top == -np.inf:
            raise HeadraceError("no logit is above minus infinity: expected the logits of a "
                                "model; the image or its weights are damaged")
        if self.temperature == 0:
            return np.array([x.argmax()]), np.ones(1)
        with np.errstate(invalid="ignore"):     # infinity less infinity
            x = np.where(x == top, 0.0, x - top) / self.temperature
        order = np.argsort(-x, kind="stable")
        if self.top_k:
            order = order[:self.top_k]
        p = np.exp(x[order])
        p /= p.sum()
        count = int(np.searchsorted(np.cumsum(p), self.top_p)) + 1 if self.top_p < 1 else len(p)
        count = min(count, int((p >= self.min_p * p[0]).sum()))
        return order[:count], p[:count] / p[:count].sum()


class Sampler:
    """Chooses tokens, and remembers those of the text.

    Parameters
    ----------
    sampling : Sampling
        How.
    seed : int, optional
        The same seed, logits and order of calls give the same tokens; a fresh one by default.

    Attributes
    ----------
    seed : int
        The seed that is used.
    """

    def __init__(self, sampling: Sampling, seed: int | None = None):
        if seed is not None and seed < 0:
            raise HeadraceError(f"seed is {seed}: expected 0 or more")
        self.sampling = sampling
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._random = np.random.Generator(np.random.PCG64(self.seed))
        self._seen: set[int] = set()

    def saw(self, ids: Iterable[int]) -> None:
        """Remember tokens that the text has, for the penalty."""
        self._seen.update(ids)

    def forget(self) -> None:
        """Begin a new text; the random numbers go on."""
        self._seen.clear()

    def choose(self, logits: NDArray[np.float32]) -> int:
        """Choose the next token, and remember it."""
        tokens, p = self.sampling.distribution(logits, self._seen)
        at = int(np.searchsorted(np.cumsum(p), self._random.random(), side="right"))
        token = int(tokens[min(at, len(tokens) - 1)])
        self.saw([token])
        return token

    def report(self) -> dict[str, Any]:
        """Settings and seed, as in the figures of a run."""
        return {**vars(self.sampling), "seed": self.seed}

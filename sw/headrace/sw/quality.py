"""Quality of a compiled model: the arithmetic of the machine beside the float32 model."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checkpoint import Weights
from .compiler import Image
from .device import Device
from .driver import Session
from .errors import HeadraceError
from .golden_device import GoldenDevice
from .reference import Reference


__all__ = ["Quality", "Tally", "measure_quality", "perplexity", "teacher_forced", "windows"]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How close a machine is to the float32 model on one text, teacher-forced.

    Parameters
    ----------
    positions, windows : int
        Positions compared, and windows of the text; each window begins with an empty cache.
    perplexity, reference_perplexity : float
        Of the text, on the machine and in float32: every token but the first of each window is
        predicted from those before it in its window.
    agreement : float
        Share of positions where both put the same token first.
    divergence : float
        Mean Kullback-Leibler divergence of the machine's distribution of the next token from that
        of float32, ``sum(p * log(p / q))``, in nats.
    max_difference, mean_difference : float
        Largest and mean absolute difference of logits.
    """

    positions: int
    windows: int
    perplexity: float
    reference_perplexity: float
    agreement: float
    divergence: float
    max_difference: float
    mean_difference: float

    @property
    def loss(self) -> float:
        """Perplexity on the machine over that in float32, minus 1."""
        return self.perplexity / self.reference_perplexity - 1

    def report(self) -> dict[str, Any]:
        """The figures as a dictionary."""
        return {**asdict(self), "loss": self.loss}


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    x -= np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return x


class Tally:
    """Sums over positions of two machines' logits."""

    def __init__(self):
        self.positions = self.windows = self.predicted = self.agreed = 0
        self.surprise = np.zeros(2)
        self.divergence = self.difference = self.largest = 0.0

    def add(self, found: NDArray[np.float32], expected: NDArray[np.float32],
            targets: Sequence[int]) -> None:
        """Add positions: logits ``[position, token]`` of both, and the tokens that follow.

        One target less than positions where the window ends.
        """
        q, p = _log_softmax(found), _log_softmax(expected)
        self.positions += len(found)
        self.agreed += int((found.argmax(axis=-1) == expected.argmax(axis=-1)).sum())
        self.divergence += float((np.exp(p) * (p - q)).sum())
        difference = np.abs(found - expected)
        self.largest = max(self.largest, float(difference.max()))
        self.difference += float(difference.mean(axis=-1, dtype=np.float64).sum())
        rows = np.arange(len(targets))
        self.surprise -= [q[rows, targets].sum(), p[rows, targets].sum()]
        self.predicted += len(targets)

    def quality(self) -> Quality:
        """The means."""
        perplexities = np.exp(self.surprise / self.predicted)
        return Quality(
            positions=self.positions, windows=self.windows, perplexity=float(perplexities[0]),
            reference_perplexity=float(perplexities[1]), agreement=self.agreed / self.positions,
            divergence=self.divergence / self.positions, max_difference=self.largest,
            mean_difference=self.difference / self.positions)


def windows(ids: Sequence[int], size: int, bos: int | None = None) -> list[list[int]]:
    """Cut a text into windows of at most `size` tokens.

    If the text begins with `bos`, every window does. A last window of a single token, which
    predicts nothing, is left out.
    """
    lead = [bos] if bos is not None and len(ids) and ids[0] == bos else []
    rest, share = list(ids)[len(lead):], size - len(lead)
    parts = [lead + rest[at:at + share] for at in range(0, len(rest), share)]
    return [part for part in parts if len(part) > 1]


@contextlib.contextmanager
def _session(image: Image, device: Device | None) -> Iterator[Session]:
    with device or GoldenDevice(image.config, memory_bytes=image.total_bytes) as machine:
        yield Session(machine, image)


def teacher_forced(image: Image, ids: Sequence[int], device: Device | None = None
                   ) -> NDArray[np.float32]:
    """Logits ``[position, token]`` after each of `ids`, from a device; golden by default."""
    with _session(image, device) as session:
        return np.concatenate(list(session.teacher_forced(ids)))


def perplexity(logits: NDArray[np.float32], ids: Sequence[int]) -> float:
    """Perplexity of ``ids[1:]``, each predicted by the row of logits before it."""
    targets = np.asarray(ids)[1:]
    return float(np.exp(-_log_softmax(logits[:len(targets)])[np.arange(len(targets)),
                                                            targets].mean()))


def _check(image: Image, reference: Reference, ids: Sequence[int]) -> None:
    vocab, other = image.shape.vocab, reference.shape.vocab
    if vocab != other:
        raise HeadraceError(f"the models have {vocab:,} and {other:,} tokens: expected two of the "
                            f"same vocabulary")
    if len(ids) < 2:
        raise HeadraceError(f"a text of {len(ids)} tokens: expected at least 2")
    for index, token in enumerate(ids):
        if not 0 <= token < vocab:
            raise HeadraceError(f"id {token} (number {index}) is out of range: expected 0 to "
                                f"{vocab - 1}")


def measure_quality(checkpoint: Weights, image: Image, ids: Sequence[int],
                    device: Device | None = None, *, window: int | None = None,
                    progress: Callable[[int], None] | None = None) -> Quality:
    """Compare a machine with the float32 model on a text.

    Parameters
    ----------
    checkpoint : Weights
        The float32 model.
    image : Image
        The same model, compiled, or another one with the same vocabulary.
    ids : sequence of int
        The text; at least two tokens.
    device : Device, optional
        The machine; golden by default.
    window : int, optional
        Tokens of a window; the context of the image by default.
    progress : callable, optional
        Called with positions that have been compared.

    Raises
    ------
    HeadraceError
        If the text is too short or has ids out of range, or `window` exceeds the context.
    """
    reference = Reference(checkpoint)
    _check(image, reference, ids)
    size = image.context if window is None else window
    if not 2 <= size <= image.context:
        raise HeadraceError(f"windows of {size} tokens: expected 2 to {image.context}, the context")
    tally = Tally()
    with _session(image, device) as session:
        for part in windows(ids, size, image.shape.bos):
            session.restart()
            hidden = reference.hidden(part)
            at = 0
            for found in session.teacher_forced(part):
                end = at + len(found)
                tally.add(found, reference.head(hidden[at:end]), part[at + 1:end + 1])
                at = end
                if progress:
                    progress(len(found))
            tally.windows += 1
    return tally.quality()

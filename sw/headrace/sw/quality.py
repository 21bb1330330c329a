"""Quality of a compiled model against the float32 model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checkpoint import Weights
from .compiler import Image
from .device import Device, GoldenDevice
from .driver import Session
from .errors import HeadraceError
from .reference import Reference


__all__ = ["Quality", "measure_quality", "perplexity", "teacher_forced"]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How close a machine is to the float32 model on one text, teacher-forced.

    Parameters
    ----------
    positions : int
        Positions compared.
    agreement : float
        Share of positions where both put the same token first.
    max_difference, mean_difference : float
        Largest and mean absolute difference of logits.
    perplexity, reference_perplexity : float
        Of the text, on the machine and in float32.
    """

    positions: int
    agreement: float
    max_difference: float
    mean_difference: float
    perplexity: float
    reference_perplexity: float

    def report(self) -> dict[str, Any]:
        """The figures as a dictionary."""
        return asdict(self)


def teacher_forced(image: Image, ids: Sequence[int], device: Device | None = None
                   ) -> NDArray[np.float32]:
    """Logits ``[position, token]`` after each of `ids`, from a device; golden by default."""
    with device or GoldenDevice(image.config, memory_bytes=image.total_bytes) as machine:
        session = Session(machine, image)
        rows = []
        for token in ids:
            session.prefill([token], logits=True)
            rows.append(session.logits())
    return np.stack(rows)


def perplexity(logits: NDArray[np.float32], ids: Sequence[int]) -> float:
    """Perplexity of ``ids[1:]``, each predicted by the row of logits before it."""
    x = logits[:len(ids) - 1].astype(np.float64)
    top = x.max(axis=-1)
    log_sum = top + np.log(np.exp(x - top[:, None]).sum(axis=-1))
    return float(np.exp((log_sum - x[np.arange(len(x)), np.asarray(ids)[1:]]).mean()))


def measure_quality(checkpoint: Weights, image: Image, ids: Sequence[int],
                    device: Device | None = None) -> Quality:
    """Compare a machine with the float32 model on a text.

    Parameters
    ----------
    checkpoint : Weights
        The model.
    image : Image
        The same model, compiled.
    ids : sequence of int
        The text; at least two tokens, at most the context.
    device : Device, optional
        The machine; golden by default.

    Raises
    ------
    HeadraceError
        If the text is too short or too long, or has ids out of range.
    """
    if not 2 <= len(ids) <= image.context:
        raise HeadraceError(f"a text of {len(ids)} tokens: expected 2 to {image.context}, the "
                            f"context")
    for index, token in enumerate(ids):
        if not 0 <= token < image.shape.vocab:
            raise HeadraceError(f"id {token} (number {index}) is out of range: expected 0 to "
                                f"{image.shape.vocab - 1}")
    expected = Reference(checkpoint).logits(ids)
    found = teacher_forced(image, ids, device)
    difference = np.abs(found - expected)
    return Quality(
        positions=len(ids),
        agreement=float((found.argmax(axis=-1) == expected.argmax(axis=-1)).mean()),
        max_difference=float(difference.max()), mean_difference=float(difference.mean()),
        perplexity=perplexity(found, ids), reference_perplexity=perplexity(expected, ids))

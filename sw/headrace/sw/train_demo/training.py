"""Optimisation and measurement of the built-in model."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .corpus import Windows
from .llama import Shape, forward, init_weights


__all__ = ["Figures", "evaluate", "train"]


PEAK_RATE = 3e-3
WARMUP_STEPS = 100
# Large weights widen the int8 steps of their group, so quantisation gains from decay too.
WEIGHT_DECAY = 0.1
BATCH = 16
IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What is known about a checkpoint.

    Attributes
    ----------
    steps, seconds : int
        Optimiser steps made, and wall-clock time since the start.
    loss : float
        Mean cross entropy per held-out token, in nats.
    bits_per_char : float
        Cross entropy per held-out character, in bits. Independent of the tokenizer.
    """
    steps: int
    seconds: int
    loss: float
    bits_per_char: float


def evaluate(shape: Shape, weights: dict[str, Tensor], stories: list[list[int]],
             chars: int) -> tuple[float, float]:
    """Measure the model on held-out stories.

    Each story is read alone from its start token. Its end token counts as a prediction, but
    not as a character.

    Parameters
    ----------
    stories : list of list of int
        Token identifiers. Positions past the context of the model are cut off.
    chars : int
        Characters of all stories together.

    Returns
    -------
    loss : float
        Mean over predicted tokens, in nats.
    bits_per_char : float
        Sum over predicted tokens in bits, divided by ``chars``.
    """
    total, count = 0.0, 0
    for first in range(0, len(stories), BATCH):
        group = [story[:shape.max_position_embeddings + 1]
                 for story in stories[first:first + BATCH]]
        length = max(map(len, group)) - 1
        inputs = torch.zeros(len(group), length, dtype=torch.int64)
        targets = torch.full((len(group), length), IGNORED)
        for row, story in enumerate(group):
            inputs[row, :len(story) - 1] = torch.tensor(story[:-1])
            targets[row, :len(story) - 1] = torch.tensor(story[1:])
        with torch.no_grad():
            logits = forward(shape, weights, inputs)
        total += F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum",
                                 ignore_index=IGNORED).item()
        count += sum(len(story) - 1 for story in group)
    return total / count, total / math.log(2) / chars


def train(shape: Shape, windows: Windows, held_out: list[list[int]], chars: int, *,
          seconds: float, save_every: float, seed: int,
          save: Callable[[dict[str, np.ndarray], Figures], None]) -> None:
    """Train a model for a given time.

    AdamW; the rate rises over 100 steps and falls to zero as a cosine of the time elapsed, so
    a slow machine makes fewer steps but still ends at a low rate. For the same reason a seed
    fixes the data order and the initial weights, not the result.

    Parameters
    ----------
    windows : Windows
        Source of training windows.
    held_out, chars
        As for :func:`evaluate`.
    seconds : float
        Wall-clock time to train for.
    save_every : float
        Seconds between two checkpoints. The end of training is always one.
    seed : int
        Seed of the initial weights.
    save : callable
        Called with the weights and figures of each checkpoint.
    """
    weights = init_weights(shape, seed=seed)
    for weight in weights.values():
        weight.requires_grad_()
    # Decay would pull the gains of the norms, the only vectors, from 1 to 0.
    optimizer = torch.optim.AdamW([
        {"params": [w for w in weights.values() if w.ndim == 2], "weight_decay": WEIGHT_DECAY},
        {"params": [w for w in weights.values() if w.ndim == 1], "weight_decay": 0.0},
    ], lr=PEAK_RATE, betas=(0.9, 0.99))

    start = time.monotonic()
    steps, saved, elapsed = 0, 0.0, 0.0
    while elapsed < seconds:
        rate = PEAK_RATE * min(1, (steps + 1) / WARMUP_STEPS)
        rate *= 0.5 * (1 + math.cos(math.pi * elapsed / seconds))
        for group in optimizer.param_groups:
            group["lr"] = rate

        tokens = torch.from_numpy(windows.batch(BATCH))
        logits = forward(shape, weights, tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

        steps += 1
        elapsed = time.monotonic() - start
        if elapsed - saved >= save_every or elapsed >= seconds:
            saved = elapsed
            loss, bits = evaluate(shape, weights, held_out, chars)
            save({name: weight.detach().numpy() for name, weight in weights.items()},
                 Figures(steps=steps, seconds=round(elapsed), loss=loss, bits_per_char=bits))

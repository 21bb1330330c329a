"""Tokens one after another: the device's own, or such as the host draws."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import HeadraceError
from ..sampling import Sampler


if TYPE_CHECKING:
    from .session import Session


__all__ = ["check_prompt", "greedy", "sampled"]


def check_prompt(session: "Session", ids: Sequence[int], tokens: int) -> None:
    """Refuse a prompt that the model cannot take.

    Raises
    ------
    HeadraceError
        If it is empty, an id is out of range, or the context is too short.
    """
    vocab, context = session.image.shape.vocab, session.image.context
    if not len(ids):
        raise HeadraceError("the prompt is empty: expected at least one token")
    for index, token in enumerate(ids):
        if not 0 <= token < vocab:
            raise HeadraceError(f"prompt id {token} (number {index}) is out of range: "
                                f"expected 0 to {vocab - 1}")
    if tokens < 1:
        raise HeadraceError(f"{tokens} tokens to generate: expected at least 1")
    if session.position + len(ids) + tokens > context:
        before = f"{session.position} positions in the cache, " if session.position else ""
        raise HeadraceError(f"{before}a prompt of {len(ids)} tokens and {tokens} to generate "
                            f"exceed the context of {context}: shorten the prompt, or "
                            f"generate fewer")


def sampled(session: "Session", ids: Sequence[int], tokens: int, sampler: Sampler
            ) -> Iterator[int]:
    """Tokens that a sampler chooses from the device's logits."""
    sampler.saw(ids)
    session.prefill(ids, logits=True)
    token = sampler.choose(session.logits())
    yield token
    for _ in range(tokens - 1):
        if token in session.image.shape.eos:
            return
        # In place of the arg-max, which the device has written there.
        session.write_tokens([token])
        session.decode(logits=True)
        token = sampler.choose(session.logits())
        yield token


def greedy(session: "Session", ids: Sequence[int], tokens: int) -> Iterator[int]:
    """Tokens that the device takes by itself."""
    eos = session.image.shape.eos
    token = session.prefill(ids)
    yield token
    left = tokens - 1
    while left and token not in eos:
        begin = session.position
        found = session.decode(min(session.passes_per_run, left))
        for index, token in enumerate(found):
            yield token
            left -= 1
            if token in eos:
                # Passes after the end are forgotten: the cache is overwritten from here on.
                session.position = begin + index + 1
                break

"""Work of the golden machine on all cores of the host."""

import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


__all__ = ["each", "own_threads", "workers"]


@cache
def workers() -> int:
    """Threads that computing is spread over: the cores that this process may use, at most 8."""
    try:
        return min(8, len(os.sched_getaffinity(0)))
    except AttributeError:      # not every system knows affinities
        return min(8, os.cpu_count() or 1)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers(), thread_name_prefix="golden")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def own_threads() -> contextlib.AbstractContextManager[Any]:
    """Keep BLAS from making threads of its own inside of :func:`each`, which costs more than it
    gives: matrices are cut into pieces that fit into a core's cache."""
    if workers() == 1:
        return contextlib.nullcontext()
    return _libraries().limit(limits=1)


def each(function: Callable[[Any], None], pieces: Iterable[Any], *, spread: bool) -> None:
    """Call `function` for each of `pieces`; in several threads if `spread`.

    NumPy lets other threads run while it works on large arrays.
    """
    if spread and workers() > 1:
        for _ in _pool().map(function, pieces):
            pass
    else:
        for piece in pieces:
            function(piece)

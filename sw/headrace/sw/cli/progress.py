"""Progress of long work in several threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


__all__ = ["Board", "Stopped", "UploadBar", "counting"]


class Stopped(Exception):
    """The work was given up."""


class Board:
    """A bar over all pieces of work, and a line for each that is under way.

    Without a terminal only what is `done` is printed. To be used as a context manager.

    Parameters
    ----------
    console : Console
        Where to show it.
    what : str
        What is counted.
    total : int
        How many of them.
    """

    def __init__(self, console: Console, what: str, total: int):
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=console, transient=True,
            disable=not console.is_terminal)
        self._console = console
        self._all = self._progress.add_task(what, total=total)
        self._stop = threading.Event()

    def __enter__(self) -> "Board":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextlib.contextmanager
    def line(self) -> Iterator[Callable[[str], None]]:
        """A line for one piece of work, as a function that changes its text.

        The function raises :exc:`Stopped` after :meth:`stop`.
        """
        task = self._progress.add_task("", total=None)

        def update(text: str) -> None:
            if self._stop.is_set():
                raise Stopped
            self._progress.update(task, description=text)

        try:
            yield update
        finally:
            self._progress.remove_task(task)

    def done(self, text: str) -> None:
        """Count one piece, and print a line about it."""
        self._progress.advance(self._all)
        self._console.print(text, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Let every line's function raise, so that threads end soon."""
        self._stop.set()


@contextlib.contextmanager
def counting(console: Console, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar over `total` of something, as a function that adds to it; quiet without a terminal."""
    with Progress(TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


class UploadBar:
    """A bar that appears with the first call and goes with the last; quiet without a terminal.

    Parameters
    ----------
    console : Console
        Where to show it.
    what : str
        What goes on.
    """

    def __init__(self, console: Console, what: str):
        self._console, self._what = console, what
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes are done."""
        if not self._console.is_terminal:
            return
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
                TransferSpeedColumn(), TimeRemainingColumn(), console=self._console,
                transient=True)
            self._task = self._progress.add_task(self._what, total=total)
            self._progress.start()
        self._progress.update(self._task, completed=done)
        if done >= total:
            self._progress.stop()
            self._progress = None

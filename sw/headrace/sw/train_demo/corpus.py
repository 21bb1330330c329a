"""Stories read from a text file and laid out as training windows."""

from pathlib import Path

import numpy as np


__all__ = ["SEPARATOR", "Windows", "read_stories", "split_stories"]


#: Line between two stories of a corpus file.
SEPARATOR = "<|end|>"


def read_stories(path: Path) -> list[str]:
    """Read the stories of a corpus file.

    Parameters
    ----------
    path : Path
        UTF-8 text, stories separated by :data:`SEPARATOR`.

    Returns
    -------
    list of str
        Stories in file order, without white space around them. Empty ones are left out.

    Raises
    ------
    ValueError
        If the file holds fewer than 100 stories, too few for a held-out part.
    """
    pieces = path.read_text(encoding="utf-8").split(SEPARATOR)
    stories = [story for piece in pieces if (story := piece.strip())]
    if len(stories) < 100:
        raise ValueError(f"Corpus must hold at least 100 stories separated by {SEPARATOR!r}, "
                         f"not {len(stories)}")
    return stories


def split_stories(stories: list[str], *, seed: int) -> tuple[list[str], list[str]]:
    """Split stories into a training part and a held-out part.

    Whole stories are held out, one in 50, chosen by ``seed``. Copies of a held-out story are
    removed from the training part, so that memorised text cannot improve the held-out figures.

    Returns
    -------
    train, held_out : list of str
        Both in corpus order.
    """
    rng = np.random.default_rng(seed)
    chosen = set(rng.choice(len(stories), size=len(stories) // 50, replace=False).tolist())
    held_out = [story for index, story in enumerate(stories) if index in chosen]
    unseen = set(held_out)
    return [story for story in stories if story not in unseen], held_out


class Windows:
    """Training windows over a set of tokenized stories.

    Every window starts with the first token of a story and goes on with further stories until
    it is full. A start inside a story would teach continuations that no prompt ever asks for.
    Each epoch visits every story once as the first of a window, in a new order, with new
    neighbours.

    Parameters
    ----------
    stories : list of list of int
        Token identifiers, including those that mark start and end.
    length : int
        Positions of a window. Windows hold ``length + 1`` tokens, for inputs and targets.
    seed : int
        Seed of the order.
    """
    def __init__(self, stories: list[list[int]], length: int, *, seed: int):
        self.length = length
        self._stories = [np.array(story, dtype=np.int64) for story in stories]
        self._rng = np.random.default_rng(seed)
        self._order = np.array([], dtype=np.int64)

    def batch(self, size: int) -> np.ndarray:
        """Take the next windows.

        Returns
        -------
        ndarray of int64, shape ``[size, length + 1]``
        """
        if len(self._order) < size:
            # A rest too small for a batch is visited at the start of the next epoch.
            fresh = self._rng.permutation(len(self._stories))
            self._order = np.concatenate([self._order, fresh])
        firsts, self._order = self._order[:size], self._order[size:]
        return np.stack([self._window(first) for first in firsts])

    def _window(self, first: int) -> np.ndarray:
        parts, total = [self._stories[first]], len(self._stories[first])
        while total <= self.length:
            parts.append(self._stories[self._rng.integers(len(self._stories))])
            total += len(parts[-1])
        return np.concatenate(parts)[:self.length + 1]

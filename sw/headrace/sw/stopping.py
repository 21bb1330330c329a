"""Stop strings: text that ends an answer, and is not part of it."""

from collections.abc import Sequence

from .errors import HeadraceError


__all__ = ["StopText"]


class StopText:
    """Passes text on until one of some strings occurs, also across pieces.

    Text that may be the beginning of one is held back until it is known.

    Parameters
    ----------
    strings : sequence of str
        The strings.

    Attributes
    ----------
    stopped : bool
        One of them has occurred: no text follows.
    """

    def __init__(self, strings: Sequence[str] = ()):
        if any(not each for each in strings):
            raise HeadraceError("a stop string is empty: expected a text")
        self._strings = strings
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Add a piece; return what is certain to come before any stop string."""
        if self.stopped:
            return ""
        text = self._held + text
        found = [at for at in map(text.find, self._strings) if at >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[:min(found)]
        held = max((length for each in self._strings for length in range(1, len(each))
                    if text.endswith(each[:length])), default=0)
        self._held = text[len(text) - held:]
        return text[:len(text) - held]

    def finish(self) -> str:
        """Return what was held back when no text follows."""
        text, self._held = self._held, ""
        return text

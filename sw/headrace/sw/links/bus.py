"""What the driver asks of a link."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..errors import HeadraceError


__all__ = ["Bus", "LinkError", "LinkTimeout"]


class LinkError(HeadraceError):
    """A link cannot be opened, broke, or carried something else than was sent."""


class LinkTimeout(LinkError):
    """An answer did not come in time. What was missing may come with a later attempt."""


class Bus(ABC):
    """Reads and writes of 32-bit words at byte addresses, multiples of 4.

    Attributes
    ----------
    label : str
        The link, for messages.
    burst_words : int
        Words that are best moved at once.
    """

    label = "link"
    burst_words = 128

    @abstractmethod
    def open(self) -> None:
        """Make the link ready; nothing of an earlier use is left in it.

        Raises
        ------
        LinkError
            If it cannot be opened.
        """

    @abstractmethod
    def close(self) -> None:
        """Give the link up; may be called at any time."""

    @abstractmethod
    def read(self, addr: int, count: int = 1) -> list[int]:
        """Words at `addr` and behind it.

        Raises
        ------
        LinkTimeout
            If they do not come in time.
        LinkError
            If the link is broken.
        """

    @abstractmethod
    def write(self, addr: int, words: Sequence[int]) -> None:
        """Write words to `addr` and behind it, without waiting for them to arrive."""

    def resync(self, patience: float = 1) -> None:   # noqa: B027 (most links lose nothing)
        """Agree with the far side again after an answer was missing or wrong.

        Where that did not help, more `patience` may.
        """

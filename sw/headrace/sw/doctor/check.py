"""What a check found."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal


__all__ = ["Check", "Verdict", "failed"]


#: "ok"; "missing": something optional is not there; "skipped": could not be checked, and the text
#: says why; "failed".
Verdict = Literal["ok", "missing", "skipped", "failed"]


@dataclass(frozen=True)
class Check:
    """One line of a report.

    Attributes
    ----------
    name : str
        What was checked.
    verdict : Verdict
    text : str
        What was found, and what to do if it is not well.
    figures : dict
        The same as numbers, for ``--json``.
    """

    name: str
    verdict: Verdict
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


def failed(checks: Iterable[Check]) -> bool:
    """Whether any check failed."""
    return any(check.verdict == "failed" for check in checks)

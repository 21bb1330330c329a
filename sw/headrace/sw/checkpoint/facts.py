"""Typed access to the fields of a `config.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import HeadraceError


__all__ = ["Facts", "read_json"]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    HeadraceError
        If the file is missing or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected a file of a "
                            f"Hugging Face checkpoint folder") from error
    except (ValueError, RecursionError) as error:
        raise HeadraceError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(content, dict):
        raise HeadraceError(f"{path}: expected a JSON object, not a {type(content).__name__}")
    return content


class Facts:
    """Typed access to the fields of a `config.json`, or to the metadata of another file.

    Every method raises :class:`~headrace.sw.errors.HeadraceError` that names file, field, value
    and what was expected.

    Parameters
    ----------
    path : Path
        The file, for messages.
    values : mapping
        Its fields.
    prefix : str
        What all names that the methods are given begin with in the file.
    """

    def __init__(self, path: Path, values: Mapping[str, Any], prefix: str = ""):
        self.path, self.values, self.prefix = path, values, prefix

    def get(self, name: str) -> Any:
        """Value of a field as it is; None if there is none."""
        return self.values.get(self.prefix + name)

    def error(self, name: str, expected: str) -> HeadraceError:
        """An error about one field."""
        value = repr(self.get(name))
        value = value if len(value) <= 200 else f"{value[:200]}..."
        return HeadraceError(f"{self.path}: {self.prefix}{name} is {value}: expected {expected}")

    def count(self, name: str, default: int | None = None, *, most: int = (1 << 31) - 1) -> int:
        """A whole number of at least 1."""
        value = self.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise self.error(name, f"a whole number from 1 to {most}")
        return value

    def layers(self, name: str) -> int:
        """A number of layers. Lists of that length are made before the weights are looked at, so
        an absurd one is refused here."""
        return self.count(name, most=1 << 16)

    def number(self, name: str, default: float) -> float:
        """A number above 0."""
        value = self.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) \
                or not 0 < value < 1e30:
            raise self.error(name, "a number above 0, at most 1e30")
        return float(value)

    def tokens(self, name: str) -> tuple[int, ...]:
        """Token ids: one, a list of them, or none."""
        value = self.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values):
            raise self.error(name, "a token id, a list of them, or null")
        return tuple(values)

    def choice(self, name: str, default: str, options: Mapping[str, str]) -> str:
        """One of some names, mapped to what it stands for."""
        value = self.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or value not in options:
            raise self.error(name, " or ".join(options))
        return options[value]

    def refuse(self, **wanted: Any) -> None:
        """Refuse fields that ask for something which is not there.

        Each field must be absent, null, or the value given here.
        """
        for name, value in wanted.items():
            if self.get(name) not in (None, value):
                raise self.error(name, f"{value!r}: nothing else is supported for architecture "
                                       f"{self.architecture}")

    @property
    def architecture(self) -> str:
        """Name of the architecture, as the checkpoint gives it."""
        if self.prefix:     # metadata of a GGUF file
            return self.prefix.removesuffix(".")
        names = self.values.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else "unknown"

"""Quantisation policies as text: ``--quant w4,head=w8``, or a TOML file."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace.hw.isa import Format

from .errors import HeadraceError
from .quantiser import Policy


__all__ = ["FORMATS", "KINDS", "parse_policy"]


#: Formats by the names that users give them.
FORMATS: dict[str, Format | None] = {"w8": Format.W8, "w4": Format.W4, "w4a": Format.W4A,
                                     "native": None}

#: Kinds of tensors, and the matrices of the program that belong to each.
KINDS = {"attn": ("kv", "q", "o"), "mlp": ("gate_up", "down"), "head": ("head",), "kv": ("kv",),
         "q": ("q",), "o": ("o",), "gate_up": ("gate_up",), "down": ("down",)}

_EXPECTED = (f"a format ({', '.join(FORMATS)}), KIND=FORMAT with a kind of "
             f"{', '.join((*KINDS, 'embed'))}, or act=8 or act=16, with commas between them")


def _format(where: str, value: Any) -> Format | None:
    if not isinstance(value, str) or value not in FORMATS:
        raise HeadraceError(f"{where}: no format {value!r}: expected one of {', '.join(FORMATS)}")
    return FORMATS[value]


def _policy(where: str, default: Any, pairs: Iterable[tuple[str, Any]]) -> Policy:
    tensors: list[tuple[str, Format | None]] = []
    act_bits = 8
    for key, value in pairs:
        if key == "embed":
            if value != "f32":
                raise HeadraceError(f"{where}: embed={value}: the machine reads embedding rows in "
                                    f"float32: expected embed=f32")
        elif key == "act":
            if str(value) not in ("8", "16"):
                raise HeadraceError(f"{where}: act={value}: expected act=8 or act=16, the bits of "
                                    f"activations")
            act_bits = int(value)
        elif key in KINDS:
            tensors += [(name, _format(where, value)) for name in KINDS[key]]
        elif key.startswith("layers."):
            tensors.append((key, _format(where, value)))
        else:
            raise HeadraceError(f"{where}: no kind of tensors {key!r}: expected {_EXPECTED}")
    return Policy(default=_format(where, default), tensors=tuple(tensors), act_bits=act_bits)


def _from_file(path: Path) -> Policy:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected a TOML file with "
                            f"formats") from error
    except ValueError as error:
        raise HeadraceError(f"{path}: not a TOML file: {error}") from error
    tensors = values.pop("tensors", {})
    if not isinstance(tensors, dict):
        raise HeadraceError(f"{path}: expected a table [tensors] of matrices and their formats")
    return _policy(str(path), values.pop("default", "native"),
                   [*values.items(), *tensors.items()])


def parse_policy(text: str | None) -> Policy:
    """Policy from what the user wrote; what comes later counts.

    Parameters
    ----------
    text : str or None
        ``native``, ``w4``, ``w4a,head=w8,attn=native``, or the path of a file ``*.toml`` with
        ``default = "w4"``, ``head = "w8"`` and a table ``[tensors]`` of single matrices.

    Raises
    ------
    HeadraceError
        If it says something else.
    """
    if text is None:
        return Policy()
    if text.endswith(".toml"):
        return _from_file(Path(text))
    default, pairs = "native", []
    for part in text.lower().split(","):
        key, equals, value = (each.strip() for each in part.partition("="))
        if equals:
            pairs.append((key, value))
        elif not key:
            raise HeadraceError(f"--quant {text!r}: expected {_EXPECTED}, or a file *.toml")
        else:
            default = key
    return _policy(f"--quant {text}", default, pairs)

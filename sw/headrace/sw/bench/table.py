"""Rows of a benchmark, for people."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


__all__ = ["print_rows", "worst"]


def worst(row: dict[str, Any], count: int = 3) -> str:
    """The causes for which an engine waited longest, each with its part of all cycles."""
    stalls = sorted(row["stalls"].items(), key=lambda item: -item[1])
    return ", ".join(f"{name.replace('_wait', '').replace('_', ' ')} "
                     f"{100 * cycles / row['cycles']:.1f} %"
                     for name, cycles in stalls[:count] if cycles > 0)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"


def print_rows(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """Print one line for each row of ``--json``.

    Parameters
    ----------
    rows : sequence of dict
        What was measured.
    console : Console
        Where to print.
    """
    # With an ideal memory, a sequential reader has the whole port.
    sequential = any(row["memory"] != "ideal" for row in rows)
    table = Table("workload", "kind", "context", "positions", "config", "weights", "memory",
                  "cycles", "port", *(["of sequential"] if sequential else []), "array", "padding",
                  "waits, worst first", box=None, header_style="bold")
    for row in rows:
        cycles = row["cycles"]
        table.add_row(*(str(row[key]) for key in ("workload", "kind", "context", "positions",
                                                  "config", "weights", "memory")),
                      "" if cycles is None else f"{cycles:,}",
                      _percent(row["port_utilisation"]),
                      *([_percent(row["of_sequential"])] if sequential else []),
                      _percent(row["array_utilisation"]),
                      _percent(row["stream_waste"]["all"]),
                      worst(row) if cycles else "")
    console.print(table)
    for row in rows:
        if matrices := row.get("matrices"):
            inside = ", ".join(f"{name} {_percent(value)}" for name, value in matrices.items())
            console.print(f"array inside each matrix: {row['workload']} {row['kind']} "
                          f"{row['context']} on {row['config']}, {row['weights']}, "
                          f"{row['memory']}: {inside}", highlight=False)

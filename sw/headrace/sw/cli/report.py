"""The report of a run, for people."""

from typing import Any

from rich.console import Console
from rich.table import Table

from headrace.hw.config import Config

from ..statistics import lost_cycles


__all__ = ["print_report"]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _passes(report: dict[str, Any], config: Config) -> Table:
    table = Table("", "passes", "positions", "cycles / pass", "bytes read / pass", "K/V hits",
                  "port", "array", box=None, header_style="bold")
    for kind in ("prefill", "decode"):
        some = [each for each in report["passes"] if each["kind"] == kind]
        if not some:
            continue
        cycles = None if some[0]["cycles"] is None else sum(each["cycles"] for each in some)
        read = sum(sum(each["bytes_read"].values()) for each in some)
        hits = sum(each["kv_hits"] for each in some)
        scanned = hits + sum(each["kv_misses"] for each in some)
        table.add_row(
            kind, str(len(some)), str(sum(each["positions"] for each in some)),
            "" if cycles is None else f"{cycles / len(some):,.0f}", f"{read / len(some):,.0f}",
            _percent(hits / scanned if scanned else None),
            _percent(_ratio(some, "least_bytes", cycles, config.port_bytes)),
            _percent(_ratio(some, "macs", cycles, config.rows * config.cols)))
    return table


def _locality(report: dict[str, Any]) -> Table:
    """Rows of layers; like layers that follow each other are one row."""
    table = Table("", "layer", "MACs / weight byte", "K/V from SRAM", "from memory",
                  "bytes / token", "least", box=None, header_style="bold")
    groups: list[tuple[tuple[str, ...], list[int | None]]] = []
    for row in report["locality"]["layers"]:
        reuse = row["macs_per_weight_byte"]
        cells = (row["kind"], "" if reuse is None else f"{reuse:.2f}", f"{row['kv_from_sram']:,}",
                 f"{row['kv_from_memory']:,}", f"{row['bytes_per_token']:,.0f}",
                 f"{row['least_bytes_per_token']:,.0f}")
        if groups and groups[-1][0] == cells and row["layer"] is not None:
            groups[-1][1].append(row["layer"])
        else:
            groups.append((cells, [row["layer"]]))
    for (kind, *cells), layers in groups:
        first, last = layers[0], layers[-1]
        name = ("the rest" if first is None else str(first) if first == last else
                f"each of {first}-{last}")
        table.add_row(kind, name, *cells)
    return table


def _ratio(passes: list[dict[str, Any]], key: str, cycles: int | None, peak: int) -> float | None:
    return sum(each[key] for each in passes) / (cycles * peak) if cycles else None


def _dram(name: str, found: dict[str, int]) -> str:
    accesses = max(1, found["reads"] + found["writes"])
    shares = ", ".join(f"{_percent(found[key] / accesses)} row {key}"
                       for key in ("hits", "misses", "conflicts"))
    return (f"{name}: {accesses:,} accesses, {shares}; {found['refreshes']:,} refreshes, "
            f"{found['turnarounds']:,} turnarounds of the bus")


def _padding(waste: dict[str, float], config: Config) -> str:
    text = f"padding: {_percent(waste['all'])} of the weight stream"
    if waste["columns"]:
        text += (f"; {_percent(waste['columns'])} because {config.cols} columns take "
                 f"{config.stride}, the next power of two")
    return text


def print_report(report: dict[str, Any], config: Config, console: Console) -> None:
    """Print the figures of a run.

    Parameters
    ----------
    report : dict
        What ``--json`` writes.
    config : Config
        Configuration of the run.
    console : Console
        Where to print.
    """
    console.print()
    console.print(_passes(report, config))
    if report["passes"]:
        console.print()
        console.print(_locality(report))
    totals, clock = report["totals"], report["clock_hz"]
    if totals["cycles"]:
        table = Table("engine", "waited for", "cycles", "of all", box=None, header_style="bold")
        for engine, cause, count in lost_cycles(report)[:8]:
            table.add_row(engine, cause, f"{count:,}", _percent(count / totals["cycles"]))
        console.print()
        console.print(table)
        speed = report["simulated_hz"]
        of, source = (("the assumed clock", " (simulated, not measured on a board)") if speed
                      else ("a clock", " (cycles as the device counts them)"))
        first = f"first token after {report['ttft_cycles']:,} cycles"
        if report["tpot_cycles"]:
            first += (f", then one every {report['tpot_cycles']:,.0f} cycles: "
                      f"{clock / report['tpot_cycles']:,.1f} tokens/s at {of} of "
                      f"{clock / 1e6:g} MHz{source}")
        console.print()
        console.print(first, highlight=False)
        if speed:
            console.print(f"simulated {totals['cycles']:,} cycles at {speed / 1e3:,.0f} kHz",
                          highlight=False)
    else:
        seconds = report["wall_seconds"]
        console.print(f"{len(report['tokens'])} tokens in {seconds:.2f} s on the golden machine",
                      highlight=False)
    console.print(_padding(report["stream_waste"], config), highlight=False)
    if report.get("dram"):
        console.print(_dram(report["memory"], report["dram"]), highlight=False)
    if report["check"] is not None:
        good = report["check"] == "bit-exact"
        console.print(f"check: {report['check']}", style="green" if good else "red",
                      highlight=False)

"""``headrace bench``: workloads of real shapes, measured on the RTL."""

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headrace.hw.config import Config, load_config

from ..bench import WORKLOADS, Case, Measurement, measure, print_rows, select
from ..bench.workloads import CONFIGS
from ..errors import HeadraceError
from .machine import memory_name, memory_options, open_device, sequential_cycles
from .progress import Board
from .verilog import write_files


__all__ = ["bench"]


#: A measurement: its number, the case, the format of the weights, the memory.
_Job = tuple[int, Case, str, str]

_ALL = "; may be given more than once, all by default."


def bench(
    config: Annotated[list[str] | None, typer.Option(
        metavar="NAME|FILE.toml", help=f"Configuration; {' and '.join(CONFIGS)} by default.")
    ] = None,
    workload: Annotated[list[str] | None, typer.Option(
        metavar="|".join(WORKLOADS), help=f"Workload{_ALL}")] = None,
    weights: Annotated[list[str] | None, typer.Option(
        metavar="w8|w4|w4a", help=f"Format of the weights{_ALL}")] = None,
    kind: Annotated[list[str] | None, typer.Option(
        metavar="decode|prefill", help=f"Kind of passes{_ALL}")] = None,
    context: Annotated[list[int] | None, typer.Option(
        metavar="TOKENS", help=f"Context{_ALL}")] = None,
    memory: Annotated[list[str] | None, typer.Option(
        metavar="ideal|preset|DRAM", help="Memory beside the device: `ideal` (latency 60, full "
        "bandwidth), or a DRAM as in `headrace run`, `preset` for the one that the configuration "
        "names. May be given more than once; `ideal` and `preset` by default.")
    ] = None,
    quick: Annotated[bool, typer.Option(
        "--quick", help="A subset that takes some minutes.")] = False,
    slow: Annotated[bool, typer.Option("--slow", help="The long cases, too.")] = False,
    check: Annotated[bool, typer.Option(
        "--check", help="Compare every run with the golden machine; exit code 1 on a difference.")
    ] = False,
    jobs: Annotated[int, typer.Option(
        "--jobs", "-j", min=1, help="Cases that are simulated at the same time.")
    ] = min(2, os.cpu_count() or 1),
    json_file: Annotated[Path | None, typer.Option(
        "--json", metavar="FILE", help="Write all rows to a file.")] = None,
):
    """Measure workloads of real shapes on the simulated device, with synthetic weights.

    The table goes to standard output, progress to standard error. Every figure comes from the
    counters of the device.

    Example: headrace bench --quick --config edge --json bench.json
    """
    notes = Console(stderr=True)
    if json_file is not None and json_file.is_dir():
        raise HeadraceError(f"--json {json_file}: is a folder: expected a file to write")
    configs = [load_config(name) for name in config or CONFIGS]
    cases = list(select(workloads=workload or (), weights=weights or (), kinds=kind or (),
                        contexts=context or (), quick=quick, slow=slow))
    if not cases:
        raise HeadraceError("no case is left by these options: see docs/bench.md for the list")
    # Cases that share compiled weights follow each other in one worker.
    groups: dict[Any, list[_Job]] = {}
    count = 0
    for chosen in configs:
        names = {memory_name(chosen, name): None for name in memory or ("ideal", "preset")}
        for name in names:
            memory_options(chosen, name)    # an unknown one is refused now, not after an hour
        for case, fmt in cases:
            for name in names:
                groups.setdefault((chosen, case.workload, fmt), []).append(
                    (count, case, fmt, name))
                count += 1
    rows: dict[int, dict[str, Any]] = {}
    lock = threading.Lock()

    def ordered() -> list[dict[str, Any]]:
        return [rows[index] for index in sorted(rows)]

    def keep(index: int, row: dict[str, Any]) -> None:
        with lock:
            rows[index] = row
            if json_file is not None:
                # After each case: a long run that is broken off leaves what it found.
                write_files(json_file.parent,
                            {json_file.name: json.dumps(ordered(), indent=1) + "\n"})

    with Board(notes, "cases", count) as board, ThreadPoolExecutor(jobs) as pool:
        try:
            # The compiled loop does not hold the interpreter's lock: threads are enough.
            running = [pool.submit(_measure, chosen, group, check, board, keep)
                       for (chosen, *_), group in groups.items()]
            for finished in as_completed(running):
                finished.result()
        except BaseException:
            board.stop()
            pool.shutdown(cancel_futures=True)
            raise
    # Wide enough for a table in a file.
    print_rows(ordered(), Console(width=max(190, Console().width)))


def _measure(config: Config, group: list[_Job], check: bool, board: Board,
             keep: Callable[[int, dict[str, Any]], None]) -> None:
    """Make the measurements of a group, one after the other."""
    with board.line() as update:
        measurement = Measurement(
            config, lambda image, memory: open_device("sim", image, memory=memory),
            sequential=lambda memory, size: sequential_cycles(config, memory, size),
            check=check, progress=update)
        for index, case, fmt, memory in group:
            title, start = case.title(config.name, fmt, memory), time.perf_counter()
            update(title)
            row = measure(WORKLOADS[case.workload], case, fmt, measurement, memory)
            keep(index, row)
            board.done(f"{title}: {row['cycles']:,} cycles in {time.perf_counter() - start:.0f} s")

"""``headrace bench``: workloads of real shapes, measured on the RTL."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.hw.config import load_config

from ..bench import WORKLOADS, Measurement, measure, print_rows, select
from ..bench.workloads import CONFIGS
from ..errors import HeadraceError
from .machine import memory_options, open_device
from .verilog import write_files


__all__ = ["bench"]


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
        metavar="ideal|DRAM", help="Memory beside the device: `ideal` (latency 60, full "
        "bandwidth), the default, or a DRAM as in `headrace run`; may be given more than once.")
    ] = None,
    quick: Annotated[bool, typer.Option(
        "--quick", help="A subset that takes some minutes.")] = False,
    slow: Annotated[bool, typer.Option("--slow", help="The long cases, too.")] = False,
    check: Annotated[bool, typer.Option(
        "--check", help="Compare every run with the golden machine; exit code 1 on a difference.")
    ] = False,
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
    names = memory or ["ideal"]
    for name in names:
        memory_options(configs[0], name)    # an unknown one is refused now, not after an hour
    cases = list(select(workloads=workload or (), weights=weights or (), kinds=kind or (),
                        contexts=context or (), quick=quick, slow=slow))
    if not cases:
        raise HeadraceError("no case is left by these options: see docs/bench.md for the list")
    rows = []
    for chosen in configs:
        for name in names:
            measurement = Measurement(
                chosen, lambda image, name=name: open_device("sim", image, memory=name,
                                                             notes=notes),
                memory=name, check=check)
            for case, fmt in cases:
                start = time.perf_counter()
                with notes.status("") as status:
                    measurement.progress = status.update
                    rows.append(measure(WORKLOADS[case.workload], case, fmt, measurement))
                notes.print(f"{case.workload} {case.kind} {case.context} on {chosen.name}, {fmt}, "
                            f"{name}: {rows[-1]['cycles']:,} cycles in "
                            f"{time.perf_counter() - start:.0f} s", highlight=False)
                if json_file is not None:
                    # After each case: a long run that is broken off leaves what it found.
                    write_files(json_file.parent,
                                {json_file.name: json.dumps(rows, indent=1) + "\n"})
    # Wide enough for a table in a file.
    print_rows(rows, Console(width=max(170, Console().width)))

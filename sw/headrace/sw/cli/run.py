"""``headrace run``: a model generates text on a machine."""

import gzip
import json
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headrace.hw.config import load_config

from ..check import Difference
from ..driver import Session
from ..errors import HeadraceError
from ..page import render
from ..stopping import StopText
from ..trace import Trace, chrome_trace
from .machine import KINDS, memory_name, memory_options, open_device
from .model import MODEL_HELP, QUANT_HELP, Model, open_model
from .output import (
    MinP,
    Output,
    Penalty,
    Seed,
    Stop,
    Temperature,
    TopK,
    TopP,
    make_sampler,
)
from .report import print_report
from .verilog import write_files


__all__ = ["parse_ids", "run"]


def parse_ids(text: str) -> list[int]:
    """Token ids from ``1,2,3``.

    Raises
    ------
    HeadraceError
        If the text is anything else.
    """
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise HeadraceError(f"--prompt-ids {text!r}: expected whole numbers with commas between "
                            f"them, as 1,2,3") from error


def _prompt(model: Model, prompt: str | None, prompt_ids: str | None) -> list[int]:
    if prompt_ids is not None:
        return parse_ids(prompt_ids)
    assert prompt is not None
    return model.encode(prompt, "--prompt-ids 1,2,3")


def _check_files(device: str, files: dict[str, Path | None]) -> None:
    """Refuse now what would fail after a long run."""
    for option, path in files.items():
        if path is not None and path.is_dir():
            raise HeadraceError(f"{option} {path}: is a folder: expected a file to write")
        if path is not None and device == "golden" and option != "--json":
            raise HeadraceError(f"{option} shows cycles, which the golden machine does not have: "
                                f"use --device sim")


def _write_trace(trace: Trace, report: dict[str, Any], trace_file: Path | None,
                 page_file: Path | None) -> None:
    """Write the files that need a trace."""
    if trace_file is not None:
        facts = {name: report[name] for name in ("model", "config", "clock_hz", "memory")}
        text = json.dumps(chrome_trace(trace, **facts), separators=(",", ":")).encode()
        packed = gzip.compress(text, mtime=0) if trace_file.name.endswith(".gz") else text
        write_files(trace_file.parent, {trace_file.name: packed})
    if page_file is not None:
        write_files(page_file.parent, {page_file.name: render(trace, report)})


def run(
    command: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    prompt: Annotated[str | None, typer.Option(help="Text to continue.")] = None,
    prompt_ids: Annotated[str | None, typer.Option(
        metavar="1,2,3", help="Token ids to continue, instead of a text.")] = None,
    tokens: Annotated[int, typer.Option(help="Tokens to generate.")] = 48,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    penalty: Penalty = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    device: Annotated[str, typer.Option(
        metavar="|".join(KINDS), help="The NumPy machine; the RTL in simulation; a whole board in "
        "simulation, from its UART to the pins of its DRAM: sim:ulx3s; or a board by its URL: "
        "uart:///dev/ttyUSB0?baud=1000000, tcp://HOST:PORT, devmem://BOARD, pynq://FILE.bit."
        )] = "sim",
    config: Annotated[str | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration, see `headrace configs`; the smallest preset "
        "that the model fits by default.")] = None,
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    memory: Annotated[str, typer.Option(
        metavar="ideal|preset|DRAM", help="Memory of the simulation: fixed latency and bandwidth, "
        "or the timing of ddr3-1600-x16, ddr4-2400-x64, lpddr4-2400-x16, hbm2-pc, sdr-133-x16, "
        "litedram-sdr-100-x16, litedram-sdr-65-x16 or litedram-ddr3-300-x16 at the clock of the "
        "configuration; `preset` is the one that the configuration names (sim).")] = "ideal",
    latency: Annotated[int, typer.Option(
        metavar="CYCLES", help="Cycles until ideal memory answers a read (sim).")] = 60,
    bandwidth: Annotated[float, typer.Option(
        metavar="FRACTION", help="Most beats per cycle of ideal memory, up to 1 (sim).")] = 1.0,
    stall_seed: Annotated[int | None, typer.Option(
        metavar="N", help="Stall every channel at random, from this seed (sim).")] = None,
    chunk: Annotated[int | None, typer.Option(
        metavar="N", help="Positions of a prefill pass; as many as fit by default.")] = None,
    passes: Annotated[int, typer.Option(
        "--passes-per-run", metavar="N",
        help="Decode passes that the device makes without the host; 1 where the host chooses "
        "tokens.")] = 1,
    context: Annotated[int | None, typer.Option(
        metavar="N", help="Positions of the cache; what the model allows by default.")] = None,
    check: Annotated[bool, typer.Option(
        "--check", help="Compare with the golden machine after each run of passes: logits, "
        "arg-max, every byte of the cache. Exit code 1 on a difference.")] = False,
    json_file: Annotated[Path | None, typer.Option(
        "--json", metavar="FILE", help="Write all figures to a file.")] = None,
    trace_file: Annotated[Path | None, typer.Option(
        "--trace", metavar="FILE", help="Write what every engine did and when, for "
        "ui.perfetto.dev or chrome://tracing; packed if the name ends in .gz (sim).")] = None,
    page_file: Annotated[Path | None, typer.Option(
        "--report", metavar="FILE.html", help="Write a page with figures, roofline, lost cycles "
        "and a timeline, which needs no network (sim).")] = None,
    quiet: Annotated[bool, typer.Option(
        "-q", "--quiet", help="Only the text: no progress, no report.")] = False,
):
    """Generate text by prefill and decode, and report where every cycle and byte went.

    Text goes to standard output as it comes, progress and report to standard error.

    Example: headrace run demo --prompt "Once upon a time" --check
    """
    notes = Console(stderr=True, quiet=quiet)
    traced = trace_file is not None or page_file is not None
    _check_files(device, {"--json": json_file, "--trace": trace_file, "--report": page_file})
    # Likewise: refused before the model is compiled.
    if (prompt is None) == (prompt_ids is None):
        raise HeadraceError("expected either --prompt TEXT or --prompt-ids 1,2,3")
    if prompt == "":
        raise HeadraceError("the prompt is empty: expected a text, or --prompt-ids 1,2,3")
    sampler = make_sampler(temperature, top_k, top_p, min_p, penalty, seed)
    StopText(stop or ())
    memory_options(load_config(config or "tiny"), memory, latency=latency, bandwidth=bandwidth,
                   stall_seed=stall_seed)
    opened = open_model(model, config=config, quant=quant, context=context, notes=notes)
    image, chosen = opened.image, opened.image.config
    ids = _prompt(opened, prompt, prompt_ids)
    notes.print(f"{image.model} on {chosen.name} ({device}): {chosen.rows} x {chosen.cols} "
                f"array, {chosen.port_bits}-bit port; image of {image.content.size:,} bytes",
                style="dim", highlight=False)
    found: list[int] = []
    ideal = device == "sim" and memory == "ideal"
    with open_device(device, image, memory=memory, latency=latency, bandwidth=bandwidth,
                     stall_seed=stall_seed, activity=traced, notes=notes) as machine:
        session = Session(machine, image, chunk=chunk, passes_per_run=passes, check=check,
                          trace=traced,
                          notify=lambda text: notes.print(text, style="yellow", highlight=False,
                                                          markup=False))
        generated = session.generate(ids, tokens, sampler)
        output = Output(opened.tokenizer, ids, stop=stop or ())
        start = time.perf_counter()
        difference = None
        try:
            for token in generated:
                found.append(token)
                output.push(token)
                if output.stopped:
                    break
        except Difference as error:
            difference = error
        output.finish()
        print()
        trace = session.trace()
        report: dict[str, Any] = {
            "model": image.model, "config": chosen.name, "device": device,
            "prompt_ids": ids, "tokens": found, "text": output.text,
            "sampling": None if sampler.sampling.greedy else sampler.report(),
            **session.report(trace),
            "wall_seconds": time.perf_counter() - start,
            "memory": memory_name(chosen, memory) if device == "sim" else None,
            "dram": machine.dram_statistics,
            "latency": latency if ideal else None, "bandwidth": bandwidth if ideal else None,
            "command": shlex.join(["headrace", *command.obj]),
        }
    print_report(report, chosen, notes)
    if json_file is not None:
        write_files(json_file.parent, {json_file.name: json.dumps(report, indent=1) + "\n"})
    if trace is not None:
        _write_trace(trace, report, trace_file, page_file)
    if difference is not None:
        raise difference

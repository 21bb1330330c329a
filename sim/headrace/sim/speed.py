"""How fast a configuration is simulated: compiled loop, cocotb, and the array alone."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.hw.config import Config
from headrace.sw.checkpoint import load_checkpoint
from headrace.sw.compiler import Image, compile_model
from headrace.sw.driver import Session

from . import cache
from .array_loop import ArrayLoop
from .device import SimDevice
from .generation import device_verilog
from .memory import MemoryOptions
from .simulation import build_simulation


__all__ = ["PROMPT", "converse", "fresh_cache", "measure"]


#: Tokens of the built-in model that a run begins with.
PROMPT = (1, 454, 455, 324, 437)

#: Cycles of the array alone in one repetition.
_ARRAY_CYCLES = 200_000


@contextmanager
def fresh_cache() -> Iterator[None]:
    """An empty cache of builds inside, so that everything is generated and built anew."""
    before = os.environ.get("HEADRACE_CACHE")
    with tempfile.TemporaryDirectory(prefix="headrace-speed-") as folder:
        os.environ["HEADRACE_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["HEADRACE_CACHE"]
            else:
                os.environ["HEADRACE_CACHE"] = before


def converse(device: SimDevice, image: Image, tokens: int) -> float:
    """Let the built-in model generate some tokens; returns cycles per processor second."""
    with device:
        found = list(Session(device, image).generate(list(PROMPT), tokens))
        if len(found) != tokens:
            raise AssertionError(f"{len(found)} tokens instead of {tokens}")
        return device.simulation.processor_hz


def measure(config: Config, *, tokens: int = 8, repeat: int = 5, cocotb: bool = True,
            progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Measure one configuration.

    The repetitions of all kinds take turns, so that other work on the machine meets all of them,
    and every speed is in cycles per second of processor time.

    Parameters
    ----------
    config : Config
        What to measure.
    tokens : int
        Tokens of the built-in model that are generated in each repetition.
    repeat : int
        Repetitions.
    cocotb : bool
        Measure the bench, too.
    progress : callable
        Gets a line for each step.

    Returns
    -------
    dict
        ``array_khz``, ``device_khz``, ``cocotb_khz``: medians. ``device_ratio``, ``cocotb_ratio``:
        medians of device by array and of cocotb by device in the same repetition.
        ``generate_seconds``, ``build_seconds``, ``build_cpu_seconds``: of the device, when the
        cache got it. Those of cocotb are None without it.
    """
    progress(f"{config.name}: generating the RTL")
    verilog = device_verilog(config)
    progress(f"{config.name}: building the compiled loop")
    library = build_simulation(verilog)
    progress(f"{config.name}: building the array alone")
    ArrayLoop.build(config)
    image = compile_model(load_checkpoint("demo"), config)
    options = MemoryOptions()
    rows = []
    if cocotb:
        progress(f"{config.name}: building the bench")
        _bench(config, verilog, 1)
    with ArrayLoop(config) as array:
        array.run(1000)
        for index in range(repeat):
            progress(f"{config.name}: repetition {index + 1} of {repeat}")
            begin = time.process_time()
            array.run(_ARRAY_CYCLES)
            row = {"array": _ARRAY_CYCLES / (time.process_time() - begin)}
            row["device"] = converse(
                SimDevice(config, verilog, options, memory_bytes=image.total_bytes), image, tokens)
            if cocotb:
                row["cocotb"] = _bench(config, verilog, tokens)
            rows.append(row)

    def median(over: Callable[[dict[str, float]], float]) -> float:
        return statistics.median(over(row) for row in rows)

    built = {entry.key: entry for entry in cache.entries()}
    build = built[library.parent.name]
    return {
        "config": config.name, "tokens": tokens, "repeat": repeat,
        "array_khz": median(lambda row: row["array"]) / 1e3,
        "device_khz": median(lambda row: row["device"]) / 1e3,
        "cocotb_khz": median(lambda row: row["cocotb"]) / 1e3 if cocotb else None,
        "device_ratio": median(lambda row: row["device"] / row["array"]),
        "cocotb_ratio": median(lambda row: row["cocotb"] / row["device"]) if cocotb else None,
        "generate_seconds": next((entry.seconds for entry in built.values()
                                  if entry.kind == "verilog"
                                  and entry.label == config.name), None),
        "build_seconds": build.seconds, "build_cpu_seconds": build.cpu_seconds,
    }


def _bench(config: Config, verilog: str, tokens: int) -> float:
    # The same conversation under cocotb, in a process of its own.
    from .bench import run_device_bench

    with tempfile.TemporaryDirectory(prefix="headrace-speed-") as folder:
        report = Path(folder) / "report.json"
        run_device_bench(verilog, "headrace.sim.speed_bench", parameters={
            "config": asdict(config), "tokens": tokens, "report": str(report)})
        return json.loads(report.read_text(encoding="utf-8"))["processor_hz"]

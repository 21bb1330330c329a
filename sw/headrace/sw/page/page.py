"""The page: what the template shows, computed from a report and its trace."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from headrace.hw.config import CLASSES

from ..statistics import lost_cycles
from ..trace import OPERATIONS, Trace
from .roofline import roofline
from .svg import CLASS_OF, bar
from .timeline import timeline


__all__ = ["render"]


TEMPLATE = Path(__file__).with_name("page.html.j2")


def _turns(trace: Trace) -> list[int]:
    """The passes whose timelines are shown: the last decode pass and the first prefill pass."""
    kinds = [span.kind for span in trace.spans]
    shown = [len(kinds) - 1] if kinds[-1] == "decode" else []
    return [*shown, *([kinds.index("prefill")] if "prefill" in kinds else [])]


def _bytes_by_class(report: dict[str, Any]) -> list[tuple[str, int, float, Markup]]:
    totals = report["totals"]
    rows = [(f"{name}, {what}", totals[f"bytes_{what}"][name]) for what in ("read", "written")
            for name in CLASSES]
    rows.append(("cache, read from SRAM (not on the port)", totals["kv_hits"]))
    most = max(1, *(size for _, size in rows))
    total = sum(size for _, size in rows[:-1])
    return [(name, size, size / total if index < len(rows) - 1 else float("nan"),
             bar(size / most)) for index, (name, size) in enumerate(rows) if size]


def _lost(report: dict[str, Any]) -> list[tuple[str, str, int, float, Markup]]:
    cycles = report["totals"]["cycles"]
    return [(engine, cause, count, count / cycles, bar(count / cycles))
            for engine, cause, count in lost_cycles(report)]


def _utilisation(report: dict[str, Any], kind: str, key: str, peak: int) -> float | None:
    passes = [each for each in report["passes"] if each["kind"] == kind]
    cycles = sum(each["cycles"] for each in passes)
    return sum(each[key] for each in passes) / (cycles * peak) if cycles else None


def _clock(report: dict[str, Any]) -> str:
    return f"{report['clock_hz'] / 1e6:g} MHz"


def _facts(trace: Trace, report: dict[str, Any]) -> list[tuple[str, str]]:
    image, config = trace.image, trace.image.config
    shape = image.shape
    memory = (f"timing of {report['memory']}" if report["memory"] != "ideal" else
              f"ideal: latency {report['latency']} cycles, beats per cycle: "
              f"{report['bandwidth']:g}")
    return [
        ("model", f"{report['model']}: {shape.layers} layers, dimension {shape.dim}, FFN "
         f"{shape.ffn}, {shape.heads} heads, {shape.kv_heads} K/V heads, vocabulary "
         f"{shape.vocab:,}"),
        ("configuration", f"{config.name}: {config.rows} x {config.cols} array, "
         f"{config.port_bits}-bit port, lanes: {config.lanes}"),
        ("on-chip memory", f"{config.sram_bytes:,} bytes"),
        ("memory", memory),
        ("clock", f"{_clock(report)}, assumed"),
        ("passes", f"{report['totals']['passes']} over {report['totals']['positions']} positions, "
         f"{report['totals']['cycles']:,} cycles"),
        ("compared with the golden machine", report["check"] or "no (--check does)"),
    ]


def render(trace: Trace, report: dict[str, Any]) -> str:
    """The page.

    Parameters
    ----------
    trace : Trace
        What the engines did.
    report : dict
        What ``--json`` writes for the same passes. The page holds it as a whole, too, in an
        element of the name ``figures``.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True)
    environment.filters |= {
        "count": lambda value: "" if value is None else f"{value:,.0f}",
        "percent": lambda value: "" if value is None or value != value else f"{100 * value:.1f} %",
        "decimal": lambda value: "" if value is None else f"{value:,.2f}",
    }
    config = trace.image.config
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    locality = report["locality"]
    # A script element ends at the first "</", wherever it stands.
    figures = Markup(json.dumps(report).replace("<", "\\u003c"))
    return template.render(
        report=report, config=config, clock=_clock(report), figures=figures,
        facts=_facts(trace, report),
        tokens_per_second=(report["clock_hz"] / report["tpot_cycles"] if report["tpot_cycles"]
                           else None),
        decode_port=_utilisation(report, "decode", "least_bytes", config.port_bytes),
        prefill_array=_utilisation(report, "prefill", "macs", config.rows * config.cols),
        over_least=(sum(sum(report["totals"][name].values())
                        for name in ("bytes_read", "bytes_written"))
                    / max(1, report["totals"]["least_bytes"])),
        operations=locality["operations"], layers=locality["layers"],
        legend=[(name, CLASS_OF[name]) for name in OPERATIONS],
        roofline=roofline(locality["operations"], config),
        bytes_by_class=_bytes_by_class(report), lost=_lost(report),
        timelines=[timeline(trace, turn) for turn in _turns(trace)],
        interval=trace.activity.width)

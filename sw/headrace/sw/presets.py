"""Configurations that are tried for a model."""

from dataclasses import replace

from headrace.hw.config import PRESETS, Config, ConfigError

from .checkpoint import ModelShape


__all__ = ["presets_for"]


def presets_for(shape: ModelShape) -> dict[str, Config]:
    """All presets, the smallest first; if the heads of a model are larger than any of them allows,
    the presets with room for such heads follow, as ``NAME-headN``."""
    size = -(-shape.head_dim // 16) * 16
    found = dict(PRESETS)
    if size > max(config.head_dim for config in PRESETS.values()):
        for config in PRESETS.values():
            try:
                wider = replace(config, name=f"{config.name}-head{size}", head_dim=size)
            except ConfigError:     # no machine has such heads
                return found
            found[wider.name] = wider
    return found

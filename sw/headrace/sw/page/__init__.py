"""One page about a run, in a single file that needs no network."""

from .page import render


__all__ = ["render"]

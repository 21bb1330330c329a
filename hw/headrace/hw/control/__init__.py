"""Registers, counters and the sequencer."""

from .control import Control
from .counters import CounterBank, IncrementLayout
from .sequencer import Sequencer


__all__ = ["Control", "CounterBank", "IncrementLayout", "Sequencer"]

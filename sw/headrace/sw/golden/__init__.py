"""Golden machine: the instructions of an image in NumPy, equal to the hardware bit for bit."""

from .machine import GoldenMachine, Trace
from .state import BusError, State


__all__ = ["BusError", "GoldenMachine", "State", "Trace"]

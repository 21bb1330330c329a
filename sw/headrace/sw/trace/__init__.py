"""What the engines of a device did in a run, cycle by cycle, and its file."""

from .activity import Activity
from .chrome import chrome_trace
from .labels import BETWEEN, OPERATIONS, Label, labels
from .tracer import Operation, Trace, Tracer


__all__ = ["Activity", "BETWEEN", "Label", "OPERATIONS", "Operation", "Trace", "Tracer",
           "chrome_trace", "labels"]

"""Benchmarks: workloads of real shapes on the simulated device, with synthetic weights."""

from .runner import Measurement, measure
from .table import print_rows
from .workloads import CASES, WORKLOADS, Case, Workload, select


__all__ = ["CASES", "WORKLOADS", "Case", "Measurement", "Workload", "measure", "print_rows",
           "select"]

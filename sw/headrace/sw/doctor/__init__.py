"""Self-test: of the environment, and of a device."""

from .check import Check, Verdict, failed
from .device import DeviceDoctor
from .environment import examine_environment
from .memory_test import MemoryTest, test_memory


__all__ = ["Check", "DeviceDoctor", "MemoryTest", "Verdict", "examine_environment", "failed",
           "test_memory"]

"""Memory system: everything that reads or writes memory, behind one AXI4 port."""

from .system import MemorySystem


__all__ = ["MemorySystem"]

"""Host driver: loads an image, feeds prompts, reads tokens and counters."""

from .failure import DeviceError
from .session import Session


__all__ = ["DeviceError", "Session"]

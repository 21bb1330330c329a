"""Links to boards: buses that reach registers and memory, and devices over them."""

from .bus import Bus, LinkError, LinkTimeout
from .url import LINKS, Link, link_device, parse_link


__all__ = ["LINKS", "Bus", "Link", "LinkError", "LinkTimeout", "link_device", "parse_link"]

"""Devices by URL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from ..device import Device
from ..errors import HeadraceError
from .board import BoardDevice
from .board_registers import BoardRegisters
from .mapped import DevmemWindow, MappedDevice, PynqWindow
from .tcp import PORT, TcpBus
from .uart import BAUD, UartBus


__all__ = ["LINKS", "Link", "link_device", "parse_link"]


#: Forms of URLs, by scheme.
LINKS = {
    "uart": "uart:///dev/ttyUSB0?baud=1000000",
    "tcp": "tcp://HOST:PORT",
    "devmem": "devmem://?control=0xa0000000&memory=0x40000000&size=0x20000000, or devmem://BOARD",
    "pynq": "pynq://PATH.bit?ip=headrace_0&size=0x4000000",
}

#: Options of each scheme.
_OPTIONS = {"uart": {"baud", "timeout", "board"}, "tcp": {"timeout", "board"},
            "devmem": {"control", "memory", "size", "file", "control_file"},
            "pynq": {"ip", "size"}}


@dataclass(frozen=True)
class Link:
    """A URL of a device, in parts."""

    url: str
    scheme: str
    host: str
    port: int | None
    path: str
    options: Mapping[str, str]

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of the options, decimal or with 0x."""
        text = self.options.get(name)
        if text is None and default is not None:
            return default
        try:
            return int(text or "", 0)
        except ValueError:
            raise HeadraceError(f"{self.url}: {name}={text or ''}: expected a whole number, as in "
                                f"{LINKS[self.scheme]}") from None

    @property
    def timeout(self) -> float | None:
        """Seconds that an answer may take, where the URL says so."""
        text = self.options.get("timeout")
        try:
            value = None if text is None else float(text)
        except ValueError:
            value = 0.0
        if value is not None and not 0 < value < 3600:
            raise HeadraceError(f"{self.url}: timeout={text}: expected seconds above 0")
        return value


def parse_link(url: str) -> Link:
    """Take a URL apart.

    Raises
    ------
    HeadraceError
        If it is none of :data:`LINKS`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise HeadraceError(f"{url}: {error}: expected {LINKS['tcp']}") from error
    if parts.scheme not in LINKS:
        raise HeadraceError(f"no device {url!r}: expected one of "
                            f"{'; '.join(LINKS.values())}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS[parts.scheme]:
            raise HeadraceError(f"{url}: no option {name!r}: expected some of "
                                f"{', '.join(sorted(_OPTIONS[parts.scheme]))}")
    return Link(url, parts.scheme, parts.hostname or "", port, parts.netloc + parts.path, options)


def link_device(url: str, *, fingerprint: int | None = None, memory_bytes: int | None = None,
                upload: Callable[[int, int], None] | None = None) -> Device:
    """A device by URL, to be used as a context manager.

    Parameters
    ----------
    url : str
        One of :data:`LINKS`.
    fingerprint : int, optional
        Configuration that the device must have; it is checked when the device is opened.
    memory_bytes : int, optional
        Bytes that a device which allocates its memory needs, where the URL does not say.
    upload : callable, optional
        Called during a large write with the bytes done and the bytes in all.

    Raises
    ------
    HeadraceError
        If the URL is wrong.
    """
    link = parse_link(url)
    if link.scheme == "uart":
        if not link.path:
            raise HeadraceError(f"{url}: no port: expected {LINKS['uart']}")
        baud = link.number("baud", BAUD)
        if baud < 1:
            raise HeadraceError(f"{url}: baud={baud}: expected bits per second")
        return BoardDevice(UartBus(link.path, baud, link.timeout or 1.0), fingerprint=fingerprint,
                           upload=upload, start_memory=_start_memory(link))
    if link.scheme == "tcp":
        if not link.host:
            raise HeadraceError(f"{url}: no host: expected {LINKS['tcp']}")
        bus = TcpBus(link.host, link.port or PORT, link.timeout or 10.0)
        return BoardDevice(bus, fingerprint=fingerprint, upload=upload,
                           start_memory=_start_memory(link))
    if link.scheme == "devmem":
        return MappedDevice(_devmem(link), fingerprint=fingerprint)
    if not link.path:
        raise HeadraceError(f"{url}: no bitstream: expected {LINKS['pynq']}")
    size = link.number("size", memory_bytes or 64 << 20)
    window = PynqWindow(link.path, -(-size // 4096) * 4096, link.options.get("ip", "headrace_0"))
    return MappedDevice(window, fingerprint=fingerprint)


def _start_memory(link: Link) -> Callable[[BoardRegisters], None] | None:
    """What starts the memory of the board that the URL names, where the host has to."""
    if "board" not in link.options:
        return None
    from headrace.boards.catalogue import find_board
    from headrace.boards.dram.training import start_memory
    return start_memory(find_board(link.options["board"]))


def _devmem(link: Link) -> DevmemWindow:
    files = {name: link.options[name] for name in ("file", "control_file")
             if name in link.options}
    if link.path:
        from headrace.boards.catalogue import BOARDS
        board = BOARDS.get(link.path)
        if board is None or board.processor is None:
            known = ", ".join(name for name, each in BOARDS.items() if each.processor)
            raise HeadraceError(f"{link.url}: no board {link.path!r} with a processor: expected "
                                f"one of {known}, or {LINKS['devmem']}")
        defaults = (board.processor.control_base, board.processor.memory_base,
                    board.memory.size_bytes)
    else:
        defaults = (0 if "control_file" in files else None, None, None)
    control, memory, size = (link.number(name, default)
                             for name, default in zip(("control", "memory", "size"), defaults))
    return DevmemWindow(control, memory, size, **files)

"""URLs, and devices that are mapped."""

import sys
import types

import numpy as np
import pytest

from headrace.hw.regmap import ID, REGISTERS, VERSION, offset
from headrace.sw.errors import HeadraceError
from headrace.sw.links import LINKS, LinkError, link_device
from headrace.sw.links.board import BoardDevice
from headrace.sw.links.mapped import MappedDevice
from headrace.sw.links.polled import DeviceLost


SIZE = 1 << 16


@pytest.mark.parametrize("url, text", [
    ("serial:///dev/ttyUSB0", "no device 'serial:///dev/ttyUSB0': expected one of uart:///dev"),
    ("uart://", "no port: expected uart:///dev/ttyUSB0"),
    ("uart:///dev/ttyUSB0?baud=fast", "baud=fast: expected a whole number"),
    ("uart:///dev/ttyUSB0?baud=0", "baud=0: expected bits per second"),
    ("uart:///dev/ttyUSB0?speed=1", "no option 'speed': expected some of baud, board, timeout"),
    ("uart:///dev/ttyUSB0?board=x", "no board 'x': expected one of ulx3s"),
    ("uart:///dev/ttyUSB0?timeout=-1", "timeout=-1: expected seconds above 0"),
    ("tcp://", "no host: expected tcp://HOST:PORT"),
    ("tcp://host:99999", "expected tcp://HOST:PORT"),
    ("devmem://", "control=: expected a whole number"),
    ("devmem://nothing", "no board 'nothing' with a processor: expected one of kv260"),
    ("devmem://?control=0x1000&memory=0x123&size=4096", "memory=0x123: expected a multiple"),
    ("devmem://?control=0x1000&memory=0x1000&size=0", "size=0: expected the bytes"),
    ("pynq://", "no bitstream: expected pynq://"),
])
def test_refused_urls(url, text):
    with pytest.raises(HeadraceError, match=text.replace("?", r"\?")):
        link_device(url)


def test_urls():
    device = link_device("uart:///dev/ttyUSB7?baud=0x1000")
    assert isinstance(device, BoardDevice)
    assert (device.bus.port, device.bus.baud) == ("/dev/ttyUSB7", 4096)
    assert link_device("uart://COM3").bus.port == "COM3"
    device = link_device("tcp://localhost?timeout=2.5")
    assert (device.bus.host, device.bus.port, device.bus.timeout) == ("localhost", 1234, 2.5)
    window = link_device("devmem://kv260")._window
    assert window.memory_base % 4096 == 0 and window._size > 0
    assert set(LINKS) == {"uart", "tcp", "devmem", "pynq"}


def registers(**changes):
    """Registers of a device that does nothing."""
    words = np.zeros(1024, np.uint32)
    values = {"id": ID, "version": VERSION, "fingerprint": 0x1234, **changes}
    for name, value in values.items():
        words[offset(name) // 4] = value
    return words


def use(device):
    """Memory and registers of an opened device."""
    data = np.random.default_rng(1).integers(0, 256, 1001, np.uint8)
    base = device.memory_base
    assert device.memory_bytes == SIZE
    device.write_memory(base + 3, data)
    assert np.array_equal(device.read_memory(base + 3, 1001), data)
    assert device.holds(base + 3, data) and not device.holds(base + 4, data)
    device.write_register("program", 17)
    assert device.read_register("program") == 17
    for at, size in ((base - 1, 4), (base + SIZE - 3, 4)):
        with pytest.raises(HeadraceError, match="outside the memory"):
            device.read_memory(at, size)
        with pytest.raises(HeadraceError, match="outside the memory"):
            device.write_memory(at, data[:size])
    device.write_word(offset("irq"), 0)
    # A device that never starts: the error says so, with its registers.
    with pytest.raises(HeadraceError, match=r"the run did not start, or was stopped: status 0x0, "
                                            r"irq 0x0, .*\(idle\)"):
        device.wait_interrupt(1000)
    # Nothing acts on writes here: the interrupt that is cleared is the one that is awaited.
    device.run()
    device.write_word(offset("instructions"), 5)
    with pytest.raises(DeviceLost, match="was reset or configured anew since its last run: "
                                         "register instructions reads 5, and 0 was written"):
        device.run()
    device.write_word(offset("instructions"), 0)


@pytest.fixture
def physical(tmp_path):
    """A file in place of /dev/mem: registers at 0x1000, memory at 0x4000."""
    path = tmp_path / "mem"

    def make(**changes):
        raw = bytearray(0x4000 + SIZE)
        raw[0x1000:0x2000] = registers(**changes).tobytes()
        path.write_bytes(raw)
        return f"devmem://?control=0x1000&memory=0x4000&size={SIZE}&file={path}"
    return make


def test_devmem(physical):
    with link_device(physical(), fingerprint=0x1234) as device:
        assert isinstance(device, MappedDevice) and device.memory_base == 0x4000
        use(device)
    with device:                         # again
        use(device)


def test_uio(tmp_path, physical):
    """The control port in a file of its own."""
    url = physical(id=0)
    control = tmp_path / "uio0"
    control.write_bytes(registers().tobytes())
    with link_device(f"{url}&control_file={control}") as device:
        use(device)


@pytest.mark.parametrize("changes, text", [
    ({"id": 0xffff_ffff}, "register id reads 0xffffffff: expected 0x"),
    ({"version": 0x0002_0001}, "version 2.1: expected 1.1 or a later 1.x"),
    ({"version": 0x0001_0000}, "version 1.0: expected 1.1 or a later 1.x"),
    ({"fingerprint": 0xbad}, "fingerprint 00000bad: expected 00001234"),
])
def test_wrong_devices(physical, changes, text):
    device = link_device(physical(**changes), fingerprint=0x1234)
    with pytest.raises(HeadraceError, match=text), device:
        raise AssertionError("it was opened")
    # Closed by itself, and the next open works.
    physical()
    with device:
        assert device.read_register("id") == ID


def test_devmem_without_rights(tmp_path):
    url = f"devmem://?control=0&memory=0&size=4096&file={tmp_path}/none"
    with pytest.raises(LinkError, match="cannot be mapped: .*No such file.*Run as root"):
        link_device(url).open()


def test_pynq(monkeypatch):
    with pytest.raises(LinkError, match="the package pynq is not installed"):
        link_device("pynq://design.bit").open()

    synced = []

    class Buffer(np.ndarray):
        device_address = 0x1680_0000

        def sync_to_device(self):
            synced.append("to")

        def sync_from_device(self):
            synced.append("from")

        def freebuffer(self):
            synced.append("freed")

    class Overlay:
        def __init__(self, path):
            if path != "/home/design.bit":
                raise OSError(f"no file {path}")
            self.accel = types.SimpleNamespace(mmio=types.SimpleNamespace(array=registers()))

    fake = types.ModuleType("pynq")
    fake.Overlay = Overlay
    fake.allocate = lambda size, kind: np.zeros(size, kind).view(Buffer)
    monkeypatch.setitem(sys.modules, "pynq", fake)
    with link_device("pynq:///home/design.bit?ip=accel", memory_bytes=SIZE - 5) as device:
        assert device.memory_base == 0x1680_0000
        use(device)
    assert synced[-1] == "freed" and {"to", "from"} <= set(synced)
    for url in ("pynq:///other.bit?ip=accel", "pynq:///home/design.bit?ip=missing"):
        with pytest.raises(LinkError, match="cannot be had"):
            link_device(url).open()
    assert set(REGISTERS) > {"id", "version"}

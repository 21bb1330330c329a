"""The C driver as a shared library, on any device of the Python side."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headrace.hw.regmap import COUNTER_BASE, COUNTERS, REGISTERS
from headrace.sw.c import driver_sources
from headrace.sw.compiler import Image
from headrace.sw.device import Device
from headrace.sw.flat_image import flat_header


FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-shared", "-fPIC"]

RESULTS = ("OK", "LINK", "NO_DEVICE", "VERSION", "IMAGE", "FINGERPRINT", "MEMORY", "STORED",
           "ARGUMENT", "CONTEXT", "TIMEOUT", "DEVICE", "LOST")

_U32, _U64, _P = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
_READ32 = ctypes.CFUNCTYPE(ctypes.c_int, _P, _U32, ctypes.POINTER(_U32))
_WRITE32 = ctypes.CFUNCTYPE(ctypes.c_int, _P, _U32, _U32)
_COPY = ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _P, ctypes.c_size_t)
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int, _P)

_NAMES = {register.offset: name for name, register in REGISTERS.items()}


class IO(ctypes.Structure):
    """struct headrace_io"""
    _fields_ = [("context", _P), ("read32", _READ32), ("write32", _WRITE32), ("copy_to", _COPY),
                ("copy_from", _COPY), ("wait", _WAIT), ("polls", _U32)]


class CImage(ctypes.Structure):
    """struct headrace_image"""
    _fields_ = [("fingerprint", _U32), ("content_bytes", _U64), ("total_bytes", _U64),
                *((name, _U32) for name in (
                    "program", "instructions", "kv_base", "kv_pinned", "tokens", "logits",
                    "vocab", "context", "chunk", "prefill_chunk", "max_passes", "eos_count")),
                ("eos", _U32 * 16), ("content_crc", _U32), ("content", _P)]


class Failure(ctypes.Structure):
    """struct headrace_failure"""
    _fields_ = [("status", _U32), ("error_code", _U32), ("passes_done", _U32), ("address", _U64)]


class CDevice(ctypes.Structure):
    """struct headrace"""
    _fields_ = [("io", IO), ("memory_base", _U64), ("memory_bytes", _U64), ("version", _U32),
                ("fingerprint", _U32), ("size", _U32), ("limits", _U32),
                ("image", ctypes.POINTER(CImage)), ("base", _U64), ("position", _U32),
                ("write_logits", ctypes.c_int), ("failure", Failure)]


def build(folder: Path) -> ctypes.CDLL:
    """Compile the driver as a user would."""
    compiler = shutil.which("gcc") or pytest.skip("no gcc: the C driver is compiled with it")
    for name, text in driver_sources().items():
        (folder / name).write_text(text)
    subprocess.run([compiler, *FLAGS, "-o", "driver.so", "headrace_driver.c", "headrace_image.c"],
                   cwd=folder, check=True, timeout=60)
    library = ctypes.CDLL(str(folder / "driver.so"))
    library.headrace_result_text.restype = ctypes.c_char_p
    library.headrace_error_text.restype = ctypes.c_char_p
    library.headrace_crc32.restype = _U32
    return library


def flat(image: Image) -> bytes:
    """What ``headrace export`` writes."""
    return flat_header(image) + image.content.tobytes()


class Driver:
    """The C driver on a device; `result` texts are the names of ``enum headrace_result``.

    Parameters
    ----------
    library : CDLL
    device : Device
    wait : callable, optional
        Called between polls.
    polls : int
        Until a run counts as hanging.
    """

    def __init__(self, library: ctypes.CDLL, device: Device,
                 wait: Callable[[], object] | None = None, polls: int = 1000):
        self.library, self.device = library, device
        self.c, self.image, self.flat = CDevice(), CImage(), b""
        #: Registers that read what the test says instead, and whether the link is down.
        self.lies: dict[str, int] = {}
        self.down = False
        self.error: BaseException | None = None
        self.io = IO(None, _READ32(self._read32), _WRITE32(self._write32),
                     _COPY(self._copy_to), _COPY(self._copy_from),
                     _WAIT(lambda _: self._guard(wait)) if wait else _WAIT(), polls)

    def _guard(self, action: Callable[[], object]) -> int:
        """Exceptions do not pass through C: they are a failed call there."""
        if self.down:
            return 1
        try:
            action()
        except BaseException as error:
            self.error = error
            return 1
        return 0

    def _read32(self, _, offset, value):
        def read():
            name = _NAMES.get(offset)
            if name in self.lies:
                value[0] = self.lies[name]
            elif name is not None:
                value[0] = self.device.read_register(name)
            else:
                index, high = divmod(offset - COUNTER_BASE, 8)
                value[0] = self.device.read_counter(COUNTERS[index]) >> 8 * high & 0xffff_ffff
        return self._guard(read)

    def _write32(self, _, offset, value):
        return self._guard(lambda: self.device.write_register(_NAMES[offset], value))

    def _copy_to(self, _, address, data, size):
        raw = np.frombuffer(ctypes.string_at(data, size), np.uint8)
        return self._guard(lambda: self.device.write_memory(address, raw))

    def _copy_from(self, _, address, data, size):
        return self._guard(lambda: ctypes.memmove(
            data, self.device.read_memory(address, size).tobytes(), size))

    def call(self, name: str, *arguments) -> str:
        """Name of the result of ``headrace_NAME(device, ...)``."""
        return RESULTS[getattr(self.library, f"headrace_{name}")(ctypes.byref(self.c), *arguments)]

    def open(self) -> str:
        return self.call("open", ctypes.byref(self.io), _U64(self.device.memory_base),
                         _U64(self.device.memory_bytes))

    def parse(self, data: bytes) -> str:
        self.flat = data
        return RESULTS[self.library.headrace_image_parse(
            ctypes.byref(self.image), data, ctypes.c_size_t(len(data)))]

    def load(self, base: int | None = None) -> str:
        return self.call("load", ctypes.byref(self.image),
                         _U64(self.device.memory_base if base is None else base))

    def ready(self, image: Image) -> None:
        """Open the device and load an image."""
        assert (self.open(), self.parse(flat(image)), self.load()) == ("OK",) * 3

    def prefill(self, ids: list[int]) -> tuple[str, int]:
        token = _U32()
        result = self.call("prefill", (_U32 * len(ids))(*ids), _U32(len(ids)),
                           ctypes.byref(token))
        return result, token.value

    def decode(self, passes: int) -> tuple[str, list[int]]:
        tokens = (_U32 * max(1, passes))()
        return self.call("decode", _U32(passes), tokens), list(tokens)

    def counters(self) -> list[int]:
        values = (_U64 * len(COUNTERS))()
        assert self.call("counters", values) == "OK"
        return list(values)

    def logits(self, first: int, count: int) -> tuple[str, np.ndarray]:
        values = (ctypes.c_float * count)()
        return self.call("logits", _U32(first), _U32(count), values), np.array(values, np.float32)

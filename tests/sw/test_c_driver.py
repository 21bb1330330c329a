"""The C driver on the golden device: images, runs, and everything that can go wrong."""

import ctypes
import dataclasses
import json
import zlib

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.regmap import ERRORS, REGISTERS
from headrace.sw.cli import main
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.flat_image import flat_header
from headrace.sw.golden_device import GoldenDevice

from .c_driver import RESULTS, Driver, build, flat
from .models import ODD, compiled, ids


TINY = PRESETS["tiny"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def image():
    return compiled(TINY)


def _device(image, **options):
    return GoldenDevice(image.config, **{"memory_bytes": image.total_bytes, "fill": 0xff,
                                         **options})


@pytest.mark.parametrize("config", [TINY, ODD], ids=lambda config: config.name)
def test_tokens_logits_and_counters_are_those_of_the_session(library, config):
    image = compiled(config)
    with _device(image) as device:
        session = Session(device, image, passes_per_run=5)
        expected = [session.prefill(ids(19)), *session.decode(5, logits=True)]
        logits, counters = session.logits(), session.statistics.passes
        runs = [span.positions for span in session.statistics.spans]
    base = 1 << 33
    with _device(image, memory_base=base, memory_bytes=image.total_bytes + 8192) as device:
        driver = Driver(library, device)
        assert (driver.open(), driver.parse(flat(image))) == ("OK", "OK")
        assert driver.load(base + 8192) == "OK"
        starts = []
        start = type(device)._start
        device._start = lambda: (starts.append(device.read_register("positions")), start(device))
        result, token = driver.prefill(ids(19))
        driver.c.write_logits = 1
        assert (result, driver.decode(5)) == ("OK", ("OK", expected[1:])) and token == expected[0]
        assert [*starts, 1, 1, 1, 1] == runs
        assert driver.c.position == session.position
        result, found = driver.logits(0, image.shape.vocab)
        assert result == "OK" and np.array_equal(found.view("u4"), logits.view("u4"))
        assert np.array_equal(driver.logits(30, 7)[1], logits[30:])
        assert driver.counters()[-1] == 0 and sum(driver.counters()) > 0
        assert counters[-1]["macs"] < driver.counters()[
            list(device._counters).index("macs")]
        # A second text from the beginning.
        assert driver.call("restart") == "OK"
        assert driver.prefill(ids(19)) == ("OK", expected[0])


def test_every_field_of_the_header_arrives(library, image):
    image = dataclasses.replace(image, shape=dataclasses.replace(image.shape, eos=(3, 5, 36)),
                                kv_pinned=77)
    driver = Driver(library, _device(image))
    assert driver.parse(flat(image)) == "OK"
    found = driver.image
    assert (found.fingerprint, found.content_bytes, found.total_bytes) == (
        image.fingerprint, image.content.size, image.total_bytes)
    for name, region in (("program", "program"), ("kv_base", "cache"), ("tokens", "tokens"),
                         ("logits", "logits")):
        assert 64 * getattr(found, name) == image.regions[region].begin
    for name in ("instructions", "kv_pinned", "context", "chunk", "prefill_chunk", "max_passes"):
        assert getattr(found, name) == getattr(image, name)
    assert found.vocab == 37 and list(found.eos)[:found.eos_count] == [3, 5, 36]
    ends = [token for token in range(37)
            if library.headrace_is_end(ctypes.byref(found), token)]
    assert ends == [3, 5, 36]
    assert found.content_crc == zlib.crc32(image.content.data)
    many = dataclasses.replace(image.shape, eos=tuple(range(17)))
    with pytest.raises(HeadraceError, match="17 tokens end a text: expected up to 16"):
        flat_header(dataclasses.replace(image, shape=many))


def test_a_damaged_image_is_refused(library, image):
    driver = Driver(library, _device(image))
    whole = flat(image)
    assert driver.parse(whole) == "OK"
    for at in (0, 4, 8, 12, 60, 252, 256, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        assert driver.parse(bytes(damaged)) == "IMAGE", at
    for size in (0, 255, 256, len(whole) - 1):
        assert driver.parse(whole[:size]) == "IMAGE", size
    assert driver.parse(whole + b"\0") == "IMAGE"


@pytest.mark.parametrize("lies, result", [
    ({"id": 0}, "NO_DEVICE"), ({"id": 0xffff_ffff}, "NO_DEVICE"),
    ({"version": 0x2_0000}, "VERSION"), ({"version": 0x1_0000}, "VERSION"),
    ({"status": 8}, "TIMEOUT"),
])
def test_open_refuses(library, image, lies, result):
    driver = Driver(library, _device(image), polls=50)
    driver.lies = lies
    assert driver.open() == result
    driver.lies = {}
    assert driver.open() == "OK" and driver.c.fingerprint == TINY.fingerprint


def test_load_refuses(library, image):
    other = Driver(library, _device(compiled(ODD)))
    assert (other.open(), other.parse(flat(image)), other.load()) == ("OK", "OK", "FINGERPRINT")
    assert other.prefill([1])[0] == "ARGUMENT"
    driver = Driver(library, _device(image, memory_base=4096))
    assert (driver.open(), driver.parse(flat(image))) == ("OK", "OK")
    for base in (0, 4097, 8192, 1 << 40):
        assert driver.load(base) == "MEMORY", base
    # A byte that memory loses.
    device, write = driver.device, driver.device.write_memory
    device.write_memory = lambda addr, data: write(addr, np.where(
        np.arange(data.size) == 999, data ^ 4, data).astype(np.uint8))
    assert driver.load() == "STORED"
    device.write_memory = write
    # A register that does not keep its value.
    driver.lies = {"kv_base": 1}
    assert driver.load() == "LINK"
    driver.lies = {}
    assert driver.load() == "OK"


def test_an_image_may_come_in_parts(library, image):
    with _device(image) as device:
        driver = Driver(library, device)
        assert driver.open() == "OK"
        header = flat_header(image)
        assert library.headrace_image_header(ctypes.byref(driver.image), header) == 0
        assert driver.load() == "ARGUMENT"
        assert driver.call("bind", ctypes.byref(driver.image), ctypes.c_uint64(0)) == "OK"
        raw = image.content.tobytes()
        for at in range(0, len(raw), 5000):
            part = raw[at:at + 5000]
            assert driver.call("verify") == "STORED"
            assert driver.call("store", ctypes.c_uint64(at), part,
                               ctypes.c_size_t(len(part))) == "OK"
        assert driver.call("verify") == "OK"
        assert driver.call("store", ctypes.c_uint64(len(raw) - 1), b"xx",
                           ctypes.c_size_t(2)) == "ARGUMENT"
        assert driver.prefill(ids(5))[0] == "OK"


def test_arguments_and_context(library, image):
    with _device(image) as device:
        driver = Driver(library, device)
        driver.ready(image)
        assert driver.decode(1)[0] == "ARGUMENT"         # there is no token before
        assert driver.prefill([])[0] == "ARGUMENT"
        assert driver.prefill([3, 37])[0] == "ARGUMENT"
        assert driver.prefill([1] * 81)[0] == "CONTEXT"
        assert driver.prefill(ids(70))[0] == "OK"
        for passes in (0, image.max_passes + 1):
            assert driver.decode(passes)[0] == "ARGUMENT"
        assert driver.decode(11)[0] == "CONTEXT"
        assert driver.logits(36, 2)[0] == "ARGUMENT"
        assert driver.decode(10)[0] == "OK" and driver.c.position == 80
        assert driver.decode(1)[0] == "CONTEXT" and driver.prefill([1])[0] == "CONTEXT"


def test_an_error_of_the_device_is_told_and_the_next_run_works(library, image):
    with _device(image) as device:
        driver = Driver(library, device)
        driver.ready(image)
        expected = driver.prefill(ids(5))
        assert driver.call("restart") == "OK"
        at = image.regions["program"].begin + 32 * 2
        code = device.read_memory(at, 32)
        device.write_memory(at, np.full(32, 0xee, np.uint8))
        assert driver.prefill(ids(5))[0] == "DEVICE" and driver.c.position == 0
        failure = driver.c.failure
        assert (failure.error_code, failure.address, failure.passes_done) == (5, at, 0)
        lsb, _ = REGISTERS["status"].bits["error"]
        assert failure.status >> lsb & 1 and device.read_register("status") == 0
        assert library.headrace_error_text(5).decode() == ERRORS[5]
        device.write_memory(at, code)
        assert driver.prefill(ids(5)) == expected


class Hanging(GoldenDevice):
    """A device whose runs do not end."""
    lost = False

    def _start(self):
        self._registers["status"] = 1
        if self.lost:
            self._registers = dict.fromkeys(self._registers, 0)


def test_a_hanging_run_times_out_and_the_device_is_reset(library, image):
    with Hanging(TINY, memory_bytes=image.total_bytes) as device:
        waits = []
        driver = Driver(library, device, wait=lambda: waits.append(1), polls=20)
        driver.ready(image)
        assert device.read_register("irq_enable") == 1
        assert driver.prefill(ids(5))[0] == "TIMEOUT"
        assert len(waits) == 20 and driver.c.failure.status == 1
        assert device.read_register("status") == 0
        device.lost = True
        assert driver.prefill(ids(5))[0] == "LOST"
        # And so is everything from now on, until it is opened again.
        assert driver.prefill(ids(5))[0] == "LOST"
        device.lost = False
        assert (driver.open(), driver.decode(1)[0]) == ("NO_DEVICE", "ARGUMENT")


def test_a_dead_link_is_an_error_at_every_call(library, image):
    with _device(image) as device:
        driver = Driver(library, device)
        driver.ready(image)
        expected = driver.prefill(ids(9))
        driver.down = True
        assert {driver.open(), driver.load(), driver.call("reset")} <= {"LINK", "FINGERPRINT"}
        assert driver.open() == "LINK"
        driver.down = False
        driver.ready(image)
        # The link dies at each of the accesses of a prefill in turn.
        for turn in range(1000):
            left = turn
            guard = driver._guard

            def count(action, guard=guard):
                nonlocal left
                left -= 1
                return 1 if left < 0 else guard(action)

            driver._guard = count
            result = driver.prefill(ids(9))
            driver._guard = guard
            if result[0] == "OK":
                assert result == expected and turn > 30
                break
            assert result[0] == "LINK"
            driver.ready(image)
        else:
            raise AssertionError("the prefill never ended")


def test_texts(library):
    texts = [library.headrace_result_text(index).decode() for index in range(len(RESULTS))]
    assert len(set(texts)) == len(RESULTS) and "unknown result" not in texts
    for index in (-1, len(RESULTS)):
        assert library.headrace_result_text(index) == b"unknown result"
    assert [library.headrace_error_text(code).decode() for code in ERRORS] == list(ERRORS.values())
    assert library.headrace_error_text(len(ERRORS)) == b"unknown error"
    data = bytes(range(256)) * 3
    assert library.headrace_crc32(0, data, len(data)) == zlib.crc32(data)


def test_export_writes_what_the_driver_reads(library, tmp_path, capsys):
    path = tmp_path / "demo.flat"
    with pytest.raises(SystemExit) as ended:
        main(["export", "demo", "-o", str(path), "--config", "tiny", "--context", "64", "--json"])
    assert not ended.value.code
    report = json.loads(capsys.readouterr().out)
    assert report["file_bytes"] == path.stat().st_size and report["context"] == 64
    assert report["fingerprint"] == f"{TINY.fingerprint:08x}"
    with GoldenDevice(TINY, memory_bytes=report["memory_bytes"]) as device:
        driver = Driver(library, device)
        assert (driver.open(), driver.parse(path.read_bytes()), driver.load()) == ("OK",) * 3
        result, token = driver.prefill([1, 20, 30])
        assert result == "OK" and 0 <= token < driver.image.vocab
    with pytest.raises(SystemExit) as ended:
        main(["export", "demo", "-o", str(tmp_path)])
    assert ended.value.code == 2 and "is a folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]

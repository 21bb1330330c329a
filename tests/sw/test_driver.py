"""Driver and golden device: prompts, runs, bookkeeping, statistics, errors and the check."""

import dataclasses

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.regmap import COUNTERS, REGISTERS
from headrace.sw.check import Difference
from headrace.sw.device import DeviceTimeout
from headrace.sw.driver import DeviceError, Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice

from .models import ODD, compiled, ids


TINY = PRESETS["tiny"]


@pytest.fixture(scope="module")
def image():
    return compiled(TINY)


def _device(image, **options):
    return GoldenDevice(image.config, memory_bytes=image.total_bytes, **options)


def _generate(image, prompt, tokens, **options):
    with _device(image, fill=0xff) as device:
        session = Session(device, image, **options)
        return list(session.generate(prompt, tokens)), session


def test_tokens_do_not_depend_on_runs_or_chunks(image):
    expected, session = _generate(image, ids(11), 30)
    assert len(expected) == 30 and session.position == 11 + 29
    for passes, chunk in ((4, 1), (29, 3), (128, 8)):
        found, other = _generate(image, ids(11), 30, passes_per_run=passes, chunk=chunk)
        assert found == expected
        assert np.array_equal(other.cache_bytes(), session.cache_bytes())
        assert len(other.statistics.passes) == -(-11 // chunk) + 29


def test_stops_at_the_end_of_sequence():
    # Tied embeddings of random models only repeat themselves.
    image = compiled(TINY, tied=False, seed=2)
    free, _ = _generate(image, ids(6), 20)
    end = next(token for index, token in enumerate(free) if index > 3 and token not in free[:index])
    stop = dataclasses.replace(image, shape=dataclasses.replace(image.shape, eos=(end,)))
    for passes in (1, 5, 20):
        found, session = _generate(stop, ids(6), 20, passes_per_run=passes)
        assert found == free[:free.index(end) + 1]
        # Everything but the end itself is in the cache.
        assert session.position == 6 + len(found) - 1


def test_conversation_goes_on(image):
    prompt = ids(20)
    with _device(image) as device:
        session = Session(device, image)
        session.prefill(prompt[:9], head=False)
        first = session.prefill(prompt[9:])
        session.restart()
        assert session.prefill(prompt) == first and session.position == 20


def test_statistics_equal_the_image(image):
    _, session = _generate(image, ids(11), 5, passes_per_run=2)
    report = session.report()
    kinds = [(p["kind"], p["positions"], p["context"]) for p in report["passes"]]
    assert kinds == [("prefill", 8, 8), ("prefill", 3, 11), ("decode", 1, 12), ("decode", 1, 13),
                     ("decode", 1, 14), ("decode", 1, 15)]
    for p in report["passes"]:
        position = p["context"] - p["positions"]
        head = p["context"] >= 11
        expected = image.expected_traffic(position, p["positions"], head)
        assert p["bytes_read"] == expected.read
        assert (p["kv_hits"], p["kv_misses"]) == (expected.kv_hits, expected.kv_misses)
        assert p["macs"] == image.useful_macs(position, p["positions"], head)
        assert p["bytes_written"]["kv"] == expected.written["kv"]
        assert p["cycles"] is None
    totals = report["totals"]
    assert totals["bytes_written"]["activations"] == 6 * 8 * len(COUNTERS) + 5 * 4
    assert totals["positions"] == 15 and report["check"] is None and report["ttft_cycles"] is None


def test_another_base_address(image):
    expected, _ = _generate(image, ids(5), 4)
    with GoldenDevice(TINY, memory_bytes=1 << 20, memory_base=1 << 32) as device:
        session = Session(device, image, base=(1 << 32) + 8192)
        assert list(session.generate(ids(5), 4)) == expected
        with pytest.raises(HeadraceError, match="base 0x100002001: expected a multiple of 4096"):
            Session(device, image, base=(1 << 32) + 8193)
        with pytest.raises(HeadraceError, match="the image needs .* bytes at 0x1000fe000, but the "
                                                "memory has 8,192 from there on"):
            Session(device, image, base=(1 << 32) + (1 << 20) - 8192)


# Bad input.

@pytest.mark.parametrize("prompt, tokens, text", [
    ([], 1, "the prompt is empty"),
    ([3, 37], 1, r"prompt id 37 \(number 1\) is out of range: expected 0 to 36"),
    ([-1], 1, "prompt id -1"),
    ([1], 0, "0 tokens to generate: expected at least 1"),
    ([1] * 60, 21, "a prompt of 60 tokens and 21 to generate exceed the context of 80"),
])
def test_bad_prompt(image, prompt, tokens, text):
    with _device(image) as device:
        session = Session(device, image)
        with pytest.raises(HeadraceError, match=text) as caught:
            session.generate(prompt, tokens)
        assert caught.value.exit_code == 2 and session.position == 0


def test_context_is_never_left(image):
    with _device(image) as device:
        session = Session(device, image)
        session.prefill(ids(70))
        for count in (0, 11):
            with pytest.raises(HeadraceError, match=f"a prompt of {count} tokens at position 70: "
                                                    f"expected 1 to 10, the rest of the context"):
                session.prefill(ids(count))
        with pytest.raises(HeadraceError, match="1 positions and 11 passes from position 70 exceed "
                                                "the context of 80"):
            session.decode(11)
        assert len(session.decode(10)) == 10 and session.position == 80


def test_context_may_be_filled_to_the_end(image):
    found, session = _generate(image, ids(60), 20, passes_per_run=19)
    assert len(found) == 20 and session.position == 79


@pytest.mark.parametrize("options, text", [
    ({"chunk": 0}, "chunk is 0: expected 1 to 8"), ({"chunk": 9}, "chunk is 9: expected 1 to 8"),
    ({"passes_per_run": 129}, "passes_per_run is 129: expected 1 to 128"),
])
def test_bad_session(image, options, text):
    with _device(image) as device, pytest.raises(HeadraceError, match=text):
        Session(device, image, **options)


def test_fingerprint_of_another_configuration(image):
    with GoldenDevice(ODD, memory_bytes=1 << 20) as device, pytest.raises(
            HeadraceError, match=f"fingerprint {ODD.fingerprint:08x}, but the image was compiled "
                                 f"for {TINY.fingerprint:08x} .'tiny'."):
        Session(device, image)


@pytest.mark.parametrize("register, value, text", [
    ("id", 0xffffffff, "register id reads 0xffffffff: expected 0x43415248"),
    ("version", 0x0002_0001, "version 2.1: expected 1.1 or a later 1.x"),
])
def test_something_else_at_the_address(image, register, value, text):
    with _device(image) as device, pytest.raises(HeadraceError, match=text):
        device._registers[register] = value
        Session(device, image)


# Errors of the device.

def test_unknown_instruction(image):
    with _device(image) as device:
        session = Session(device, image)
        at = image.regions["program"].begin + 3 * 32
        good = device.read_memory(at, 4)
        device.write_memory(at, np.array([99, 0, 0, 0], np.uint8))
        with pytest.raises(DeviceError, match="error 5 at address 0x60: unknown instruction "
                                              ".after 0 passes of the run, from position 0.; the "
                                              "device has been reset"):
            session.prefill([1])
        device.write_memory(at, good)
        assert not device.read_register("status") and not device.read_register("irq")
        assert session.prefill([1]) == _generate(image, [1], 1)[0][0]


def test_memory_that_ends_too_early(image):
    with _device(image) as device:
        session = Session(device, image)
        device.write_register("kv_base", 0)
        device.write_register("base_hi", 1)
        with pytest.raises(DeviceError) as caught:
            session.prefill([1])
        assert caught.value.code == 2 and caught.value.address == 1 << 32
        session._configure(device)
        assert session.prefill([1]) >= 0


def test_access_from_the_host_outside_the_memory(image):
    with _device(image) as device:
        with pytest.raises(HeadraceError, match="4 bytes at .* are outside the memory"):
            device.read_memory(image.total_bytes - 3, 4)
        with pytest.raises(HeadraceError, match="are outside the memory"):
            device.write_memory(-1, np.zeros(1, np.uint8))


class _Silent(GoldenDevice):
    """Never raises its interrupt."""

    def wait_interrupt(self, max_cycles, progress=None):
        return False


class _Stuck(_Silent):
    """Never ends its reset."""

    def read_register(self, name):
        value = super().read_register(name)
        return value | 1 << REGISTERS["status"].bits["resetting"][0] if name == "status" else value


def test_device_that_hangs(image):
    with _Silent(TINY, memory_bytes=image.total_bytes) as device:
        session = Session(device, image, max_cycles=1000)
        with pytest.raises(DeviceTimeout, match="did not end within 1,000 cycles"):
            session.prefill([1])
    with _Stuck(TINY, memory_bytes=image.total_bytes) as device:
        with pytest.raises(DeviceTimeout, match="the reset did not end"):
            Session(device, image).prefill([1])


# The golden device's registers.

def test_registers_of_the_golden_device(image):
    device = _device(image)
    assert device.read_bits("size", "rows") == 4 and device.read_bits("size", "cols") == 8
    assert device.read_bits("limits", "streams") == TINY.streams
    device.write_register("fingerprint", 0)
    assert device.read_register("fingerprint") == TINY.fingerprint
    session = Session(device, image)
    token = session.prefill([5, 6])
    assert device.read_register("token") == token
    assert device.read_register("passes_done") == 1 and device.read_bits("status", "done")
    assert all(device.read_counter(name) >= 0 for name in COUNTERS)


# The check.

class _Faulty(GoldenDevice):
    """Flips one bit of its memory after a run."""

    at = None
    run_number = 0

    def run(self, *args, **kwargs):
        super().run(*args, **kwargs)
        self.run_number += 1
        if self.at is not None and self.run_number == 2:
            self.memory[self.at] ^= 1


def _faulty(image, at):
    with _Faulty(TINY, memory_bytes=image.total_bytes, fill=0xa5) as device:
        device.at = at
        session = Session(device, image, check=True)
        with pytest.raises(Difference) as caught:
            list(session.generate(ids(10), 3))
        assert caught.value.exit_code == 1
        assert session.verdict is not None and session.verdict in str(caught.value)
        return session.verdict


def test_check_of_a_good_device(image):
    for passes in (1, 7):
        tokens, session = _generate(image, ids(10), 20, check=True, passes_per_run=passes)
        assert session.verdict == "bit-exact" == session.report()["check"]
        assert tokens == _generate(image, ids(10), 20)[0]


def test_check_names_the_byte_of_the_cache(image):
    layout = image.cache
    base = image.regions["cache"].begin + 64 * layout.unit(0, 1, 1)
    verdict = _faulty(image, base + layout.k_offset(5, 9))
    assert verdict.startswith("positions 8 to 9: instruction 23 (APPEND), cache of layer 1, K/V "
                              "head 1: k[position 9, element 5] is ")
    assert "v_scale[position 8] is 0x" in _faulty(image, base + 64 + 2 * 8 + 1)
    # A byte that no token owns yet is compared, too.
    assert "v[position 30, element 3]" in _faulty(image, base + layout.v_offset(3, 30))


def test_check_names_the_logit_and_the_token(image):
    verdict = _faulty(image, image.regions["logits"].begin + 4 * 6)
    assert "instruction 39 (LOGITS): logits[6] is " in verdict
    verdict = _faulty(image, image.regions["tokens"].begin + 4 * 10)
    assert "instruction 39 (LOGITS): token[pass 0 of the run] is " in verdict


@pytest.mark.parametrize("positions, chunk, expected", [
    (64, 12, [12, 12, 12, 12, 8, 8]), (64, 24, [24, 20, 20]), (16, 8, [8, 8]), (9, 8, [8, 1]),
    (5, 8, [5]), (7, 3, [3, 3, 1]), (1, 8, [1])])
def test_passes_of_a_prompt_are_even(positions, chunk, expected):
    assert list(Session.passes(compiled(TINY), positions, chunk)) == expected

"""The shipping driver on a simulated board, over a pseudo-terminal and over TCP; and faults."""

import random
import threading

import numpy as np
import pytest

from headrace.hw.link.map import BOARD_REGISTERS
from headrace.sim.core_board import CoreBoard
from headrace.sim.memory import MemoryOptions
from headrace.sim.uart_pump import PtyPump, TcpPump
from headrace.sw.device import DeviceTimeout
from headrace.sw.driver import DeviceError, Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.links import LinkError, link_device
from headrace.sw.links import board_registers as registers_module
from headrace.sw.links.board import PIECE
from headrace.sw.links.polled import DeviceLost

from .machines import TINY, demo, ids, synthetic


pytest.importorskip("serial")

MEMORY_BYTES = 4 << 20
PROMPT, TOKENS = ids(9, seed=2), 4


@pytest.fixture(scope="module")
def board():
    """One board for all tests: the next one finds it as the last one has left it."""
    options = MemoryOptions(latency=20, stall_seed=1)
    with CoreBoard(TINY, MEMORY_BYTES, options, fill=np.random.default_rng(3)) as found:
        yield found


@pytest.fixture
def wires(board):
    """The board at the end of a pseudo-terminal."""
    with PtyPump(board) as pump:
        yield pump
    board.memory.clear_errors()
    board.set_ready(True)


def url_of(pump):
    # A rate that the simulation keeps up with: answers are awaited as long as their bits take.
    return (f"uart://{pump.port}?timeout=0.5&baud=4800" if isinstance(pump, PtyPump)
            else f"tcp://127.0.0.1:{pump.port}?timeout=20")


def device_of(pump, **options):
    return link_device(url_of(pump), fingerprint=TINY.fingerprint, **options)


def golden(image, prompt=PROMPT, tokens=TOKENS):
    with GoldenDevice(image.config, memory_bytes=image.total_bytes) as device:
        return list(Session(device, image).generate(prompt, tokens))


@pytest.fixture(scope="module")
def image():
    """A small model; and what it says."""
    found = synthetic(TINY)
    return found, golden(found)


def works(pump, image):
    """Whether a new device makes the whole generation, bit-exact; most need not be sent again."""
    content = image[0].content
    pump.board.storage[:content.size - 64] = content[:-64]
    with device_of(pump) as device:
        session = Session(device, image[0], check=True)
        assert list(session.generate(PROMPT, TOKENS)) == image[1]
        assert session.verdict == "bit-exact"


class Damage:
    """Drop or change bytes on their way: the `first`-th and then each `every`-th one."""

    def __init__(self, kind, first, every=0):
        self.kind, self.first, self.every, self.seen, self.done = kind, first, every, 0, 0

    def __call__(self, data):
        found = bytearray()
        for byte in data:
            hit = self.seen >= self.first and (
                (self.seen - self.first) % self.every == 0 if self.every
                else self.seen == self.first)
            self.seen += 1
            self.done += hit
            if not hit:
                found.append(byte)
            elif self.kind == "change":
                found.append(byte ^ 0x24)
        return bytes(found)


# The built-in model.

@pytest.mark.parametrize("pump_class, passes", [(PtyPump, 1), (TcpPump, 4)], ids=("pty", "tcp"))
def test_generation(board, pump_class, passes):
    """The whole built-in model, bit-exact, every byte of the cache included.

    Most of the image is in memory before, as after an earlier session: only what differs is sent.
    """
    model = demo(TINY)
    prompt, tokens = [1, 454, 455, 324, 437], 12
    board.storage[:model.content.size] = model.content
    spots = [0, 5 * PIECE + 17, model.content.size - 1]
    board.storage[spots] ^= 0xff
    done = []
    with pump_class(board) as pump:
        device = device_of(pump, upload=lambda *state: done.append(state))
        with device:
            session = Session(device, model, passes_per_run=passes, check=True)
            assert device.sent_bytes == 2 * PIECE + (model.content.size - 1) % PIECE + 1
            assert list(session.generate(prompt, tokens)) == golden(model, prompt, tokens)
            assert session.verdict == "bit-exact"
            report = session.report()
            assert report["passes"] and device.faults == 0
            assert device.board_bits("link_errors", "bus") == 0
            # Once more, without the check: nothing to send.
            sent = device.sent_bytes
            again = Session(device, model, passes_per_run=passes)
            assert list(again.generate(prompt, 3)) == golden(model, prompt, 3)
            assert device.sent_bytes - sent < 200
    assert done[0][1] == done[-1][0] == done[-1][1] == model.content.size
    assert [state[0] for state in done[:4]] == [PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]


def test_command_line(board, capsys):
    """``headrace run demo --device uart://...``, and what stands there when nothing answers."""
    from headrace.sw.cli import main

    def run(*options):
        with pytest.raises(SystemExit) as stop:
            main(["run", "demo", "--prompt-ids", "1,454,455", "--tokens", "4", *options])
        found = capsys.readouterr()
        return stop.value.code or 0, found.out, " ".join(found.err.split())

    model = demo(TINY)
    board.storage[:model.content.size] = model.content
    with PtyPump(board) as pump:
        url = url_of(pump)
        code, text, notes = run("--device", url)
        assert (code, text) == (0, run("--device", "golden")[1])
        # The clock is the one that the board states.
        assert "at a clock of 1 MHz (cycles as the device counts them)" in notes
        assert "simulated" not in notes
        code, _, notes = run("--device", url, "--config", "ecp5")
        assert code == 2 and "load the bitstream of that configuration" in notes
        code, _, notes = run("--device", url, "--trace", "trace.json")
        assert code == 2 and "a board does not record what its engines do" in notes
    code, _, notes = run("--device", url)
    assert code == 2 and "the serial port cannot be opened" in notes
    code, _, notes = run("--device", "usb://")
    assert code == 2 and "no device 'usb://': expected one of uart:///dev/ttyUSB0" in notes


# Faults. After each, the next open works, and is bit-exact.

def test_cable_pulled_in_upload(board, wires, image):
    data = np.random.default_rng(8).integers(0, 256, 4 * PIECE, np.uint8)
    board.storage[:2 * PIECE] = data[:2 * PIECE]
    done = []

    def pull(count, total):
        done.append(count)
        if count == 2 * PIECE:
            wires.unplug()

    with pytest.raises(LinkError, match="the serial port failed .* Is the cable still in"):
        with device_of(wires, upload=pull) as device:
            device.write_memory(0, data)
    assert done == [PIECE, 2 * PIECE]
    with pytest.raises(LinkError, match="cannot be opened"):
        device_of(wires).open()
    wires.plug()
    works(wires, image)


def test_cable_pulled_in_a_run(board, wires, image):
    with pytest.raises(LinkError, match="the serial port failed"):
        with device_of(wires) as device:
            session = Session(device, image[0])
            session.progress = lambda cycles: wires.unplug()
            list(session.generate(PROMPT, TOKENS))
    wires.plug()
    works(wires, image)


def test_server_gone(board, image):
    with TcpPump(board) as pump:
        with pytest.raises(LinkError, match="the connection failed during a"):
            with device_of(pump) as device:
                session = Session(device, image[0])
                session.progress = lambda cycles: pump.hang_up()
                list(session.generate(PROMPT, TOKENS))
        works(pump, image)


@pytest.mark.parametrize("kind", ["drop", "change"])
@pytest.mark.parametrize("first", [pytest.param(0, marks=pytest.mark.slow), 41,
                                   pytest.param(4000, marks=pytest.mark.slow)])
def test_damaged_commands(board, wires, image, kind, first):
    """Bytes to the board are lost or changed, everywhere: an error, or all is right."""
    board.storage[:] = 0x5a
    damage = wires.to_board = Damage(kind, first, 997)
    with pytest.raises(HeadraceError, match="uart:///dev/pts/") as caught:
        with device_of(wires) as device:
            Session(device, image[0])
            # An upload of twenty thousand bytes cannot come through.
            raise AssertionError("the upload went through")
    assert damage.done, caught.value
    wires.to_board = bytes
    works(wires, image)


@pytest.mark.parametrize("kind", ["drop", "change"])
def test_one_damaged_answer(board, wires, image, kind):
    """A single fault of a read is mended by reading again."""
    faults = []
    for first in random.Random(4).sample(range(400), 4):
        damage = wires.from_board = Damage(kind, first)
        with device_of(wires) as device:
            session = Session(device, image[0], check=True)
            assert list(session.generate(PROMPT, 1)) == image[1][:1]
            faults.append(device.faults)
            assert damage.done == 1
    # A register that was changed has only been read once more.
    assert kind == "change" or all(faults)


@pytest.mark.parametrize("kind, text", [("drop", "no answer to a read of"),
                                        ("change", "gave something else each time|read")])
def test_damaged_answers(board, wires, image, kind, text):
    wires.from_board = Damage(kind, 0, 3)
    with pytest.raises(HeadraceError, match=text):
        device_of(wires).open()
    wires.from_board = bytes
    with device_of(wires) as device:
        wires.from_board = Damage(kind, 0, 61)
        with pytest.raises(LinkError, match="no answer to a read of|gave something else each"):
            device.read_memory(0, 2000)
        wires.from_board = bytes
    works(wires, image)


def test_reset_in_a_run(board, wires, image):
    with device_of(wires) as device:
        session = Session(device, image[0])
        session.progress = lambda cycles: wires.call(board.reset)
        with pytest.raises(DeviceLost, match=r"was reset or configured anew during a run: register "
                                             r"instructions reads 0, .* status 0x0.*\(idle\); "
                                             r"board: status 0x1 \(memory_ready 1"):
            list(session.generate(PROMPT, TOKENS))
        # In the same session there is nothing left to go on with.
        session.progress = None
        with pytest.raises(DeviceLost, match="since its last run"):
            session.decode()
    works(wires, image)


def test_reset_in_a_command(board, wires, image):
    """A reset while bytes are on their way: what is left of them is forgotten."""
    with device_of(wires) as device:
        done = threading.Event()

        def order():
            board.write(b"\x01\x20\x10")
            board.run(60)
            board.reset()
            done.set()

        wires.call(order)
        assert done.is_set()
        assert device.read_register("id")
    works(wires, image)


def test_wrong_bitstream(board, wires, image):
    device = link_device(url_of(wires), fingerprint=0x1234_5678)
    with pytest.raises(HeadraceError, match=f"fingerprint {TINY.fingerprint:08x}: expected "
                                            f"12345678.*load the bitstream of that"), device:
        raise AssertionError("it was opened")
    # Something else at the port answers something else.
    wires.from_board = lambda data: bytes(len(data))
    with pytest.raises(HeadraceError, match="register id reads 0x00000000: expected 0x44425248"):
        device_of(wires).open()
    wires.from_board = bytes
    works(wires, image)


def test_wrong_image(board, wires, image):
    from headrace.hw.config import PRESETS

    other = synthetic(PRESETS["ecp5"])
    with link_device(url_of(wires)) as device:
        with pytest.raises(HeadraceError, match="the image was compiled for"):
            Session(device, other)
        big = synthetic(TINY, context=100_000)
        with pytest.raises(HeadraceError, match=r"the image needs .* but the memory has 4,194,304"):
            Session(device, big)
    works(wires, image)


def test_memory_not_ready(board, wires, image, monkeypatch):
    monkeypatch.setattr(registers_module, "_MEMORY_READY", 0.3)
    wires.call(lambda: board.set_ready(False))
    with pytest.raises(HeadraceError, match="memory was not ready within 0.3 s: status 0x0 "
                                            r"\(memory_ready 0.*The DRAM controller"):
        device_of(wires).open()
    wires.call(lambda: board.set_ready(True))
    works(wires, image)


def test_memory_errors(board, wires, image):
    """Errors of memory: in an upload, in a run, and in the memory test; then all is well."""
    with device_of(wires) as device:
        wires.call(lambda: board.memory.inject(0, 64, "slverr", reads=False))
        board.storage[:64] = 0
        with pytest.raises(LinkError, match="memory does not hold what was written.* bus [1-9]"):
            Session(device, image[0])
        wires.call(board.memory.clear_errors)
        with pytest.raises(LinkError, match="memory answered fill of 4096 bytes at 0x0 with an"):
            wires.call(lambda: board.memory.inject(64, 64, "decerr"))
            device.memory_test(0, 4096)
        wires.call(board.memory.clear_errors)
        session = Session(device, image[0])
        wires.call(lambda: board.memory.inject(image[0].regions["weights"].begin, 64, "slverr"))
        with pytest.raises(DeviceError, match="answered a read with SLVERR"):
            session.prefill(PROMPT)
        wires.call(board.memory.clear_errors)
    works(wires, image)


def test_memory_test(board, wires):
    with device_of(wires) as device:
        found = device.memory_test(0x100000, 65536)
        assert (found.words, found.errors, found.bad_addr) == (16384, 0, None)
        assert len(np.unique(board.storage[0x100000:0x110000].view("<u4"))) == 16384
        # A memory that loses a write is found.
        wires.call(lambda: setattr(device, "spot", board.storage[:0x110000].copy()))
        original = device._operate

        def break_it(operation, *arguments):
            if operation == "check":
                board.storage[[0x100404, 0x10ffff]] ^= 0x80
            original(operation, *arguments)

        device._operate = break_it
        found = device.memory_test(0x100000, 65536, seed=99)
        assert (found.errors, found.bad_addr) == (2, 0x100404)
        del device._operate
        with pytest.raises(HeadraceError, match="outside the memory"):
            device.memory_test(0, MEMORY_BYTES + 4)
        with pytest.raises(HeadraceError, match="expected multiples of 4, and a seed"):
            device.memory_test(2, 64)
    assert set(BOARD_REGISTERS["link_errors"].bits) == {"framing", "overrun", "timeout", "bus"}


def test_hanging_run(board, wires, image):
    """A run that takes too long: the error shows the registers, and the device is reset."""
    with device_of(wires) as device:
        session = Session(device, image[0], max_cycles=100)
        with pytest.raises(DeviceTimeout, match=r"did not end within 100 cycles \(0 passes were "
                                                r"done; status 0x1, irq 0x0, .*\(busy\); board: "
                                                r"status 0x1.*it has been reset"):
            session.prefill(PROMPT)
        session.max_cycles = None
        session.position = 0
        assert session.prefill(PROMPT) == image[1][0]

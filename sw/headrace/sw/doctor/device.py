"""Self-test of a device: identification, memory, a known answer, bandwidth."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from headrace.hw.config import PRESETS, Config
from headrace.hw.regmap import REGISTERS

from ..check import Difference
from ..compiler import Image
from ..device import Device
from ..driver import Session
from ..errors import HeadraceError
from .check import Check
from .memory_test import MemoryTest, test_memory


__all__ = ["DeviceDoctor", "preset_of"]


#: Text of the pass whose answer is known.
PROMPT = "Once upon a time"


class _TestsMemory(Protocol):
    """A device whose board tests its memory by itself."""

    def memory_test(self, addr: int = 0, size: int | None = None) -> MemoryTest: ...


def preset_of(fingerprint: int) -> Config | None:
    """The preset with a fingerprint."""
    return next((config for config in PRESETS.values() if config.fingerprint == fingerprint), None)


class DeviceDoctor:
    """Checks of an opened device, one after another.

    Parameters
    ----------
    device : Device
        An opened device.
    compile_model : callable
        Compiles the built-in model for a configuration.
    config : Config, optional
        Configuration of the device; the preset with its fingerprint by default.
    memory_bytes : int, optional
        How much of memory to test, from its beginning; all of it on a board that tests its memory
        by itself, otherwise up to 1 MiB by default.
    progress : callable, optional
        Called with a text, and with what is done of how much.
    """

    def __init__(self, device: Device, compile_model: Callable[[Config], Image], *,
                 config: Config | None = None, memory_bytes: int | None = None,
                 progress: Callable[[str, int, int], None] | None = None):
        self.device, self._compile = device, compile_model
        self.config, self._memory_bytes, self._progress = config, memory_bytes, progress
        self._session: Session | None = None
        self._upload = 0.0

    def examine(self) -> Iterator[Check]:
        """Make the checks; one that cannot be made because of another is said to be skipped.

        An error of the device ends them: it is the last check.
        """
        for name, make in (("identification", self._identification),
                           ("configuration", self._configuration), ("memory", self._memory),
                           ("known answer", self._known_answer), ("bandwidth", self._bandwidth)):
            try:
                check = make(name)
            except HeadraceError as error:
                yield Check(name, "failed", str(error))
                return
            yield check
            if name == "identification" and check.verdict == "failed":
                return

    def _identification(self, name: str) -> Check:
        found, version = (self.device.read_register(each) for each in ("id", "version"))
        figures = {"device": self.device.name, "id": found, "version": version,
                   "memory_bytes": self.device.memory_bytes}
        shown = f"{version >> 16}.{version & 0xffff}"
        try:
            self.device.identify()
        except HeadraceError as error:
            return Check(name, "failed", str(error), figures)
        return Check(name, "ok", f"headrace, version {shown}, {self.device.memory_bytes:,} bytes "
                     f"of memory from {self.device.memory_base:#x}", figures)

    def _configuration(self, name: str) -> Check:
        device = self.device
        fingerprint = device.read_register("fingerprint")
        sizes = {field: device.read_bits(register, field) for register in ("size", "limits")
                 for field in REGISTERS[register].bits}
        figures = {"fingerprint": f"{fingerprint:08x}", **sizes}
        shown = (f"{fingerprint:08x}: {sizes['rows']} x {sizes['cols']}, {sizes['lanes']} lanes, "
                 f"port of {sizes['port_bytes']} bytes, {sizes['chunk_positions']} positions, "
                 f"{sizes['streams']} streams")
        config = self.config or preset_of(fingerprint)
        if config is None:
            return Check(name, "skipped", f"{shown}; no preset has this fingerprint: name the "
                         f"configuration with --config FILE.toml", figures)
        figures["config"] = config.name
        expected = {"rows": config.rows, "cols": config.cols, "lanes": config.lanes,
                    "port_bytes": config.port_bytes, "streams": config.streams,
                    "chunk_positions": config.chunk_positions}
        if config.fingerprint != fingerprint:
            return Check(name, "failed", f"{shown}; expected {config.fingerprint:08x} "
                         f"({config.name}): another configuration is loaded", figures)
        if sizes != expected:
            wrong = ", ".join(f"{key} {sizes[key]} instead of {value}"
                              for key, value in expected.items() if sizes[key] != value)
            return Check(name, "failed", f"{shown}; {config.name} has other sizes: {wrong}",
                         figures)
        self.config = config
        return Check(name, "ok", f"{config.name}, {shown}", figures)

    def _memory(self, name: str) -> Check:
        device = self.device
        by_board = hasattr(device, "memory_test")
        size = self._memory_bytes
        if size is None:
            # A simulation takes its time, and so does what goes through a link.
            whole = by_board and device.simulated_hz is None
            size = device.memory_bytes if whole else min(device.memory_bytes, 1 << 20)
        if not 0 < size <= device.memory_bytes or size % 4:
            raise HeadraceError(f"memory test of {size:,} bytes: expected a multiple of 4 up to "
                                f"{device.memory_bytes:,}")
        if by_board:
            result = cast(_TestsMemory, device).memory_test(device.memory_base, size)
        else:
            result = test_memory(device, device.memory_base, size, progress=lambda done, total:
                                 self._tell("testing memory", done, total))
        figures = {"bytes": size, "errors": result.errors, "bad_addr": result.bad_addr,
                   "seconds": round(result.seconds, 3), "by": "board" if by_board else "host"}
        shown = f"{size:,} bytes, by the {figures['by']}, in {result.seconds:.2f} s"
        if result.errors:
            return Check(name, "failed", f"{result.errors:,} of {result.words:,} words are wrong, "
                         f"the first at {result.bad_addr:#x} ({shown}): the memory or its "
                         f"controller does not work", figures)
        return Check(name, "ok", f"no error in {shown}", figures)

    def _known_answer(self, name: str) -> Check:
        if self.config is None:
            return Check(name, "skipped", "the configuration is not known")
        image = self._compile(self.config)
        assert image.tokenizer is not None
        self._tell("uploading the built-in model", 0, 0)
        start = time.monotonic()
        session = Session(self.device, image, check=True)
        self._upload = time.monotonic() - start
        self._tell("making passes", 0, 0)
        ids = image.tokenizer.encode(PROMPT)
        try:
            tokens = [session.prefill(ids), *session.decode(1)]
        except Difference as difference:
            return Check(name, "failed", str(difference), {"verdict": session.verdict})
        self._session = session
        text = image.tokenizer.decode(ids + tokens)
        return Check(name, "ok", f"{text!r}: tokens, logits and cache of {len(ids) + 1} positions "
                     f"bit for bit as the golden machine's",
                     {"verdict": session.verdict, "tokens": tokens, "text": text})

    def _bandwidth(self, name: str) -> Check:
        session = self._session
        if session is None or self.config is None:
            return Check(name, "skipped", "it is measured in the pass with the known answer")
        size = session.image.content.size
        figures: dict[str, object] = {"load_bytes": size, "load_seconds": round(self._upload, 3)}
        loaded = f"loading {size:,} bytes took {self._upload:.2f} s"
        last = session.statistics.passes[-1]
        if last["cycles"] is None:
            return Check(name, "skipped", f"this device has no time; {loaded}", figures)
        clk_hz = getattr(self.device, "clk_hz", 0) or self.config.clk_hz
        total = sum(last["bytes_read"].values())
        rate = total / last["cycles"]
        figures |= {"clk_hz": clk_hz, "cycles": last["cycles"], "bytes_read": total,
                    "bytes_per_cycle": round(rate, 4),
                    "port_share": round(rate / self.config.port_bytes, 4),
                    "bytes_per_second": round(rate * clk_hz),
                    "tokens_per_second": round(clk_hz / last["cycles"], 3)}
        simulated = "" if self.device.simulated_hz is None else " in simulated time"
        return Check(name, "ok", f"a decode pass read {total:,} bytes in {last['cycles']:,} "
                     f"cycles: {rate * clk_hz / 1e6:.1f} MB/s at {clk_hz / 1e6:g} MHz{simulated}, "
                     f"{100 * rate / self.config.port_bytes:.1f} % of the port; {loaded}", figures)

    def _tell(self, text: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(text, done, total)

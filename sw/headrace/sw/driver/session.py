"""One conversation of a model with one device."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import ALIGN

from ..check import Difference, Finding
from ..compiler import Image
from ..device import Device
from ..errors import HeadraceError
from ..golden_device import GoldenDevice
from ..locality import locality
from ..replay import Run
from ..sampling import Sampler
from ..statistics import Span, Statistics
from ..trace import Trace, Tracer
from .failure import check_status
from .generation import check_prompt, greedy, sampled
from .mirror import Mirror
from .setup import check_fit, configure


__all__ = ["Session"]


# Bound of a pass in cycles: a least, and so many times the beats and steps that it needs, enough
# for slow memory and stalls.
_LEAST_BOUND = 5_000_000
_PATIENCE = 400


class Session:
    """One conversation of a model with one device.

    Parameters
    ----------
    device : Device
        An opened device.
    image : Image
        The model; its fingerprint must be the device's.
    base : int, optional
        Address of the image, a multiple of 4096; the beginning of the memory by default.
    chunk : int, optional
        Positions of a prefill pass; `image.prefill_chunk` by default.
    passes_per_run : int
        Decode passes that the device makes without the host.
    check : bool
        Let a golden device make every pass too, and compare logits, tokens and every byte of the
        cache after each run. On a difference a replica of the device, if it has one, makes all
        runs again to find the first instruction that went wrong.
    max_cycles : int, optional
        Bound of one pass in cycles; some hundred times what the pass should take by default.
    trace : bool
        Record what the engines do in all runs; the device must be able to, see
        :meth:`Device.begin_activity`.
    progress : callable, optional
        Called now and then during a run, with its cycles so far.
    notify : callable, optional
        Called with a text before something that takes long.

    Attributes
    ----------
    position : int
        Tokens in the cache.
    statistics : Statistics
        What each pass did.
    verdict : str or None
        ``"bit-exact"``, or the first difference; None without `check`.

    Raises
    ------
    HeadraceError
        If device and image do not fit together.
    """

    def __init__(self, device: Device, image: Image, *, base: int | None = None,
                 chunk: int | None = None, passes_per_run: int = 1, check: bool = False,
                 trace: bool = False, max_cycles: int | None = None,
                 progress: Callable[[int], None] | None = None,
                 notify: Callable[[str], None] | None = None):
        self.device, self.image = device, image
        self.base = device.memory_base if base is None else base
        self.chunk = image.prefill_chunk if chunk is None else chunk
        self.passes_per_run = passes_per_run
        self.max_cycles, self.progress, self.notify = max_cycles, progress, notify
        self.position = 0
        self.verdict = "bit-exact" if check else None
        check_fit(device, image, base=self.base, chunk=self.chunk,
                  passes_per_run=self.passes_per_run)
        self.statistics = Statistics(image)
        self._devices: list[Device] = [device]
        device.write_memory(self.base, image.content)
        self._mirror = Mirror(device, image, self.base) if check else None
        if self._mirror:
            self._devices.append(self._mirror.golden)
        for each in self._devices:
            self._configure(each)
        self._tracer = Tracer(device, image) if trace else None

    def _configure(self, device: Device) -> None:
        configure(device, self.image, self.base)

    # Memory.

    def _token_address(self, position: int) -> int:
        return self.base + self.image.regions["tokens"].begin + 4 * position

    def _tokens(self, device: Device, position: int, count: int) -> list[int]:
        raw = device.read_memory(self._token_address(position), 4 * count)
        return raw.view("<u4").tolist()

    def logits(self) -> np.ndarray:
        """Logits of the last pass that wrote them."""
        region = self.image.regions["logits"]
        raw = self.device.read_memory(self.base + region.begin, 4 * self.image.shape.vocab)
        return raw.view("<f4")

    def cache_bytes(self, device: Device | None = None, *, tokens: int | None = None
                    ) -> np.ndarray:
        """Bytes of the cache, in whole blocks of 32 tokens."""
        size = self.image.cache.size(self.position if tokens is None else tokens)
        begin = self.base + self.image.regions["cache"].begin
        return (device or self.device).read_memory(begin, size)

    # Running.

    def check_prompt(self, ids: Sequence[int], tokens: int) -> None:
        """Refuse a prompt that the model cannot take.

        Raises
        ------
        HeadraceError
            If it is empty, an id is out of range, or the context is too short.
        """
        check_prompt(self, ids, tokens)

    def _bound(self, positions: int, passes: int) -> int:
        """Cycles after which a run hangs."""
        if self.max_cycles is not None:
            return self.max_cycles * passes
        config = self.image.config
        last = self.position + passes - 1
        traffic = self.image.expected_traffic(last, positions, True, True)
        beats = (sum(traffic.read.values()) + sum(traffic.written.values())) // config.port_bytes
        steps = self.image.useful_macs(last, positions, True) // config.cols
        return passes * (_LEAST_BOUND + _PATIENCE * (beats + steps))

    def _run(self, kind: str, positions: int, passes: int, *, head: bool, logits: bool) -> None:
        """Make a run of `passes` from the present position, and keep its statistics."""
        position = self.position
        if position + positions + passes - 1 > self.image.context:
            raise HeadraceError(f"{positions} positions and {passes} passes from position "
                                f"{position} exceed the context of {self.image.context}: begin "
                                f"anew, or compile the model with a longer context")
        run = Run(position=position, positions=positions, passes=passes, head=head,
                  logits=logits, bound=self._bound(positions, passes))
        if self._mirror:
            self._mirror.history.steps.append(run)
        first = Span(kind=kind, position=position, positions=positions, head=head, logits=logits)
        later = [Span(kind=kind, position=position + positions + index, positions=1, head=True,
                      logits=logits) for index in range(passes - 1)]
        if self._tracer:
            self._tracer.begin([first, *later])
        for device in self._devices:
            run.make(device, self.progress)
            check_status(device, position)
        if self._tracer:
            self._tracer.end()
        self.position = position + positions + passes - 1
        self.statistics.add_run(self.device, self.base, [first, *later])
        if self._mirror:
            self._compare(run)

    def _compare(self, run: Run) -> None:
        """Compare memories after a run.

        Raises
        ------
        Difference
            If they are not equal.
        """
        assert self._mirror is not None
        found = self._mirror.compare(run)
        if found:
            where = f"positions {run.position} to {self.position - 1}"
            self.verdict = f"{where}: {found}"
            self.verdict = f"{where}: {self._localise(run, found)}"
            raise Difference(f"check: the first difference is in {self.verdict}")

    def _localise(self, run: Run, found: Finding) -> str:
        """Name what went wrong before memory differed."""
        assert self._mirror is not None
        if self.notify:
            self.notify(f"check: {found}; making the runs again with a probe, to find the first "
                        f"instruction that differs")
        return self._mirror.localise(run, found, self.progress)

    def prefill(self, ids: Sequence[int], *, logits: bool = False, head: bool = True) -> int:
        """Send token ids through the model, in chunks; return the token that follows.

        `head` False leaves out the output layer; then the result is -1.
        """
        self.write_tokens(ids)
        left = len(ids)
        for count in self.passes(self.image, left, self.chunk):
            left -= count
            last = head and not left
            self._run("prefill", count, 1, head=last,
                      logits=last and (logits or bool(self._mirror)))
        return self._tokens(self.device, self.position, 1)[0] if head else -1

    def write_tokens(self, ids: Sequence[int]) -> None:
        """Put token ids into the token buffer, at the present position.

        Raises
        ------
        HeadraceError
            If there are none, or the rest of the context is shorter.
        """
        if not len(ids) or self.position + len(ids) > self.image.context:
            raise HeadraceError(f"a prompt of {len(ids)} tokens at position {self.position}: "
                                f"expected 1 to {self.image.context - self.position}, the rest of "
                                f"the context")
        data = np.array(ids, "<u4").view(np.uint8)
        at = self._token_address(self.position)
        if self._mirror:
            self._mirror.wrote(at, data)
        for device in self._devices:
            device.write_memory(at, data)

    def teacher_forced(self, ids: Sequence[int]) -> Iterator[NDArray[np.float32]]:
        """Send token ids through the model, and yield the logits after every one of them.

        The golden device computes the output layer for all positions of a prefill pass; such
        passes are not in the statistics. Any other makes a pass for each token.

        Yields
        ------
        float32 array, shape (positions, tokens of the vocabulary)
            Logits of the next positions, in order.
        """
        if not isinstance(self.device, GoldenDevice) or self._mirror:
            for token in ids:
                self.prefill([token], logits=True)
                yield self.logits()[None]
            return
        self.write_tokens(ids)
        for count in self.passes(self.image, len(ids), self.chunk):
            logits = self.device.all_logits(self.position, count)
            self.position += count
            yield logits

    @staticmethod
    def passes(image: Image, positions: int, chunk: int | None = None) -> Iterator[int]:
        """Positions of each pass of a prefill of `positions` tokens.

        Passes are as even as whole row sets allow, because a last pass of few positions would
        read all weights for them alone.
        """
        chunk, rows = image.prefill_chunk if chunk is None else chunk, image.config.rows
        while positions:
            count = -(-positions // chunk)
            share = min(chunk, positions, rows * -(-positions // (count * rows)))
            yield share
            positions -= share

    def load_history(self, cache: NDArray[np.uint8], tokens: int) -> None:
        """Put a cache of `tokens` tokens in place, as if so many had been prefilled.

        Raises
        ------
        HeadraceError
            If the image pins a part of the cache: the KV buffer is filled by appends only.
        """
        if self.image.kv_pinned:
            raise HeadraceError("load_history: the KV buffer is filled by appends only: expected "
                                "an image with kv_pinned = 0")
        if not 0 <= tokens < self.image.context or cache.size != self.image.cache.size(tokens):
            raise HeadraceError(f"load_history: {cache.size} bytes for {tokens} tokens: expected "
                                f"up to {self.image.context - 1} tokens in "
                                f"{self.image.cache.size(tokens)} bytes, whole blocks")
        at = self.base + self.image.regions["cache"].begin
        if self._mirror:
            self._mirror.wrote(at, cache)
        for device in self._devices:
            device.write_memory(at, cache)
        self.position = tokens

    def decode(self, passes: int = 1, *, logits: bool = False) -> list[int]:
        """Make decode passes in one run, each from the token before; return the tokens."""
        first = self.position + 1
        self._run("decode", 1, passes, head=True, logits=logits or bool(self._mirror))
        return self._tokens(self.device, first, passes)

    def generate(self, ids: Sequence[int], tokens: int, sampler: Sampler | None = None
                 ) -> Iterator[int]:
        """Generate up to `tokens` tokens after a prompt, and stop behind an end-of-sequence.

        Without a `sampler` each token is the device's arg-max; with one, the device writes logits
        in runs of one pass, and the host chooses.

        Yields
        ------
        int
            Tokens as they come; the end-of-sequence token is the last, if there is one.

        Raises
        ------
        HeadraceError
            Bad prompt, device error, or a difference found by `check`.
        """
        self.check_prompt(ids, tokens)
        if sampler is not None and not sampler.sampling.greedy:
            return sampled(self, ids, tokens, sampler)
        return greedy(self, ids, tokens)

    def rewind(self, position: int) -> None:
        """Forget the tokens of the cache from a position on.

        Raises
        ------
        HeadraceError
            If there are not so many.
        """
        if not 0 <= position <= self.position:
            raise HeadraceError(f"rewind to position {position}: expected 0 to {self.position}")
        self.position = position

    def restart(self) -> None:
        """Begin a new conversation with an empty cache."""
        self.position = 0

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the cache that the KV buffer holds."""
        return self.image.kv_pinned * ALIGN

    def trace(self) -> Trace | None:
        """What the engines did in all passes so far; None unless the session records it."""
        if self._tracer is None:
            return None
        passes = self.statistics.passes
        return self._tracer.trace(self.statistics.spans, [each["cycles"] for each in passes])

    def report(self, trace: Trace | None = None) -> dict[str, Any]:
        """Figures of all passes so far, under the names of ``headrace run --json``.

        With a `trace` of them, layers and operations have cycles, too.
        """
        spans = self.statistics.spans
        return {"check": self.verdict, "clock_hz": self.device.clk_hz or self.image.config.clk_hz,
                "stream_waste": self.image.stream_waste,
                **self.statistics.report(),
                "locality": locality(self.image, spans, trace.charged if trace else None),
                "simulated_hz": self.device.simulated_hz}

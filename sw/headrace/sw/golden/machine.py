"""The golden machine: executes the instructions of a pass."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import Config
from headrace.hw.isa import Op

from . import attention, matmul, vector
from .state import State


__all__ = ["GoldenMachine", "Trace"]


#: Called after each instruction with its index, its fields and the tensors that it produced.
Trace = Callable[[int, dict[str, int], dict[str, NDArray]], None]


class GoldenMachine:
    """Executes passes on a memory that holds an image.

    Parameters
    ----------
    config : Config
        The machine.
    memory : uint8 array
        External memory; shared, not copied. Cache, tokens and logits are written to it exactly
        as the hardware writes them.
    base : int
        Byte of `memory` where the image begins.
    fill : int
        Byte that SRAM is filled with at first.
    """

    def __init__(self, config: Config, memory: NDArray[np.uint8], *, base: int = 0,
                 fill: int = 0xff):
        self.state = State(config, memory, base=base, fill=fill)
        self.trace: Trace | None = None
        self._weights: dict[tuple[int, int], matmul.Weights] = {}

    def forget_weights(self) -> None:
        """Unpack weights again when they are next used: memory has changed."""
        self._weights.clear()

    def _unpacked(self, code: dict[str, int]) -> matmul.Weights:
        key = (code["addr"], code["words"])
        if key not in self._weights:
            self._weights[key] = matmul.unpack(self.state, code)
        return self._weights[key]

    def run_pass(self, program: Sequence[dict[str, int]], *, position: int, positions: int,
                 head: bool, logits: bool) -> int | None:
        """Execute one pass.

        Parameters
        ----------
        program : sequence of dict
            Decoded instructions.
        position, positions : int
            First position, and number of positions.
        head, logits : bool
            Compute logits and the next token; write logits to memory.

        Returns
        -------
        int or None
            The next token.

        Raises
        ------
        BusError
            If an instruction leaves the memory.
        """
        token = None
        for index, code in self._instructions(program, head=head):
            if code["op"] == Op.LOGITS:
                token, tensors = vector.logits(self.state, code, position + positions,
                                               write=logits)
            else:
                tensors = self._execute(code, position, positions)
            if self.trace:
                self.trace(index, code, tensors)
        return token

    def all_logits(self, program: Sequence[dict[str, int]], *, position: int, positions: int
                   ) -> NDArray[np.float32]:
        """Execute one pass with the output layer for every position, not only the last one.

        The arithmetic of a position is that of a pass that ends there; the cache is written, logits
        and token are not.

        Returns
        -------
        float32 array, shape (positions, tokens of the vocabulary)
            Logits after each position.

        Raises
        ------
        BusError
            If an instruction leaves the memory.
        """
        logits = np.empty((positions, 0), np.float32)
        for _, code in self._instructions(program, head=True):
            if code["op"] == Op.LOGITS:
                logits = self.state.results.popleft().values[:, :code["limit"]]
            else:
                self._execute(code | {"last_only": 0} if code["head"] else code, position,
                              positions)
        return logits

    def _instructions(self, program: Sequence[dict[str, int]], *, head: bool
                      ) -> Iterator[tuple[int, dict[str, int]]]:
        """The instructions of a pass, with their indices."""
        self.state.results.clear()
        for index, code in enumerate(program):
            if head or not code["head"]:
                yield index, code

    def _execute(self, code: dict[str, int], position: int, positions: int
                 ) -> dict[str, NDArray]:
        state = self.state
        match code["op"]:
            case Op.EMBED:
                return vector.embed(state, code, position, positions)
            case Op.NORM:
                return vector.norm(state, code, positions)
            case Op.RMS:
                return vector.rms(state, code, positions)
            case Op.QUANT:
                return vector.quant(state, code, positions)
            case Op.MATMUL:
                streams = 1 if code["last_only"] else positions
                results = matmul.matmul(state, code, self._unpacked(code), streams)
                state.results.append(results)
                return {"results": results.values}
            case Op.STORE | Op.ADD | Op.GLU as op:
                return vector.consume(state, code, positions, op.name.lower())
            case Op.APPEND:
                return attention.append(state, code, position, positions)
            case Op.ROPE:
                return vector.rope(state, code, positions)
            case Op.ATTN:
                results = attention.attention(state, code, position, positions)
                state.results.append(results)
                assert results.row_scale is not None
                return {**results.steps, "inv_sum": results.row_scale, "results": results.values}
            case Op.ATTN_OUT:
                return vector.attention_out(state, code, positions)
        return {}

"""What a board can run, and how fast at most: bytes of a token over bytes per second."""

from dataclasses import dataclass, replace

from headrace.hw.config import Config
from headrace.sw.bench import WORKLOADS
from headrace.sw.checkpoint import Checkpoint, SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import plan_model
from headrace.sw.errors import HeadraceError
from headrace.sw.policies import parse_policy

from .catalogue import Board


__all__ = ["CONTEXTS", "MODELS", "Estimate", "bandwidth", "estimate", "example"]


#: Tokens in the cache for which boards are estimated.
CONTEXTS = (512, 2048)

#: Models for which boards are estimated: format of the weights.
MODELS = {"demo": "w8", "SmolLM2-135M": "w4a", "Llama-3.2-1B": "w4"}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One model on one board.

    Parameters
    ----------
    board, model, quant : str
        Names, and the format of the weights.
    context : int
        Tokens in the cache.
    largest_context : int
        Most tokens that fit into the memory, of those that the model knows; 0 if it does not fit.
    token_bytes : int
        Bytes that one token of the answer reads: all weights, and the cache at that context.
    bytes_per_second : float
        Most that the accelerator can get, see :func:`bandwidth`.
    reason : str
        Why the model does not run; empty if it does.
    """

    board: str
    model: str
    quant: str
    context: int
    largest_context: int
    token_bytes: int
    bytes_per_second: float
    reason: str = ""

    @property
    def tokens_per_second(self) -> float:
        """Tokens of an answer per second, at most; 0 if the model does not run so far."""
        runs = not self.reason and self.context <= self.largest_context
        return self.bytes_per_second / self.token_bytes if runs else 0.0


def bandwidth(board: Board, config: Config) -> float:
    """Bytes per second that a configuration can get on a board, at most.

    The least of what its port takes, of what the processor system's port gives, and of what the
    DRAM's data bus carries. Refreshes, row changes and other users take their part of it.
    """
    limits = [config.clk_hz * config.port_bytes, board.memory.peak_bytes]
    if board.memory.port_bits:
        limits.append(config.clk_hz * board.memory.port_bits / 8)
    return min(limits)


def estimate(board: Board, checkpoint: Checkpoint, quant: str, context: int,
             config: Config | None = None) -> Estimate:
    """Estimate a model on a board; no weight is read.

    Parameters
    ----------
    board : Board
    checkpoint : Checkpoint
        The model.
    quant : str
        Formats of the weights, as ``--quant`` takes them.
    context : int
        Tokens in the cache, at least 1.
    config : Config or None
        Another configuration than the board's.

    Raises
    ------
    HeadraceError
        If `quant` or `context` is none.
    """
    config = config or board.config
    policy = parse_policy(quant)
    if context < 1:
        raise HeadraceError(f"context {context}: expected at least 1 token")
    facts = {"board": board.name, "model": checkpoint.name, "quant": quant, "context": context,
             "bytes_per_second": bandwidth(board, config)}
    try:
        plan = plan_model(checkpoint, config, policy=policy)
    except HeadraceError as error:
        return Estimate(**facts, largest_context=0, token_bytes=0, reason=str(error))
    need = plan.place(1).end
    largest = plan.largest_context()
    reason = "" if largest else (f"needs {need:,} bytes, but {board.name} has "
                                 f"{config.memory_bytes:,}")
    return Estimate(**facts, largest_context=largest, reason=reason,
                    token_bytes=plan.weight_bytes + context * plan.token_cache_bytes)


def example(name: str) -> Checkpoint:
    """A model of :data:`MODELS`: the built-in one, or one of the same shape without weights."""
    shapes = {"SmolLM2-135M": (WORKLOADS["smollm2-135m-layer"].shape, 30, 49152, 8192),
              "Llama-3.2-1B": (WORKLOADS["llama-3.2-1b-layer"].shape, 16, 128256, 8192)}
    if name not in shapes:
        return load_checkpoint(name)
    shape, layers, vocabulary, context = shapes[name]
    assert shape is not None
    return SyntheticCheckpoint(replace(shape, layers=layers, vocab=vocabulary, context=context),
                               name=name)

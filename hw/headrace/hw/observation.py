"""What the probe of a device records: sources and their fields."""

from .config import Config


__all__ = ["sources"]


def sources(config: Config) -> dict[str, dict[str, int]]:
    """Fields of each source, in order, with their sizes in 32-bit words.

    ``retire``
        The vector unit ended an instruction: its opcode. What belongs to one instruction of the
        vector unit lies between two of these.
    ``x``, ``a``, ``s``
        Writes to X, to A and to the activation scales.
    ``results``
        Words of results that the vector unit took.
    ``append``, ``append_data``
        Heads and bytes of entries of the cache.
    ``logits``, ``token``
        Words of logits on their way to memory; the token that was chosen.
    ``scores``
        Words that the softmax pipeline took from the accumulator.
    ``p``, ``p_scale``
        Probabilities and factors that the softmax pipeline wrote.

    Bytes are packed into words, the first one lowest.
    """
    lanes = config.lanes
    packed = -(-lanes // 4)
    return {
        "retire": {"op": 1},
        "x": {"addr": 1, "data": lanes},
        "a": {"addr": 1, "row": 1, "data": packed},
        "s": {"addr": 1, "data": 1},
        "results": {"row_scale": 1, "values": lanes},
        "append": {"unit": 1, "token": 1, "value": 1, "scale": 1},
        "append_data": {"data": packed},
        "logits": {"values": lanes},
        "token": {"token": 1},
        "scores": {"values": lanes},
        "p": {"addr": 1, "row": 1, "data": packed},
        "p_scale": {"stream": 1, "act_scale": 1, "rescale": 1, "inv_sum": 1},
    }

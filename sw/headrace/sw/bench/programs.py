"""Programs of a benchmark: parts of a compiled program, executed as often as wanted."""

from dataclasses import replace

import numpy as np

from headrace.hw.isa import INSTRUCTION_BYTES, Op, encode

from ..compiler import Image
from ..errors import HeadraceError


__all__ = ["MATRICES", "arranged", "single"]


#: Matrices of a layer, in the order of their use.
MATRICES = ("kv", "q", "o", "gate_up", "down")

#: Instructions that take the results of the matmul unit, in the order in which they are made.
_CONSUMERS = (Op.STORE, Op.ADD, Op.GLU, Op.ATTN_OUT)


def _with_program(image: Image, codes: list[dict]) -> Image:
    """The image with another program, which must fit where the old one was."""
    region = image.regions["program"]
    data = b"".join(
        encode(code["op"], **{name: value for name, value in code.items() if name != "op"})
        for code in codes)
    if len(data) > region.size:
        raise HeadraceError(f"a program of {len(data)} bytes: expected at most {region.size}, the "
                            f"place of the compiled one")
    content = image.content.copy()
    content[region.begin:region.end] = 0
    content[region.begin:region.begin + len(data)] = np.frombuffer(data, np.uint8)
    return replace(image, content=content, instructions=len(data) // INSTRUCTION_BYTES)


def _parts(image: Image, repeat: int) -> tuple[list[dict], list[dict], list[dict], list[dict]]:
    """EMBED, one execution of all layers, the output layer, END."""
    program = image.program
    head = [code for code in program if code["head"]]
    body = program[1:len(program) - 1 - len(head)]
    return program[:1], body[:len(body) // repeat], head, program[-1:]


def arranged(image: Image, *, layers: int, heads: int = 1, repeat: int = 1) -> Image:
    """The image of a model whose layers and output layer are executed so many times.

    Parameters
    ----------
    image : Image
        Compiled with all layers `repeat` times, so that there is room for as many instructions.
    layers, heads : int
        Executions of all layers, and of norm, projection and arg-max behind them.
    """
    begin, layer, head, end = _parts(image, repeat)
    return _with_program(image, begin + layers * layer + heads * head + end)


def single(image: Image, name: str, *, repeat: int = 1) -> Image:
    """The image of a pass that multiplies by one matrix of layer 0, and does little else.

    EMBED, the norm of the residual stream, the products with their consumers, END. Activations of
    a longer vector than the norm makes are whatever A holds: only cycles are of interest.

    Parameters
    ----------
    image : Image
        Compiled with all layers `repeat` times.
    name : str
        One of :data:`MATRICES`.
    """
    begin, layer, _, end = _parts(image, repeat)
    norm = next(code for code in layer if code["op"] == Op.NORM)
    region = image.parts[f"layers.0.{name}"]
    makers = [code for code in layer if code["op"] in (Op.MATMUL, Op.ATTN)]
    takers = [index for index, code in enumerate(layer) if code["op"] in _CONSUMERS]
    codes = []
    for maker, at in zip(makers, takers):
        if maker["op"] == Op.MATMUL and region.unit <= maker["addr"] < region.unit + max(
                1, region.size // 64):
            # The first product waits for the norm, whatever it waits for in its layer.
            codes += [{**maker, "wait_a": int(not codes)}, layer[at]]
            if layer[at]["op"] == Op.GLU:
                # In pieces, the hidden vector is quantised before the next product.
                codes.append({**layer[at + 1], "post_a": 0})
    return _with_program(image, [*begin, norm, *codes, *end])

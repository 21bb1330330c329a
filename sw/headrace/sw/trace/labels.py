"""Names of instructions: which operation of the model, and which layer, each belongs to."""

import bisect
from collections import deque
from dataclasses import dataclass

from headrace.hw.config import ALIGN
from headrace.hw.isa import Op

from ..compiler import Image


__all__ = ["BETWEEN", "Label", "OPERATIONS", "labels"]


#: What is no operation of the model: embedding, end of a pass, fetch of the program.
BETWEEN = "begin and end"

#: Operations in the order of a pass.
OPERATIONS = ("q/k/v", "attention", "o", "gate/up", "down", "head", BETWEEN)

#: Operation of each matrix and of each table, by the last part of its name.
_OPERATION = {"kv": "q/k/v", "q": "q/k/v", "o": "o", "gate_up": "gate/up", "down": "down",
              "head": "head", "attention_norm": "q/k/v", "mlp_norm": "gate/up",
              "final_norm": "head"}

_ATTENTION = (Op.APPEND, Op.ROPE, Op.ATTN, Op.ATTN_OUT)
_CONSUMERS = (Op.STORE, Op.ADD, Op.GLU, Op.ATTN_OUT, Op.LOGITS)


@dataclass(frozen=True)
class Label:
    """One instruction of the program.

    Attributes
    ----------
    index : int
        Index in the program.
    op : Op
        Opcode.
    part : str
        Matrix or table that it belongs to, or nothing.
    operation : str
        One of `OPERATIONS`.
    layer : int or None
        Layer, where it belongs to one.
    """

    index: int
    op: Op
    part: str
    operation: str
    layer: int | None

    @property
    def name(self) -> str:
        """Opcode and part: ``MATMUL layers.0.kv``."""
        return f"{self.op.name} {self.part}".rstrip()


def labels(image: Image) -> list[Label]:
    """Label of each instruction of the program."""
    places = sorted((region.begin, name) for name, region in image.parts.items())
    begins = [begin for begin, _ in places]

    def part_at(unit: int) -> str:
        return places[bisect.bisect_right(begins, unit * ALIGN) - 1][1]

    result: list[Label] = []
    producers: deque[Label] = deque()
    layer: int | None = None
    for index, code in enumerate(image.program):
        op = Op(code["op"])
        if op in (Op.MATMUL, Op.NORM):
            part = part_at(code["addr" if op == Op.MATMUL else "table"])
            layer = int(part.split(".")[1]) if "." in part else None
            operation = _OPERATION[part.split(".")[-1]]
        elif op in _ATTENTION:
            part, operation = f"layers.{layer}", "attention"
        elif op in _CONSUMERS:
            part, operation = producers[0].part, producers[0].operation
        elif op == Op.QUANT:
            after_attention = result[-1].op == Op.ATTN_OUT
            part, operation = f"layers.{layer}", "o" if after_attention else "down"
        else:
            part, operation, layer = "", BETWEEN, None
        label = Label(index, op, part, operation, layer)
        if op in (Op.MATMUL, Op.ATTN):
            producers.append(label)
        elif op in _CONSUMERS:
            producers.popleft()
        result.append(label)
    return result

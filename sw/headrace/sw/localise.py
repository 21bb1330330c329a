"""The first instruction that went wrong in a run, found by making the run again with a probe."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.typing import NDArray

from headrace.hw.isa import ENGINES, Op

from .check import Finding
from .compiler import Image
from .observed import Observed
from .recording import Recording


__all__ = ["PassScalars", "Walk", "instruction_name"]


#: What takes results.
_CONSUMERS = (Op.STORE, Op.ADD, Op.GLU, Op.ATTN_OUT, Op.LOGITS)


@dataclass(frozen=True, kw_only=True)
class PassScalars:
    """One pass of a run: where it begins, how long it is, and whether it computes logits."""

    position: int
    positions: int
    head: bool


def instruction_name(image: Image, index: int) -> str:
    """Index, opcode, and layer or weights of an instruction: ``instruction 7 (ADD, layer 0)``."""
    program = image.program
    code = program[index]
    op = Op(code["op"])
    addr = {Op.MATMUL: "addr", Op.NORM: "table"}.get(op)
    if addr is not None:
        names = {region.unit: name for name, region in image.parts.items()}
        part = f", {names[code[addr]]}" if code[addr] in names else ""
        return f"instruction {index} ({op.name}{part})"
    # A layer begins with the NORM before its APPEND.
    layer, norm, begins = -1, 0, []
    for at, other in enumerate(program):
        if other["op"] == Op.NORM:
            norm = at
        elif other["op"] == Op.APPEND:
            begins.append(norm)
    if not code["head"] and op not in (Op.EMBED, Op.END):
        layer = sum(begin <= index for begin in begins) - 1
    where = f", layer {layer}" if layer >= 0 else ""
    return f"instruction {index} ({op.name}{where})"


@dataclass
class Walk:
    """Goes through a recording beside the golden machine, as its `trace`.

    Parameters
    ----------
    image : Image
        The model.
    recording : Recording
        What the device wrote in the run.
    passes : sequence of PassScalars
        The passes of the run.

    Attributes
    ----------
    found : Finding or None
        The first difference so far.
    """

    image: Image
    recording: Recording
    passes: Sequence[PassScalars]
    found: Finding | None = None
    _turn: int = 0
    _before: int = 0        # instructions of the vector unit in earlier passes
    _own: list[int] = field(default_factory=list)
    _consumers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        self._observed = Observed(self.image.config, self.recording)
        self._ended = self.recording.instructions
        self._plan()

    def _plan(self) -> None:
        """List the instructions of the vector unit in this pass, and who takes which results."""
        if self._turn == len(self.passes):
            return
        program = self.image.program
        made = [index for index, code in enumerate(program)
                if self.passes[self._turn].head or not code["head"]]
        self._own = [index for index in made if "vector" in ENGINES[Op(program[index]["op"])]]
        producers = [index for index in made if program[index]["op"] in (Op.MATMUL, Op.ATTN)]
        takers = [index for index in made if program[index]["op"] in _CONSUMERS]
        self._consumers = dict(zip(producers, takers))

    def __call__(self, index: int, code: dict[str, int], tensors: dict[str, NDArray]) -> None:
        """Compare one instruction."""
        if self.found is None:
            text = self._compare(index, code, tensors)
            if text is not None:
                name = instruction_name(self.image, index)
                self.found = Finding(self._turn, index, f"{name}: {text}")
        if code["op"] == Op.END:
            self._before += len(self._own)
            self._turn += 1
            self._plan()

    def _compare(self, index: int, code: dict[str, int], golden: dict[str, NDArray]
                 ) -> str | None:
        scalars = self.passes[self._turn]
        taker = self._consumers.get(index, index)
        number = self._before + self._own.index(taker)
        takes = self.image.program[taker]
        for tensor in self._observed.tensors(
                code, golden, index=number, position=scalars.position,
                positions=scalars.positions, limit=takes.get("limit"), kind=Op(takes["op"])):
            if text := tensor.difference():
                return text
        if taker != index:
            return None
        if text := self._observed.strays(code, golden, index=number, positions=scalars.positions):
            return text
        if number >= len(self._ended):
            return "it did not end on the device"
        if self._ended[number] != code["op"]:
            return f"the vector unit of the device executed opcode {self._ended[number]} instead"
        return None

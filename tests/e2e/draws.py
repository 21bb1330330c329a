"""Random machines and random models, as Hypothesis strategies."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from headrace.hw.config import KV_BLOCK, Config
from headrace.hw.isa import Format
from headrace.sim.memory import MemoryOptions
from headrace.sw.checkpoint import ModelShape, SyntheticCheckpoint
from headrace.sw.compiler import Image, compile_model
from headrace.sw.layout import align
from headrace.sw.quantiser import Policy


__all__ = ["REFERENCE", "THEMES", "Case", "Model", "Theme", "cases"]


#: The machine that every model runs on for comparison, as a golden machine.
REFERENCE = Config(name="reference", group=128, ring_bytes=16384, x_bytes=1 << 16,
                   a_bytes=1 << 15, head_dim=256)

GROUPS = (16, 32, 48, 64, 80, 96, 112, 128)


@dataclass(frozen=True)
class Model:
    """A small random model, with the format and the group of its weights."""

    shape: ModelShape
    fmt: Format
    group: int
    seed: int

    def image(self, config: Config) -> Image:
        """Compile it."""
        return compile_model(SyntheticCheckpoint(self.shape, seed=self.seed), config,
                             policy=Policy(default=self.fmt, group=self.group))


@dataclass(frozen=True)
class Case:
    """A model on a machine: the fields of its configuration, and how its memory answers."""

    fields: dict[str, Any]
    model: Model
    latency: int
    stall_seed: int | None

    def config(self) -> Config:
        """Make the configuration; it may be refused."""
        return Config(name="drawn", **self.fields)

    def options(self) -> MemoryOptions:
        """Memory of the simulation, which also holds the device to its limits."""
        return MemoryOptions(latency=self.latency, stall_seed=self.stall_seed,
                             max_burst_beats=self.fields["burst_beats"],
                             max_reads=self.fields["outstanding"])


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Bounds of a family of machines.

    Parameters
    ----------
    rows, cols : tuple of int
        Least and most.
    cells : int
        Most rows x cols, as the time of a build grows with them.
    lanes, ports, groups : tuple of int
        Choices.
    width : int
        Most of the model's sizes: the narrower the array, the longer the simulation.
    """

    rows: tuple[int, int] = (1, 9)
    cols: tuple[int, int] = (1, 12)
    cells: int = 48
    lanes: tuple[int, ...] = (1, 1, 1, 2, 4)
    ports: tuple[int, ...] = (32, 64, 128, 256, 512)
    groups: tuple[int, ...] = GROUPS
    width: int = 48


#: Every extreme of the sizes is in the middle of one of these.
THEMES = {
    "small": Theme(),
    "one row": Theme(rows=(1, 1), cols=(2, 48)),
    "one column": Theme(rows=(2, 9), cols=(1, 1), lanes=(1,), width=32),
    "64 rows": Theme(rows=(64, 64), cols=(1, 3), cells=192),
    "tall": Theme(rows=(17, 63), cols=(1, 6), cells=160),
    "128 columns": Theme(rows=(1, 2), cols=(128, 128), cells=256, lanes=(4, 8)),
    "broad and odd": Theme(rows=(1, 3), cols=(33, 127), cells=200, lanes=(1, 1, 2)),
    "16 lanes": Theme(rows=(1, 4), cols=(16, 64), cells=96, lanes=(16,)),
    "port wider than the array": Theme(ports=(512,), rows=(1, 6), cols=(3, 8)),
    "port narrower than the array": Theme(ports=(32,), cols=(24, 64), rows=(1, 4), cells=128),
    "groups of 16": Theme(groups=(16,), rows=(2, 40), cols=(2, 12), cells=80),
}


@st.composite
def models(draw: st.DrawFn, width: int, groups: tuple[int, ...]) -> Model:
    """A model whose groups are among `groups`."""
    kv_heads = draw(st.integers(1, 3))
    head_dim = 2 * draw(st.integers(1, width // 2))
    shape = ModelShape(
        dim=draw(st.integers(1, width)), ffn=draw(st.integers(1, 2 * width)),
        layers=draw(st.integers(1, 2)), vocab=draw(st.integers(2, 2 * width)),
        heads=kv_heads * draw(st.integers(1, 3)), kv_heads=kv_heads, head_dim=head_dim,
        context=48, eps=1e-5, theta=10000.0, tied=draw(st.booleans()))
    return Model(shape, draw(st.sampled_from(Format)), draw(st.sampled_from(groups)),
                 draw(st.integers(0, 1000)))


@st.composite
def cases(draw: st.DrawFn, theme: Theme) -> Case:
    """A machine of `theme` with a model; a few do not fit each other, or break a rule."""
    def rarely() -> bool:
        return draw(st.integers(0, 39)) == 39

    lanes = draw(st.sampled_from(theme.lanes))
    group = draw(st.sampled_from(theme.groups))
    model = draw(models(theme.width, GROUPS if rarely() else
                        tuple(g for g in GROUPS if g <= group)))
    rows = draw(st.integers(*theme.rows))
    cols = draw(st.integers(theme.cols[0], min(theme.cols[1], theme.cells // rows)))
    if not rarely():
        cols = max(lanes, cols // lanes * lanes)
    stride = 1 << (cols - 1).bit_length()
    port = draw(st.sampled_from(theme.ports))
    block = KV_BLOCK if rarely() else max(group, KV_BLOCK)
    chunk = draw(st.integers(1, 9))
    head_dim = align(model.shape.head_dim, 16)
    fields = {
        "rows": rows, "cols": cols, "lanes": lanes, "port_bits": port, "group": group,
        "softmax_lanes": draw(st.sampled_from((1, 2, 4))),
        "chunk_positions": chunk,
        "streams": max(chunk, model.shape.n_rep * (not rarely())) + draw(
            st.sampled_from((0, 0, 1, 5, 24))),
        # From the least ring on, in odd numbers of words as well.
        "ring_bytes": stride * (4 * (block + 2) + draw(st.sampled_from((0, 0, 1, 7, 130, 900)))),
        "x_bytes": draw(st.sampled_from((2048, 4096, 8192, 24576))),
        # A row of A holds whole streams, so tall arrays need more for the same model.
        "a_bytes": 384 * rows + draw(st.sampled_from((0, 1000, 8192))),
        "head_dim": head_dim + draw(st.sampled_from((0, 0, 16, 80))),
        "table_elems": max(head_dim, 128) + draw(st.sampled_from((0, 16, 400))),
        "kv_bytes": draw(st.sampled_from((0, 64, 4096, 16384))),
        "burst_beats": draw(st.sampled_from((1, 2, 5, 16, 64))),
        "outstanding": draw(st.sampled_from((1, 2, 7, 16, 64))),
    }
    return Case(fields, model, draw(st.sampled_from((1, 7, 60))),
                draw(st.none() | st.integers(0, 1000)))

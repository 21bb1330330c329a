"""Verilog of any component, without a line for every word of its SRAM."""

import contextlib
import gc
import os
import re
from collections.abc import Iterator
from typing import Any

from amaranth.back import rtlil, verilog
from amaranth.hdl import Elaboratable, Fragment


__all__ = ["fill_memories", "to_verilog"]


_MEMORY = re.compile(
    r"^  reg (?:\[(?P<high>\d+):0\] )?(?P<name>\\\S+ |\w+) \[(?P<last>\d+):0\];\n"
    r"(?:  initial begin\n(?P<words>(?:    .*;\n)+)  end\n)?", re.MULTILINE)
_ZERO = re.compile(r"= \d+'(?:h0+|d0|b0+);$")


def to_verilog(component: Elaboratable | Fragment, name: str, fill: str | int | None = None,
               **options: Any) -> str:
    """Verilog of a component, in one text.

    Parameters
    ----------
    component : Component, Elaboratable or Fragment
    name : str
        Name of its module.
    fill : None, "ones" or int
        As of :func:`fill_memories`.
    **options
        As of ``amaranth.back.verilog.convert``: `ports`, `platform`.
    """
    with _packaged_yosys(), _without_empty_words(), _without_collection():
        text = verilog.convert(component, name=name, strip_internal_attrs=True, emit_src=False,
                               **options)
    return fill_memories(text, fill)


@contextlib.contextmanager
def _packaged_yosys() -> Iterator[None]:
    """Let the Yosys that is installed with Amaranth write the text, as it is the same everywhere.

    By itself Amaranth prefers one on PATH, whatever its version, and ends where that one does not
    work. ``AMARANTH_USE_YOSYS``, where it is set, still says which.
    """
    chosen = "AMARANTH_USE_YOSYS" in os.environ
    if not chosen:
        os.environ["AMARANTH_USE_YOSYS"] = "builtin,system"
    try:
        yield
    finally:
        if not chosen:
            del os.environ["AMARANTH_USE_YOSYS"]


@contextlib.contextmanager
def _without_empty_words() -> Iterator[None]:
    """Leave the words of an SRAM out of what Amaranth writes.

    Amaranth has no memory without initial contents, and spends 50 s on the zeros of a large
    machine, bit by bit. Without this method the text has them, and :func:`fill_memories` takes them
    out again.
    """
    emitter = getattr(rtlil, "ModuleEmitter", None)
    write = getattr(emitter, "emit_memory", None)
    if emitter is None or write is None:
        yield
        return

    def emit_memory(self, index, cell):
        if any(cell.init):
            write(self, index, cell)

    emitter.emit_memory = emit_memory
    try:
        yield
    finally:
        emitter.emit_memory = write


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Stop the search for cycles of garbage: a third of the time, and there is hardly any."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def fill_memories(text: str, fill: str | int | None) -> str:
    """Let a loop, or nothing, say what SRAM holds at first, instead of one line per word.

    Parameters
    ----------
    text : str
        Verilog as Amaranth writes it.
    fill : None, "ones" or int
        Nothing is said, ones, or random bits from this seed. A memory with a word that is not zero
        is a table, and stays as it is.
    """
    count = 0

    def replace(match):
        nonlocal count
        if not all(_ZERO.search(line) for line in (match["words"] or "").splitlines()):
            return match[0]
        count += 1
        declaration = match[0].split("  initial begin\n")[0]
        if fill is None:
            return declaration
        name, width, depth = match["name"], int(match["high"] or 0) + 1, int(match["last"]) + 1
        if fill == "ones":
            body = f"      {name}[i] = {{{width}{{1'b1}}}};\n"
        else:
            # xorshift, never 0.
            body = (f"      for (k = 0; k < {-(-width // 32)}; k = k + 1) begin\n"
                    f"        x = x ^ (x << 13); x = x ^ (x >> 17); x = x ^ (x << 5);\n"
                    f"        w = {{w, x}};\n"
                    f"      end\n"
                    f"      {name}[i] = w;\n")
        seed = (fill * 2654435761 + count * 40503) % (2**32 - 1) + 1 if fill != "ones" else 0
        width = width if width > 1 else 2           # w shifts: it needs two bits at least
        return (f"{declaration}  initial begin : fill_{count}\n"
                f"    integer i, k; reg [31:0] x; reg [{width - 1}:0] w;\n"
                f"    x = 32'd{seed}; w = 0;\n"
                f"    for (i = 0; i < {depth}; i = i + 1) begin\n{body}    end\n  end\n")

    return _MEMORY.sub(replace, text)

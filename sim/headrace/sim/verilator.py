"""Verilator builds, cached by content.

Verilator only translates here; its makefiles are not used. They need Perl, Python and make, are
unconfigured in the wheel, and compile the run-time library anew for every design. The same work is
one list of files to compile, which ``--make json`` states.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from headrace.sw.errors import HeadraceError

from . import cache
from .toolchain import Compiler, Verilator, find_compiler, find_verilator


__all__ = ["BuildError", "CPP", "Design", "build", "compile_library"]


#: C++ of this package; see the files there.
CPP = Path(__file__).parent / "cpp"

#: Amaranth's Verilog truncates and extends silently, as Verilog may; the rest trades nothing away.
VERILATE = ("--cc", "--exe", "--make", "json", "--prefix", "Vtop", "-Wno-fatal", "-Wno-WIDTH",
            "-O3", "--x-assign", "fast", "--noassert", "--no-timing")

#: Code of every cycle is worth optimising, constructors and initial values are not. Generated code
#: runs as fast at -O1 as at -O2 (it is bound by its size), and compiles in two thirds of the time.
COMMON = ("-std=gnu++17", "-fPIC", "-pipe", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0",
          "-DVM_TIMING=0", "-DVM_TRACE_FST=0", "-DVM_TRACE_SAIF=0")
SHARED = ("-O2", "-fno-semantic-interposition")
FAST = ("-O1", "-fno-semantic-interposition")
SLOW = ("-O0",)

#: Generated code is compiled in pieces of about this size, in parallel.
PIECE_BYTES = 400_000


class BuildError(HeadraceError):
    """Verilator or the compiler refused a design; the message ends with its output."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What a build is made of.

    Attributes
    ----------
    top : str
        Top module.
    sources : mapping of str to str
        Verilog, SystemVerilog and ``.vlt`` files: name to text.
    cpp : sequence of str
        C++ files of this package that are compiled with the design, and do not see its classes.
    driver : str or pathlib.Path
        The C++ file that includes ``Vtop.h``.
    output : str
        Name of the product: a shared library if it ends in ``.so``, otherwise a program.
    verilator_flags, link_flags : sequence of str
        Further arguments.
    trace : bool
        Whether waveforms can be written (VCD). Slower.
    """

    top: str
    sources: Mapping[str, str]
    driver: str | Path
    output: str
    cpp: Sequence[str] = ()
    verilator_flags: Sequence[str] = ()
    link_flags: Sequence[str] = ()
    trace: bool = False
    label: str = field(default="", compare=False)

    def key(self, verilator: Verilator, compiler: Compiler) -> str:
        """Hash of everything that the product depends on."""
        own = {name: (CPP / name).read_text() for name in self.cpp}
        return cache.content_key(
            self.top, self.sources, Path(CPP / self.driver).read_text(), own, _headers(),
            self.output, self.verilator_flags, self.link_flags, self.trace,
            VERILATE, COMMON, SHARED, FAST, SLOW, verilator.version, compiler)


def build(design: Design) -> Path:
    """Path of the product of `design`, built unless the cache has it.

    Raises
    ------
    ToolMissing
        Verilator or the compiler is missing.
    BuildError
        One of them refused the design.
    """
    verilator, compiler = find_verilator(), find_compiler()
    key = design.key(verilator, compiler)
    label = design.label or f"{design.top} ({design.output})"
    place = cache.obtain("builds", key, label,
                         lambda work: _build(design, verilator, compiler, work))
    return place / design.output


def _build(design: Design, verilator: Verilator, compiler: Compiler, work: Path) -> None:
    trace = ("--trace-vcd",) if design.trace else ()
    for name, text in design.sources.items():
        (work / name).write_text(text)
    generated = work / "generated"
    _run([*verilator.command, *VERILATE, *trace, *design.verilator_flags,
          "--top-module", design.top, "--Mdir", str(generated), *design.sources],
         work, f"Verilator refused {design.top!r}", verilator.environment)

    files = json.loads((generated / "Vtop.json").read_text())["sources"]
    include = verilator.root / "include"
    defines = (f"-DVM_TRACE={int(design.trace)}", f"-DVM_TRACE_VCD={int(design.trace)}")
    flags = (*COMMON, *defines)
    folders = (f"-I{include}", f"-I{include / 'vltstd'}")
    fast = _pieces(generated, "fast", [*files.get("classes_fast", ()),
                                       *files.get("support_fast", ())])
    slow = _pieces(generated, "slow", [*files.get("classes_slow", ()),
                                       *files.get("support_slow", ())])
    jobs = [(piece, FAST) for piece in [*fast, CPP / design.driver]]
    jobs += [(piece, SLOW) for piece in slow]
    # The biggest first, so that the last to end is a small one.
    jobs.sort(key=lambda job: -job[0].stat().st_size)

    def compile_one(job: tuple[Path, Sequence[str]]) -> Path:
        source, level = job
        product = work / f"{source.stem}.o"
        _compile(compiler, source, product, (*level, *flags, *folders, f"-I{generated}"))
        return product

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [pool.submit(compile_one, job) for job in jobs]
        shared = [pool.submit(_shared_object, compiler, Path(source), flags, folders,
                              verilator.version)
                  for source in [*files["global"], *(CPP / name for name in design.cpp)]]
        linked = [str(job.result()) for job in [*objects, *shared]]
    kind = ("-shared", "-Wl,-Bsymbolic") if design.output.endswith(".so") else ("-rdynamic",)
    _run([compiler.command, *kind, *linked, *design.link_flags, "-pthread", "-o", design.output],
         work, f"linking {design.output!r} failed")
    # Only the product and its Verilog are worth keeping.
    for path in [*generated.iterdir(), *work.glob("*.o")]:
        path.unlink()
    generated.rmdir()


def _pieces(generated: Path, kind: str, sources: list[str]) -> list[Path]:
    """Files that include all of `sources`, in a few pieces of like size.

    The headers of a design take longer to compile than a small file, so files go together; but a
    large design should keep every processor busy.
    """
    total = sum(os.stat(source).st_size for source in sources)
    count = max(1, min(len(sources), -(-total // PIECE_BYTES)))
    bins: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for source in sorted(sources, key=lambda source: -os.stat(source).st_size):
        least = loads.index(min(loads))
        bins[least].append(source)
        loads[least] += os.stat(source).st_size
    pieces = []
    for index, members in enumerate(bins):
        piece = generated / f"piece_{kind}_{index}.cpp"
        piece.write_text("".join(f'#include "{Path(member).name}"\n' for member in members))
        pieces.append(piece)
    return pieces


def _headers() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(CPP.glob("*.h"))}


def _shared_object(compiler: Compiler, source: Path, flags: Sequence[str], folders: Sequence[str],
                   version: str) -> Path:
    """Object file of a source that depends on no design: compiled once for all of them."""
    # Where Verilator's headers are says nothing: its version says what is in them.
    key = cache.content_key(source.read_text(), _headers(), SHARED, flags, version, compiler)
    place = cache.obtain(
        "objects", key, source.name,
        lambda work: _compile(compiler, source, work / f"{source.stem}.o",
                              (*SHARED, *flags, *folders)))
    return place / f"{source.stem}.o"


def compile_library(compiler: Compiler, sources: Sequence[Path], product: Path) -> None:
    """Compile C++ files that need no design to a shared library."""
    _run([compiler.command, *SHARED, *COMMON, "-shared", "-Wl,-Bsymbolic", *map(str, sources),
          "-o", str(product)], product.parent, f"compiling {product.name} failed")


def _compile(compiler: Compiler, source: Path, product: Path, flags: Sequence[str]) -> None:
    _run([compiler.command, *flags, "-c", str(source), "-o", str(product)],
         product.parent, f"compiling {source.name} failed")


def _run(command: Sequence[str], folder: Path, problem: str,
         environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip().splitlines()
        shown = "\n".join(output[:40])
        raise BuildError(f"{problem} ({command[0]} ended with {done.returncode}):\n{shown}")

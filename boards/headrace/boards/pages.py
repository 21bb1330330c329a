"""Pages of the boards, written from their files: ``python -m headrace.boards.pages docs``.

With ``--built FILE`` the page of the board that the file is about takes its figures: ``build.json``
of `headrace build`, or what `headrace build BOARD --estimate --json` prints.
"""

import argparse
import json
from pathlib import Path

from headrace.sw.cli.verilog import write_files
from headrace.sw.errors import HeadraceError

from .catalogue import BOARDS, Board, find_board
from .estimate import CONTEXTS, MODELS, estimate, example
from .families import FAMILIES


__all__ = ["board_page", "built_facts", "write_pages"]


def board_page(board: Board, built: dict | None) -> str:
    """Text of a board's page.

    Parameters
    ----------
    board : Board
    built : dict or None
        What :func:`built_facts` has kept of a build.
    """
    config = board.config
    parts = [
        f"# {board.title}", _HEAD,
        f"Part {board.order}, preset `{board.preset}` ({config.rows} x {config.cols}, "
        f"{config.port_bits}-bit port) at {board.clk_hz / 1e6:g} MHz. Memory: "
        f"{board.memory.title}, at most {board.memory.peak_bytes / 1e6:,.0f} MB/s. Its file is "
        f"`boards/headrace/boards/catalogue/{board.name.replace('-', '_')}.py`; `headrace boards "
        f"{board.name}` prints it. **No board was at hand**: what is said to be measured was "
        f"measured by the tools or in simulation.",
        "## What it can run", _models(board), "## Wiring", _wiring(board),
        "## From clone to text", _commands(board), "## As built", _built(board, built)]
    return "\n\n".join(parts) + "\n"


def built_facts(facts: dict) -> dict:
    """What a page needs of a build's JSON.

    Raises
    ------
    HeadraceError
        If it is no such JSON.
    """
    try:
        kept = {key: facts[key] for key in ("board", "config", "fingerprint")}
        if "routing" in facts:
            kept |= {key: facts[key] for key in ("tools", "seconds", "peak_bytes", "bitstream")}
            routing = dict(facts["routing"])
            kept["routing"] = {key: routing[key] for key in (
                "used", "available", "seed", "met", "clocks", "crossings")}
        else:
            kept["used"] = facts["resources"]["used"]
            kept["seconds"] = facts["resources"]["seconds"]
    except (KeyError, TypeError) as error:
        raise HeadraceError("--built: expected build.json of `headrace build`, or the output of "
                            "`headrace build BOARD --estimate --json`") from error
    return kept


def write_pages(folder: Path, built: list[Path]) -> None:
    """Write the pages of all boards below a folder of documents, with new figures of some.

    Raises
    ------
    HeadraceError
        If a file cannot be read or written, or is of no board.
    """
    place = folder / "boards" / "built"
    for path in built:
        try:
            facts = built_facts(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise HeadraceError(f"--built {path}: {error}") from error
        write_files(place, {f"{find_board(facts['board']).name}.json":
                            json.dumps(facts, indent=1) + "\n"})
    write_files(folder / "boards", {
        f"{board.name}.md": board_page(board, _kept(place, board)) for board in BOARDS.values()})


def _kept(place: Path, board: Board) -> dict | None:
    path = place / f"{board.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _models(board):
    rows = []
    for name, quant in MODELS.items():
        checkpoint = example(name)
        for context in CONTEXTS:
            found = estimate(board, checkpoint, quant, context)
            if context > checkpoint.shape.context or (not found.largest_context and rows
                                                      and rows[-1][0] == name):
                continue
            if found.tokens_per_second:
                rate = f"at most {found.tokens_per_second:,.1f}"
            elif found.largest_context:
                rate = f"no: at most {found.largest_context:,} tokens"
            else:
                rate = "does not fit"
            rows.append([name, quant, f"{context:,}", f"{found.largest_context:,}",
                         f"{found.token_bytes:,}" if found.token_bytes else "", rate])
    table = _table(["model", "weights", "tokens in the cache", "largest context",
                    "bytes per token", "tokens/s, estimated"], rows)
    return f"{table}\n\n{_ESTIMATE.format(name=board.name)}"


def _wiring(board):
    lines = [f"* Host: {board.link.title}" + (
        f", {board.link.baud:,} baud, 8 bits, no parity." if board.link.baud else ".")]
    if board.pins:
        rx, tx = (board.port(f"uart_{side}").balls for side in ("rx", "tx"))
        lines.append(f"* UART at the part: receives at ball {rx}, transmits at ball {tx}.")
        for pins in board.pins:
            if pins.port in ("reset_button", "reset_button_n"):
                lines.append(f"* Button at ball {pins.balls}: reset.")
            elif pins.port in ("led", "led_n"):
                trained = ", once the host has trained it" if board.memory.kind == "DDR3" else ""
                lines.append(f"* Lights: the first says that memory is ready{trained}; the next "
                             f"two that the host, and the board, are talking.")
    if board.processor is not None:
        lines.append(f"* Registers at {board.processor.control_base:#x}, memory at "
                     f"{board.processor.memory_base:#x}, {board.memory.size_bytes:,} bytes, which "
                     f"Linux leaves alone with `{board.processor.reserve}` in its boot arguments.")
    lines += [f"* Pins and names from: {board.source}.", *(f"* {note}" for note in board.notes)]
    return "\n".join(lines)


def _commands(board):
    if board.processor is None:
        return _OPEN.format(name=board.name, url=board.link.url)
    text = _VIVADO.format(name=board.name, url=board.link.url)
    if board.processor.kind == "processing_system7":
        text += (f" On a PYNQ image: `headrace run demo --device "
                 f"'pynq://{board.name}.bit?ip=headrace'`.")
    return text


def _built(board, built):
    if built is None:
        return _NOT_BUILT.format(name=board.name, flags=(
            f"headrace build {board.name} -o build" if board.processor is None else
            f"headrace build {board.name} -o build --estimate --json > build.json"), file=(
            "build/build.json" if board.processor is None else "build.json"))
    if "routing" not in built:
        available = FAMILIES[board.family].parts[board.part]
        rows = [[kind, f"{count:,.0f}", f"{available[kind]:,}",
                 f"{100 * count / available[kind]:.0f} %"] for kind, count in built["used"].items()]
        return (f"Estimated with Yosys, without place and route, the accelerator alone "
                f"(`headrace build {board.name} --estimate`, {built['seconds']:,.0f} s):\n\n"
                + _table(["", "used", "available", ""], rows))
    routing = built["routing"]
    rows = [[kind, f"{count:,}", f"{routing['available'][kind]:,}",
             f"{100 * count / routing['available'][kind]:.0f} %"]
            for kind, count in routing["used"].items()]
    clocks = [[f"`{clock['name']}`", f"{clock['goal_mhz']:g} MHz", f"{clock['fmax_mhz']:.1f} MHz",
               "met" if clock["met"] else "missed"] for clock in routing["clocks"]]
    clocks += [[f"`{each['start']}` to `{each['end']}`", f"{each['limit_ns']:.1f} ns",
                f"{each['delay_ns']:.1f} ns", "met" if each["met"] else "missed"]
               for each in routing["crossings"]]
    slowest = min(routing["clocks"], key=lambda clock: clock["fmax_mhz"] / clock["goal_mhz"])
    times = ", ".join(f"{step} {seconds:,.0f} s" for step, seconds in built["seconds"].items())
    path = "\n".join(slowest["path"])
    return (f"The whole top: accelerator, link and DRAM controller (`headrace build {board.name} "
            f"--seed {routing['seed']}`; {', '.join(built['tools'].values())}). Times: {times}; "
            f"memory of the largest process {built['peak_bytes'] / 1e9:.1f} GB.\n\n"
            + _table(["", "used", "available", ""], rows) + "\n\n"
            + _table(["clock", "goal", "reached", ""], clocks)
            + f"\n\nSlowest path of `{slowest['name']}`:\n\n```\n{path}\n```")


_HEAD = "<!-- Generated by `python -m headrace.boards.pages docs`; edit boards/headrace/boards/ -->"

_ESTIMATE = """Estimated, not measured, and an upper bound: what the memory's bus or the port can
bring, over the bytes of weights and cache that a token of the answer reads (`headrace boards
{name}`; with `--model MODEL` for any other). Real controllers bring less. A model as small as
`demo` is bound by the latency of its layers instead, far below the figure. SmolLM2 and Llama stand
here with their shapes."""

_OPEN = """```
python3 -m venv .venv && .venv/bin/pip install '.[boards,synth]' && . .venv/bin/activate
headrace build {name}
headrace flash {name}
headrace run demo --device '{url}' --check
```

`headrace build` takes Yosys, nextpnr and ecppack from PATH or from these packages; openFPGALoader
must be installed. `--check` repeats every pass on the golden machine and compares."""

_VIVADO = """```
python3 -m venv .venv && .venv/bin/pip install . && . .venv/bin/activate
headrace build {name}
cd build/{name}
vivado -mode batch -source package_ip.tcl
vivado -mode batch -source build.tcl
```

`README.md` in that folder says how the bitstream is loaded. On the board's Linux, with headrace
installed there as well: `headrace run demo --device {url} --check`."""

_NOT_BUILT = """Not yet measured. This page takes the figures from a build:

```
{flags}
python -m headrace.boards.pages docs --built {file}
```"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of documents")
    parser.add_argument("--built", type=Path, action="append", default=[], metavar="FILE",
                        help="JSON of a build; may be given again")
    arguments = parser.parse_args()
    try:
        write_pages(arguments.folder, arguments.built)
    except HeadraceError as problem:
        parser.exit(2, f"headrace: {problem}\n")

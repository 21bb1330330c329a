"""Registers that a simulator need not visit.

Amaranth writes a register with an enable as a register that loads in every cycle what a block of
logic before it has decided, which is often its own value. Verilator then visits all of them in
every cycle, with all logic between them. Here the condition moves into the event,
``always @(posedge clk iff (en))``, so that a pipeline that rests costs nothing.

This is a change of writing only: a register is taken if the text says that it keeps its value
unless one of some conditions holds, and its event is then the clock while one of them does.
"""

import re
from collections import Counter


__all__ = ["gate"]


#: Fewer registers than this under one condition are not worth an event of their own.
LEAST = 32

#: Verilator looks at every event in every cycle: only so many, those of most registers, of
#: conditions in full and again without those that are nested.
MOST = 16

#: Signals that must all be high.
_Term = tuple[str, ...]

_NAME = r"(?:\\\S+ |\w+)"
_MODULE = re.compile(r"^module (\\\S+ |\w+) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(
    rf"^  always @\(posedge clk\)\n    (?P<register>{_NAME}) ?<= (?P<next>{_NAME});$", re.MULTILINE)
#: Logic that decides what a register loads: the register itself, unless conditions hold.
_DECISION = re.compile(
    rf"^  always @\* begin\n    if \({_NAME}\) begin end\n"
    rf"    (?P<next>{_NAME}) = (?P<register>{_NAME}) ?;\n(?P<body>(?:    .*\n)+)  end$",
    re.MULTILINE)
_CONDITION = re.compile(rf"(?P<indent> +)if \((?P<signal>{_NAME})\) begin")
_INSTANCE = re.compile(rf"^  ({_NAME}) {_NAME}? ?\(\n((?:    \..*\n)+)  \);$", re.MULTILINE)
_PORT = re.compile(rf"^    \.({_NAME}) ?\(({_NAME})\),?$", re.MULTILINE)
_INPUT = re.compile(rf"^  input ({_NAME}) ?;$", re.MULTILINE)


def gate(verilog: str) -> str:
    """The same design, with the enables of large groups of registers in their events.

    Parameters
    ----------
    verilog : str
        Text in the style of Amaranth. What is written differently stays as it is.

    Returns
    -------
    str
        Text with ``iff`` in events, for Verilator.
    """
    modules = {match[1].strip(): match[0] for match in _MODULE.finditer(verilog)}
    source = _sources(modules)

    # For each register the conditions in full, and without those that are nested; in small groups
    # the latter serve more registers.
    ways = {name: _held(text) for name, text in modules.items()}
    registers = [(name, _key(match)) for name, text in modules.items()
                 for match in _REGISTER.finditer(text) if _key(match) in ways[name]]
    chosen: set[tuple[_Term, ...]] = set()
    for way in (0, 1):
        counts = Counter(group for name, key in registers
                         if (group := _group(name, ways[name][key][way], source))
                         and _group(name, ways[name][key][0], source) not in chosen)
        chosen |= {group for group, count in counts.most_common(MOST) if count >= LEAST}

    def rewrite(match: re.Match) -> str:
        name = match[1].strip()

        def event(register: re.Match) -> str:
            for terms in ways[name].get(_key(register), ()):
                if _group(name, terms, source) in chosen:
                    return register[0].replace("posedge clk", f"posedge clk iff ({_event(terms)})")
            return register[0]

        return _REGISTER.sub(event, match[0])

    return _MODULE.sub(rewrite, verilog)


def _key(match: re.Match) -> str:
    return f"{match['next'].strip()} {match['register'].strip()}"


def _held(text: str) -> dict[str, tuple[tuple[_Term, ...], tuple[_Term, ...]]]:
    # Of registers that keep their value unless one of some terms is high: these terms, and the
    # same without nested conditions.
    found = {}
    for match in _DECISION.finditer(text):
        if terms := _terms(match["body"].splitlines()):
            found[_key(match)] = (
                tuple(sorted({tuple(sorted(term)) for term in terms})),
                tuple(sorted({(term[0],) for term in terms})))
    return found


def _terms(lines: list[str]) -> list[_Term]:
    # Conditions under which the body of a decision does anything, each from the outside to the
    # inside; empty for another style.
    terms = []
    while lines:
        block = _block(lines)
        if block is None:
            return []
        signal, inner, lines = block
        term = [signal]
        # What is nested and alone is a condition as well.
        while (block := _block(inner)) is not None and not block[2]:
            term.append(block[0])
            inner = block[1]
        terms.append(tuple(term))
    return terms


def _block(lines: list[str]) -> tuple[str, list[str], list[str]] | None:
    # Condition of the `if` that the lines begin with, its lines, and those behind it.
    head = _CONDITION.fullmatch(lines[0]) if lines else None
    if head is None:
        return None
    for index, line in enumerate(lines):
        if line.startswith(f"{head['indent']}end"):
            # Not `end else`.
            whole = line == f"{head['indent']}end"
            return (head["signal"].strip(), lines[1:index], lines[index + 1:]) if whole else None
    return None


def _event(terms: tuple[_Term, ...]) -> str:
    # A name that begins with a backslash ends with a space.
    def spelt(name: str) -> str:
        return f"{name} " if name.startswith("\\") else name

    return " | ".join(" & ".join(map(spelt, term)) for term in terms)


def _sources(modules: dict[str, str]) -> dict[tuple[str, str], tuple[str, str]]:
    # Where the one-bit inputs of modules come from. Amaranth makes a module for each instance.
    inputs = {name: {port.strip() for port in _INPUT.findall(text)}
              for name, text in modules.items()}
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for parent, text in modules.items():
        for module, ports in _INSTANCE.findall(text):
            child = module.strip()
            for port, net in _PORT.findall(ports):
                if port.strip() in inputs.get(child, ()):
                    found[child, port.strip()] = (parent, net.strip())
    return found


def _group(module: str, terms: tuple[_Term, ...],
           source: dict[tuple[str, str], tuple[str, str]]) -> tuple[_Term, ...]:
    # The same terms by the signals that they come from, so that modules share them.
    def resolved(signal: str) -> str:
        place = (module, signal)
        while place in source:
            place = source[place]
        return ".".join(place)

    return tuple(sorted({tuple(sorted(map(resolved, term))) for term in terms}))

"""Registers that a simulator need not visit.

Amaranth writes a register with an enable as a register that loads in every cycle what a block of
logic before it has decided, which is often its own value. Verilator then visits all of them in
every cycle, with all logic between them. Here the condition moves into the event,
``always @(posedge clk iff (en))``, so that a pipeline that rests costs nothing.

This is a change of writing only: a register is taken if the text says that it keeps its value
unless one of some conditions holds, and its event is then the clock while one of them does.
"""

import re
from collections import defaultdict


__all__ = ["gate"]


#: Fewer registers than this under one condition are not worth an event of their own.
LEAST = 32

#: Verilator looks at every event in every cycle: only so many, those of most registers.
MOST = 24

_NAME = r"(?:\\\S+ |\w+)"
_MODULE = re.compile(r"^module (\\\S+ |\w+) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(
    rf"^  always @\(posedge clk\)\n    (?P<register>{_NAME}) ?<= (?P<next>{_NAME});$", re.MULTILINE)
#: Logic that decides what a register loads: the register itself, unless conditions hold.
_DECISION = re.compile(
    rf"^  always @\* begin\n    if \({_NAME}\) begin end\n"
    rf"    (?P<next>{_NAME}) = (?P<register>{_NAME}) ?;\n(?P<body>(?:    .*\n)+)  end$",
    re.MULTILINE)
_CONDITION = re.compile(rf"^    if \(({_NAME})\) begin$", re.MULTILINE)
_OTHER = re.compile(r"^    (?!if |end$| )", re.MULTILINE)
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

    # Registers by the signals, named where they come from, that let them load.
    conditions: dict[str, dict[str, tuple[str, ...]]] = {}
    groups: dict[tuple[str, ...], int] = defaultdict(int)
    for name, text in modules.items():
        conditions[name] = held = _held(text)
        for match in _REGISTER.finditer(text):
            if found := held.get(_key(match)):
                groups[_group(name, found, source)] += 1
    largest = sorted((group for group in groups if groups[group] >= LEAST),
                     key=lambda group: -groups[group])[:MOST]
    chosen = set(largest)

    def rewrite(match: re.Match) -> str:
        name = match[1].strip()

        def event(register: re.Match) -> str:
            found = conditions[name].get(_key(register))
            if found is None or _group(name, found, source) not in chosen:
                return register[0]
            return register[0].replace("posedge clk", f"posedge clk iff ({' | '.join(found)})", 1)

        return _REGISTER.sub(event, match[0])

    return _MODULE.sub(rewrite, verilog)


def _key(match: re.Match) -> str:
    return f"{match['next'].strip()} {match['register'].strip()}"


def _held(text: str) -> dict[str, tuple[str, ...]]:
    # Of registers that keep their value unless one of some signals is high: these signals.
    found = {}
    for match in _DECISION.finditer(text):
        if not _OTHER.search(match["body"]):
            every = tuple(sorted(_CONDITION.findall(match["body"])))
            if len(every) == len(re.findall(r"^    if ", match["body"], re.MULTILINE)):
                found[_key(match)] = every
    return found


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


def _group(module: str, signals: tuple[str, ...],
           source: dict[tuple[str, str], tuple[str, str]]) -> tuple[str, ...]:
    resolved = set()
    for signal in signals:
        place = (module, signal.strip())
        while place in source:
            place = source[place]
        resolved.add(".".join(place))
    return tuple(sorted(resolved))

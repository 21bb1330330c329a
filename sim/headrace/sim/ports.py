"""Ports of a Verilog module, read from the text that Amaranth writes."""

import re
from dataclasses import dataclass

from headrace.sw.errors import HeadraceError


__all__ = ["Port", "read_ports"]


@dataclass(frozen=True)
class Port:
    """One port: its name, ``"input"`` or ``"output"``, and its width in bits."""

    name: str
    direction: str
    width: int

    @property
    def declaration(self) -> str:
        """The port in the header of a SystemVerilog module."""
        span = f"[{self.width - 1}:0] " if self.width > 1 else ""
        return f"{self.direction} logic {span}{self.name}"


_PORT = re.compile(r"^\s*(input|output)\s+(?:\[(\d+):0\]\s+)?(\w+)\s*;", re.MULTILINE)


def read_ports(verilog: str, module: str) -> dict[str, Port]:
    """Ports of `module` by name, in the order of their declarations.

    Only the style that Yosys writes is understood: one declaration a line, after the header.

    Raises
    ------
    HeadraceError
        There is no such module, or it declares no port in that style.
    """
    found = re.search(rf"^module\s+\\?{re.escape(module)}\s*\(.*?^endmodule", verilog,
                      re.MULTILINE | re.DOTALL)
    if found is None:
        raise HeadraceError(f"the Verilog text has no module {module!r}: name it so when it is "
                            f"converted")
    ports = {name: Port(name, direction, int(high or 0) + 1)
             for direction, high, name in _PORT.findall(found[0])}
    if not ports:
        raise HeadraceError(f"module {module!r} declares no ports in the style that Amaranth "
                            f"writes, one `input` or `output` a line")
    return ports

"""Instantiation template in Verilog."""

from ..config import Config
from .ports import ports


__all__ = ["instance_template"]


def instance_template(config: Config, module: str) -> str:
    """Wires for every port, and an instance that they are connected to.

    The text stands inside a module that has ``clk`` and ``rst``.
    """
    found = ports(config)
    lines = [f"// {module}, configuration {config.name}: copy this into a module, or `include it",
             "// there. clk: clock; rst: reset, synchronous, active high. irq is a level.",
             "// ctrl: AXI4-Lite subordinate, 32 bits. axi: AXI4 manager, INCR bursts of full "
             "width."]
    for port in found:
        if port.name not in ("clk", "rst"):
            span = f"[{port.bits - 1}:0] " if port.bits > 1 else ""
            lines.append(f"wire {span}headrace_{port.name};")
    lines += ["", f"{module} u_headrace ("]
    wide = max(len(port.name) for port in found)
    pairs = [f"    .{port.name.ljust(wide)} "
             f"({port.name if port.name in ('clk', 'rst') else f'headrace_{port.name}'})"
             for port in found]
    return "\n".join([*lines, ",\n".join(pairs), ");", ""])

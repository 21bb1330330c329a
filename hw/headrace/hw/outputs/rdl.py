"""Register map in SystemRDL 2.0."""

from ..config import Config
from ..documents import COUNTER_DOCS
from ..regmap import REGISTERS, Register
from .registers import Field, counter_offsets, fields


__all__ = ["system_rdl"]


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _access(register: Register, field: Field) -> str:
    if register.access == "rw":
        return "sw = rw; hw = r;"
    if register.access == "w1c":
        return "sw = rw; hw = rw; onwrite = woclr;"
    if register.access == "w1":
        return "sw = w; hw = r; singlepulse;"
    return "sw = r; hw = na;" if field.constant is not None else "sw = r; hw = w;"


def system_rdl(config: Config, name: str) -> str:
    """Text of an ``.rdl`` file: one `addrmap` of the control port."""
    lines = [f"// Control port of {name}, configuration {config.name}.", f"addrmap {name} {{",
             f"    name = {_text(name)};",
             f"    desc = {_text('Control registers of the LLM-inference accelerator.')};",
             "    default regwidth = 32;", "    default accesswidth = 32;",
             "    addressing = compact;", "    littleendian;"]
    for register in sorted(REGISTERS.values(), key=lambda each: each.offset):
        lines += ["", "    reg {", f"        desc = {_text(register.doc)};"]
        for field in fields(register, config):
            value = field.constant
            if value is None and register.access != "ro":
                value = 0
            reset = "" if value is None else f" = {field.width}'h{value:x}"
            lines.append(f"        field {{ {_access(register, field)} }} "
                         f"{field.name}[{field.lsb + field.width - 1}:{field.lsb}]{reset};")
        lines.append(f"    }} {register.name} @ {register.offset:#05x};")
    for counter, offset in counter_offsets().items():
        lines += ["", "    reg {", "        regwidth = 64;",
                  f"        desc = {_text(COUNTER_DOCS[counter])};",
                  "        field { sw = r; hw = w; } value[63:0];",
                  f"    }} counter_{counter} @ {offset:#05x};"]
    return "\n".join([*lines, "};", ""])

"""Faults in the Verilog of a device that are chosen when the simulation starts."""

import re


#: File in the current folder that holds the number of the fault, in hexadecimal.
FILE = "fault.hex"


def seed(verilog: str, module: str, port: str, flip: int, number: int) -> str:
    """Let fault `number` flip bits of an output of a module; other numbers leave it as it is.

    `port` is its name, or the beginning of it up to a ``$`` where Yosys numbered it.
    """
    start = verilog.index(f"module \\headrace.{module} (")
    end = verilog.index("endmodule", start)
    body_start = verilog.index(";\n", start) + 2
    body = verilog[body_start:end]
    found = re.search(rf"  output (?:\[(\d+):0\] )?({port}|\\{port}\$\d+ );", body)
    assert found, f"{module} has no output {port}"
    width, name = int(found[1] or 0) + 1, found[2]
    # The port's own name stays for the outside; inside the module it becomes another net.
    inner = re.sub(rf"(?<![\w\\.$]){re.escape(name)}(?![\w$])", "good_output ", body)
    inner = re.sub(r"  output (\[\d+:0\] )?good_output ;", rf"  output \1{name};".replace(
        "\\" + port, r"\\" + port), inner)
    inner += (f'  reg [7:0] fault [0:0];\n  initial $readmemh("{FILE}", fault);\n'
              f"  assign {name} = good_output ^ (fault[0] == 8'd{number} ? {width}'d{flip} : "
              f"{width}'d0);\n")
    return verilog[:body_start] + inner + verilog[end:]

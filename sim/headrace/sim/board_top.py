"""The simulation's top around a board: a chip at the pins of its DRAM, where it has such pins."""

from dataclasses import replace

from headrace.sw.errors import HeadraceError

from .ports import Port, read_ports
from .tops import DEVICE, TOP


__all__ = ["wrap_board"]


#: Pins of the chip, as members of ``chip`` of the top.
_PINS = ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n", "cke", "dm", "dq_o", "dq_oe", "dq_i")


def wrap_board(verilog: str, *, ratio: int, chip: bool = True) -> tuple[str, list[Port]]:
    """SystemVerilog of the top around a design, and the top's ports.

    As :func:`headrace.sim.tops.wrap`: ports of the design are ports of the top, inputs but clocks
    are sampled when ``sample`` changes. With a `chip` those of its pins are not: they go to the
    chip whose object is at the address ``memory``, and ``violation`` is high once a rule of it is
    broken.

    Raises
    ------
    HeadraceError
        The design lacks a pin of the chip.
    """
    ports = read_ports(verilog, DEVICE)
    clock = "clk2x" if chip and ratio == 2 else "clk"
    for name in (*(f"chip__{pin}" for pin in _PINS if chip), clock):
        if name not in ports:
            raise HeadraceError(f"device {DEVICE!r} has no port {name!r}: the simulation needs "
                                f"the clock and all pins of the SDR SDRAM")
    inner = [port for name, port in ports.items() if name.startswith("chip__")]
    outside = [port for port in ports.values() if port not in inner]
    top_ports = [*outside, Port("memory", "input", 64), Port("sample", "input", 1),
                 Port("violation", "output", 1)]
    late = [port for port in outside
            if port.direction == "input" and port.name not in ("clk", "clk2x")]
    renamed = {port.name: replace(port, name=f"device_{port.name}") for port in late}

    def signal(port: Port) -> str:
        init = " = 1" if port.name == "device_rst" else ""
        return f"  {port.declaration.split(' ', 1)[1]}{init};"

    lines = [f"module {TOP}(", ",\n".join(f"  {port.declaration}" for port in top_ports), ");"]
    lines += [signal(port) for port in [*inner, *renamed.values()]]
    lines += ["  always @(posedge sample, negedge sample) begin"]
    lines += [f"    {renamed[port.name].name} <= {port.name};" for port in late]
    lines += ["  end", f"  {DEVICE} device("]
    lines += [",\n".join(f"    .{port.name}({renamed.get(port.name, port).name})"
                         for port in ports.values()), "  );"]
    if chip:
        lines += _chip(clock, ratio, ports["chip__dq_i"].width)
    else:
        lines += ["  assign violation = 0;"]
    return "\n".join([*lines, "endmodule", ""]), top_ports


def _chip(clock: str, ratio: int, bits: int) -> list[str]:
    """The chip's function, called at each of its edges."""
    # When LiteDRAM's PHYs expect the chip to act: at full rate within the period in which pins
    # change, at half rate, where cells and board take a large part of it, at its end.
    edge = "posedge" if ratio == 2 else "negedge"
    return ["  import \"DPI-C\" function void headrace_sdr_tick(",
            "    input longint unsigned memory, input int unsigned command,",
            "    input int unsigned a, input int unsigned ba, input int unsigned dm,",
            "    input longint unsigned dq, input longint unsigned dq_oe,",
            "    output longint unsigned bus, output bit broken);",
            "  longint unsigned bus;", "  bit broken;",
            f"  always @({edge} {clock}) begin",
            "    headrace_sdr_tick(memory, {27'b0, chip__cke, chip__cs_n, chip__ras_n, "
            "chip__cas_n, chip__we_n}, 32'(chip__a), 32'(chip__ba), 32'(chip__dm), "
            "64'(chip__dq_o), 64'(chip__dq_oe), bus, broken);",
            f"    chip__dq_i <= bus[{bits - 1}:0];", "    violation <= broken;", "  end"]

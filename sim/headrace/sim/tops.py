"""The simulation's top: the generated device with the compiled memory on its AXI port.

Both drivers of the design, the compiled loop and the benches, build this same module, so a run
takes the same cycles under either.
"""

from headrace.sw.errors import HeadraceError

from .ports import Port, read_ports


__all__ = ["ACTIVITY", "DEVICE", "PROBE", "TOP", "wrap"]


#: Module name of the device, and of the top around it.
DEVICE = "headrace"
TOP = "headrace_sim"

#: Output of a device that shows what instructions write, see ``headrace.hw.probe``.
PROBE = "probe"

#: Output of a device that shows what its engines do, see ``headrace.hw.activity``.
ACTIVITY = "activity"

#: Arguments of the memory's function, in order: what the master drives, with their C types.
_FROM_MASTER = {
    "awvalid": "bit", "awaddr": "longint unsigned", "awlen": "byte unsigned",
    "awsize": "byte unsigned", "awburst": "byte unsigned", "awid": "int unsigned",
    "wvalid": "bit", "wdata": "vector", "wstrb": "vector", "wlast": "bit", "bready": "bit",
    "arvalid": "bit", "araddr": "longint unsigned", "arlen": "byte unsigned",
    "arsize": "byte unsigned", "arburst": "byte unsigned", "arid": "int unsigned", "rready": "bit",
}
#: ... and what the memory drives.
_FROM_MEMORY = {
    "awready": "bit", "wready": "bit", "bvalid": "bit", "bid": "int unsigned",
    "bresp": "byte unsigned", "arready": "bit", "rvalid": "bit", "rid": "int unsigned",
    "rdata": "vector", "rresp": "byte unsigned", "rlast": "bit",
}


def wrap(verilog: str, *, device: str = DEVICE, bus: str = "axi") -> tuple[str, list[Port]]:
    """SystemVerilog of the top around `device`, and the ports of that top.

    The AXI port `bus` goes to the memory, and outputs `probe` and `activity`, where there are
    such, to the logs of ``cpp/probe.cpp`` and ``cpp/activity.cpp``; every other port of the device
    is a port of the top. The top adds ``memory``, the address of the memory object as a number,
    and ``violation``, high once the protocol checker has stopped the memory.

    Inputs other than the clock reach the device when one more input, ``sample``, changes, which
    the main programs let happen between the edges that the device acts on. So no logic hangs on
    the inputs of the top themselves: Verilator would evaluate all of it whenever the clock moves,
    twice a cycle.

    Raises
    ------
    HeadraceError
        The device lacks ``clk``, ``rst`` or a signal of the AXI port, or one has a wrong direction
        or an impossible width.
    """
    ports = read_ports(verilog, device)
    _check(ports, device, bus)
    data_bits = ports[f"{bus}__rdata"].width
    inner = [port for name, port in ports.items() if name.startswith(f"{bus}__")
             or name in (PROBE, ACTIVITY)]
    outside = [port for port in ports.values() if port not in inner]
    top_ports = [*outside, Port("memory", "input", 64), Port("sample", "input", 1),
                 Port("violation", "output", 1)]
    late = [port for port in outside if port.direction == "input" and port.name != "clk"]

    def typed(kind: str, signal: str) -> str:
        bits = data_bits // 8 if signal == "wstrb" else data_bits
        return f"bit [{bits - 1}:0]" if kind == "vector" else kind

    formals = ["input longint unsigned memory", "input bit reset"]
    formals += [f"input {typed(kind, name)} {name}" for name, kind in _FROM_MASTER.items()]
    formals += [f"output {typed(kind, name)} {name}" for name, kind in _FROM_MEMORY.items()]
    formals += ["output bit violation"]
    actuals = ["memory", "device_rst"]
    actuals += [_cast(kind, f"{bus}__{name}") for name, kind in _FROM_MASTER.items()]
    actuals += [f"next_{name}" for name in [*_FROM_MEMORY, "violation"]]

    lines = [f"module {TOP}(", _list(port.declaration for port in top_ports), ");"]
    lines += ["  import \"DPI-C\" function void headrace_memory_tick(", _list(formals), "  );", ""]
    lines += [f"  logic {port.declaration.split('logic ')[1]};" for port in inner]
    # Before they are sampled for the first time, the device is in reset.
    lines += [f"  logic {port.declaration.split('logic ')[1].replace(port.name, _late(port))}"
              f"{' = 1' if port.name == 'rst' else ''};" for port in late]
    lines += ["", "  always @(posedge sample, negedge sample) begin"]
    lines += [f"    {_late(port)} <= {port.name};" for port in late]
    lines += ["  end", "", f"  {device} device("]
    lines += [_list(f".{port.name}({_late(port) if port in late else port.name})"
                    for port in ports.values()), "  );", ""]
    lines += [f"  {typed(kind, name)} next_{name};" for name, kind in _FROM_MEMORY.items()]
    lines += ["  bit next_violation;", "", "  always @(posedge clk) begin"]
    lines += ["    headrace_memory_tick(", _list(actuals), "    );"]
    lines += [f"    {bus}__{name} <= next_{name}{_slice(kind, ports[f'{bus}__{name}'])};"
              for name, kind in _FROM_MEMORY.items()]
    lines += ["    violation <= next_violation;", "  end"]
    if PROBE in ports:
        lines += ["  import \"DPI-C\" function void headrace_probe_tick(",
                  _list(["input longint unsigned memory",
                         f"input bit [{ports[PROBE].width - 1}:0] port"]), "  );",
                  f"  always @(posedge clk) if (|{PROBE}[31:0]) "
                  f"headrace_probe_tick(memory, {PROBE});"]
    if ACTIVITY in ports:
        lines += ["  import \"DPI-C\" function void headrace_activity_tick(",
                  _list(["input longint unsigned memory",
                         f"input bit [{ports[ACTIVITY].width - 1}:0] port"]), "  );",
                  f"  always @(posedge clk) headrace_activity_tick(memory, {ACTIVITY});"]
    lines += ["endmodule", ""]
    return "\n".join(lines), top_ports


def _late(port: Port) -> str:
    # The input as the device sees it.
    return f"device_{port.name}"


def _check(ports: dict[str, Port], device: str, bus: str) -> None:
    wanted = {"clk": "input", "rst": "input"}
    wanted |= {f"{bus}__{name}": "output" for name in _FROM_MASTER}
    wanted |= {f"{bus}__{name}": "input" for name in _FROM_MEMORY}
    for name, direction in wanted.items():
        if name not in ports:
            raise HeadraceError(f"device {device!r} has no port {name!r}: the simulation needs "
                                f"clk, rst and a whole AXI4 master port {bus!r}")
        if ports[name].direction != direction:
            raise HeadraceError(f"port {name!r} of device {device!r} is an "
                                f"{ports[name].direction}, must be an {direction}")
    bits = ports[f"{bus}__rdata"].width
    if bits not in (8, 16, 32, 64, 128, 256, 512, 1024):
        raise HeadraceError(f"port '{bus}__rdata' has {bits} bits: AXI4 data widths are powers of "
                            f"two from 8 to 1024")
    for name, width in (("wdata", bits), ("wstrb", bits // 8)):
        if ports[f"{bus}__{name}"].width != width:
            raise HeadraceError(f"port '{bus}__{name}' has {ports[f'{bus}__{name}'].width} bits, "
                                f"must have {width} beside {bits} bits of rdata")


def _cast(kind: str, signal: str) -> str:
    bits = {"longint unsigned": 64, "int unsigned": 32, "byte unsigned": 8}.get(kind)
    return signal if bits is None else f"{bits}'({signal})"


def _slice(kind: str, port: Port) -> str:
    return f"[{port.width - 1}:0]" if kind in ("int unsigned", "byte unsigned") else ""


def _list(items) -> str:
    return ",\n".join(f"    {item}" for item in items)

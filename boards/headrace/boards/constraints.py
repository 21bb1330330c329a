"""Constraints of a board for nextpnr: balls, standards and the clock of its oscillator."""

from collections.abc import Mapping

from headrace.sw.errors import HeadraceError

from .catalogue import Board


__all__ = ["lpf", "netlist_ports"]


def netlist_ports(netlist: Mapping, top: str) -> dict[str, int]:
    """Ports of the top in a netlist of Yosys (its JSON, parsed), and how many bits they have."""
    return {name: len(port["bits"]) for name, port in netlist["modules"][top]["ports"].items()}


def lpf(board: Board, ports: Mapping[str, int]) -> str:
    """Text of the constraints file for a top with these ports.

    Parameters
    ----------
    board : Board
        Where the pins are from.
    ports : mapping of str to int
        The top's ports and their bits. Pins of the board without a port stay unconnected.

    Raises
    ------
    HeadraceError
        If a port is not among the board's pins, or has more or fewer bits.
    """
    known = {pins.port: pins for pins in board.pins}
    lines = [f"# {board.title}: generated from boards/headrace/boards/catalogue/.",
             "BLOCK RESETPATHS;", "BLOCK ASYNCPATHS;"]
    for name, bits in ports.items():
        if name not in known:
            raise HeadraceError(f"{board.name}: the top has a port {name!r} and the board no such "
                                f"pins: expected some of {', '.join(known)}")
        pins = known[name]
        if bits != len(pins.sites):
            raise HeadraceError(f"{board.name}: port {name!r} has {bits} bits, and the board "
                                f"{len(pins.sites)} pins for it: expected as many")
        options = "".join(f" {key}={value}"
                          for key, value in {"IO_TYPE": pins.io_type, **pins.options}.items())
        for index, ball in enumerate(pins.sites):
            port = f"{name}[{index}]" if bits > 1 else name
            lines += [f'LOCATE COMP "{port}" SITE "{ball}";', f'IOBUF PORT "{port}"{options};']
    if "clk" in ports:
        lines.append(f'FREQUENCY PORT "clk" {board.input_hz / 1e6:g} MHZ;')
    return "\n".join([*lines, ""])

"""Between AXI4 ports of different widths."""

from .narrow import Narrow
from .same import Same
from .widen import Widen


__all__ = ["Narrow", "Same", "Widen", "make_bridge"]


def make_bridge(i_addr_bits: int, i_data_bits: int, o_addr_bits: int, o_data_bits: int, *,
                max_beats: int = 256, outstanding: int = 16):
    """The component with ports `i` and `o` that takes bursts of one width to a memory of another.

    Parameters
    ----------
    i_addr_bits, i_data_bits : int
        Port of the initiator.
    o_addr_bits, o_data_bits : int
        Port of the memory. Higher address bits of the initiator are dropped.
    max_beats : int
        Longest burst of the initiator.
    outstanding : int
        Bursts in flight in each direction, where the component must remember them.

    Raises
    ------
    ValueError
        A burst would have more than 256 beats.
    """
    if o_data_bits > i_data_bits:
        return Widen(i_addr_bits, i_data_bits, o_addr_bits, o_data_bits, outstanding=outstanding)
    if o_data_bits < i_data_bits:
        return Narrow(i_addr_bits, i_data_bits, o_addr_bits, o_data_bits, max_beats=max_beats)
    return Same(i_addr_bits, o_addr_bits, i_data_bits)

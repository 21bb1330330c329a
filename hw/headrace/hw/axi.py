"""Signatures of the AXI4 memory port and of the AXI4-Lite control port."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


__all__ = ["AXI4Signature", "AXI4LiteSignature", "ID_BITS", "RESP_OKAY"]


#: Width of AXI IDs: an ID is the index of a traffic class, so that the far side can count by class.
ID_BITS = 3

RESP_OKAY = 0


class AXI4Signature(wiring.Signature):
    """AXI4 from the initiator's side; bursts are INCR, of full width.

    Parameters
    ----------
    addr_bits, data_bits : int
        Widths of addresses and of data, in bits.
    """

    def __init__(self, addr_bits, data_bits):
        self.addr_bits = addr_bits
        self.data_bits = data_bits
        super().__init__({
            "awvalid": Out(1), "awready": In(1), "awaddr": Out(addr_bits), "awlen": Out(8),
            "awsize": Out(3), "awburst": Out(2), "awid": Out(ID_BITS),
            "wvalid": Out(1), "wready": In(1), "wdata": Out(data_bits),
            "wstrb": Out(data_bits // 8), "wlast": Out(1),
            "bvalid": In(1), "bready": Out(1), "bid": In(ID_BITS), "bresp": In(2),
            "arvalid": Out(1), "arready": In(1), "araddr": Out(addr_bits), "arlen": Out(8),
            "arsize": Out(3), "arburst": Out(2), "arid": Out(ID_BITS),
            "rvalid": In(1), "rready": Out(1), "rid": In(ID_BITS), "rdata": In(data_bits),
            "rresp": In(2), "rlast": In(1),
        })


class AXI4LiteSignature(wiring.Signature):
    """AXI4-Lite with 32-bit data from the initiator's side.

    Parameters
    ----------
    addr_bits : int
        Width of addresses, in bits.
    """

    def __init__(self, addr_bits):
        self.addr_bits = addr_bits
        super().__init__({
            "awvalid": Out(1), "awready": In(1), "awaddr": Out(addr_bits), "awprot": Out(3),
            "wvalid": Out(1), "wready": In(1), "wdata": Out(32), "wstrb": Out(4),
            "bvalid": In(1), "bready": Out(1), "bresp": In(2),
            "arvalid": Out(1), "arready": In(1), "araddr": Out(addr_bits), "arprot": Out(3),
            "rvalid": In(1), "rready": Out(1), "rdata": In(32), "rresp": In(2),
        })

"""The AXI port of a generated controller."""

from amaranth import *


__all__ = ["port_arguments"]


_IN = ("awaddr", "awlen", "awsize", "awburst", "awid", "wdata", "wstrb", "wlast", "bready",
       "araddr", "arlen", "arsize", "arburst", "arid", "rready")
_OUT = ("bvalid", "bid", "bresp", "rvalid", "rid", "rdata", "rresp", "rlast")


def port_arguments(m: Module, axi, ready: Value, buffer_words: int) -> dict[str, Value]:
    """Arguments of an Instance of the controller that connect its port to `axi`.

    LiteDRAM loses responses of writes that find its buffer of `buffer_words` full, so no more
    writes than that are let in. While `ready` is low it says ready, and loses what it takes.
    """
    owed = Signal(range(buffer_words + 1))
    m.d.sync += owed.eq(owed + (axi.awvalid & axi.awready) - (axi.bvalid & axi.bready))
    arguments: dict[str, Value] = {f"i_axi_{name}": getattr(axi, name) for name in _IN}
    arguments |= {f"o_axi_{name}": getattr(axi, name) for name in _OUT}
    for channel, condition in (("aw", ready & (owed != buffer_words)), ("w", ready),
                               ("ar", ready)):
        there = Signal(name=f"{channel}ready")
        arguments[f"i_axi_{channel}valid"] = getattr(axi, f"{channel}valid") & condition
        arguments[f"o_axi_{channel}ready"] = there
        m.d.comb += getattr(axi, f"{channel}ready").eq(there & condition)
    return arguments

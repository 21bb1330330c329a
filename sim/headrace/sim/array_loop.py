"""A bare loop over the systolic array alone, as a measure of simulators."""

import ctypes
from pathlib import Path

from headrace.hw.config import Config

from .bench import component_verilog
from .verilator import Design, build


__all__ = ["ArrayLoop"]


_TOP = "array_loop"
_ARRAY = "array"


def _wrap(config: Config) -> str:
    """Top whose inputs are whole words of C++ whatever the size of the array."""
    weights, acts = 8 * config.cols, 8 * config.rows
    data = -(-max(weights + acts, 65) // 64) * 64
    used = config.rows.bit_length()
    sums = config.cols * config.sum_bits
    out = max(sums, 65)
    return "\n".join([
        f"module {_TOP}(input logic clk, input logic [{data - 1}:0] data, input logic last,",
        f"    output logic o_valid, output logic [{out - 1}:0] o, output logic [31:0] o_acts);",
        f"  logic [{sums - 1}:0] sums;",
        f"  {_ARRAY} array(.clk(clk), .rst(1'b0), .weights(data[{weights - 1}:0]),",
        f"    .acts(data[{weights + acts - 1}:{weights}]), .valid(1'b1), .last(last),",
        f"    .used({used}'d{config.rows}), .o_valid(o_valid), .o(sums), .o_acts(o_acts));",
        "  assign o = sums;",
        "endmodule", ""])


class ArrayLoop:
    """The array of a configuration in a loop without anything else.

    Random weights and activations enter in every cycle, passes of 32 cycles follow each other, and
    all rows are used. Built with the options of the whole device.
    """

    def __init__(self, config: Config):
        self._library = library = ctypes.CDLL(str(self.build(config)))
        library.headrace_array_new.restype = ctypes.c_void_p
        library.headrace_array_delete.argtypes = [ctypes.c_void_p]
        library.headrace_array_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        library.headrace_array_run.restype = ctypes.c_uint64
        self._loop = library.headrace_array_new()

    @staticmethod
    def build(config: Config) -> Path:
        """The shared library, built unless the cache has it."""
        from headrace.hw.matmul.array import SystolicArray

        return build(Design(
            top=_TOP, sources={"array.v": component_verilog(SystolicArray(config), _ARRAY),
                               "loop.sv": _wrap(config)},
            driver="array_loop.cpp", output="array.so", label=f"array of {config.name}"))

    def run(self, cycles: int) -> int:
        """Run so many cycles; the result depends on the sums that left."""
        return self._library.headrace_array_run(self._loop, cycles)

    def close(self) -> None:
        """Free it."""
        if self._loop is not None:
            self._library.headrace_array_delete(self._loop)
            self._loop = None

    def __enter__(self) -> "ArrayLoop":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

"""A small device of odd sizes with all ports for simulations and with faults to switch on."""

import functools

from headrace.hw.config import Config
from headrace.hw.verilog import generate

from . import faults


__all__ = ["FAULTS", "ODD", "SCATTER", "faulty_verilog"]


ODD = Config(name="3x6", rows=3, cols=6, lanes=2, ring_bytes=8192, chunk_positions=7, streams=30)

#: Module, its output, the bits that flip; and what the report must say. The driver makes the
#: passes of a prompt even, in whole row sets: 6 + 3 of 9 positions.
FAULTS = {
    "norm": ("vector.datapath.lanes.rsqrt", "o", 1 << 20, "positions 0 to 5",
             r"instruction 1 \(NORM, layers.0.attention_norm\): scales\[stream 0, group 0\] is "),
    "matmul": ("matmul.accumulator.scale_mul_1", "o", 1 << 21, "positions 0 to 5",
               r"instruction 2 \(MATMUL, layers.0.kv\): results\[stream 0, column 1\] is "),
    "softmax": ("softmax.exponent.exp0", "o", 1 << 22, "positions 0 to 5",
                r"instruction 8 \(ATTN, layer 0\): rescale\[K/V head 0, block 0, stream 0\] is "),
    "glu": ("vector.datapath.lanes.exp0", "o", 1 << 22, "positions 0 to 5",
            r"instruction 15 \(GLU, layer 0\): X\[position 0, element 0\] is "),
    "token": ("vector.logits.argmax", "index", 1, "positions 6 to 8",
              r"instruction 39 \(LOGITS\): token\[number 0\] is "),
}

# Where bits were right when the vector unit handed them over, but not in memory.
SCATTER = ("memory.write_jobs.append.serializer", "word", 1)


@functools.cache
def faulty_verilog() -> str:
    """Verilog of the device; without the number of a fault in `faults.FILE` it is a good one."""
    text = generate(ODD, fill=1, probe=True, activity=True)
    for number, (module, port, flip, *_) in enumerate([*FAULTS.values(), SCATTER], start=1):
        text = faults.seed(text, module, port, flip, number)
    return text

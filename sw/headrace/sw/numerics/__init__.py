"""Bit-exact arithmetic of the machine in NumPy: every unit of ``headrace.hw.fp``, vectorised.

The functions take and return ``float32`` arrays (or the integers named in their documentation)
and give the same bits as the hardware for every input, NaN and infinity included. They use
float32 addition and multiplication and integer operations only, never ``np.exp``, ``/``,
``np.sqrt`` or ``np.sum``, whose results depend on the machine. ``docs/number-formats.md`` has
the rules and the measured errors.
"""

from .arithmetic import abs_max, add, as_bits, flush, from_bits, maximum, mul, order_key
from .composite import (
    gelu,
    low_scale,
    quantise,
    quantise16,
    quantise_kv,
    reduce16,
    rms_scale,
    silu,
    sub,
    to_fp16_scale,
)
from .conversion import from_fp16, from_int, to_fp16, to_int8, to_int16
from .elementary import exp, rcp, rsqrt


__all__ = [
    "abs_max", "add", "as_bits", "exp", "flush", "from_bits", "from_fp16", "from_int", "gelu",
    "low_scale", "maximum", "mul", "order_key", "quantise", "quantise16", "quantise_kv", "rcp",
    "reduce16", "rms_scale", "rsqrt", "silu", "sub", "to_fp16", "to_fp16_scale",
    "to_int16", "to_int8",
]

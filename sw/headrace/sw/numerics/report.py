"""Measured errors of the elementary functions: ``python -m headrace.sw.numerics.report``."""

import argparse
import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from headrace.hw.formats import EXP_INPUT_LOG2_LIMIT, FP32

from .arithmetic import Float, from_bits
from .elementary import exp, rcp, rsqrt


__all__ = ["FUNCTIONS", "Measurement", "measure"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """Errors of one function against float64.

    Attributes
    ----------
    function : str
        Name.
    points : int
        Arguments tried.
    max_ulp : float
        Largest error, in units of the last place of the exact result.
    max_relative : float
        Largest error relative to the exact result.
    misrounded : float
        Share of results that are not the fp32 number nearest to the exact result.
    """
    function: str
    points: int
    max_ulp: float
    max_relative: float
    misrounded: float


def _binade(exponent: int, step: int, sign: int = 0) -> Float:
    """Every ``step``-th number with this exponent field."""
    first = sign | (exponent << FP32.mant_bits)
    return from_bits(np.arange(first, first + FP32.min_normal, step, dtype=np.uint32))


def _rcp_arguments(step: int) -> Iterator[Float]:
    # Other exponents and signs give the same mantissas.
    yield _binade(FP32.bias, step)


def _rsqrt_arguments(step: int) -> Iterator[Float]:
    yield _binade(FP32.bias, step)
    yield _binade(FP32.bias + 1, step)


def _exp_arguments(step: int) -> Iterator[Float]:
    # Below 2**-27 every result is 1. Results that overflow or are flushed do not count.
    for exponent in range(FP32.bias - 27, FP32.bias + EXP_INPUT_LOG2_LIMIT):
        for sign in (0, FP32.sign_mask):
            x = _binade(exponent, step, sign)
            y = exp(x)
            x = x[(y > 0) & np.isfinite(y)]
            if x.size:
                yield x


#: Name, function, reference in float64, and the arguments that cover every case.
FUNCTIONS: dict[str, tuple[Callable, Callable, Callable[[int], Iterator[Float]]]] = {
    "exp": (exp, np.exp, _exp_arguments),
    "rcp": (rcp, np.reciprocal, _rcp_arguments),
    "rsqrt": (rsqrt, lambda x: 1 / np.sqrt(x), _rsqrt_arguments),
}


def measure(name: str, step: int = 1) -> Measurement:
    """Measure one of :data:`FUNCTIONS` over every ``step``-th argument."""
    function, reference, arguments = FUNCTIONS[name]
    points, ulp, relative, misrounded = 0, 0.0, 0.0, 0
    for x in arguments(step):
        exact = reference(x.astype(np.float64))
        result = function(x)
        error = np.abs(result - exact)
        # frexp() gives a fraction in [0.5, 1): the last place is 24 bits below its exponent.
        unit = np.ldexp(1.0, np.frexp(exact)[1] - FP32.mant_bits - 1)
        points += x.size
        ulp = max(ulp, float((error / unit).max()))
        relative = max(relative, float((error / exact).max()))
        misrounded += int(np.count_nonzero(result != exact.astype(np.float32)))
    return Measurement(function=name, points=points, max_ulp=ulp, max_relative=relative,
                       misrounded=misrounded / points)


def main() -> None:
    """Print the table of ``docs/number-formats.md``."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace.sw.numerics.report",
        description="Measure the errors of exp, rcp and rsqrt against float64.")
    parser.add_argument("--step", type=int, default=1, metavar="N",
                        help="try every N-th argument (default: every one, which takes minutes)")
    step = parser.parse_args().step
    print("| function | arguments | largest error | largest relative error | misrounded |")
    print("|---|---|---|---|---|")
    for name in FUNCTIONS:
        m = measure(name, step)
        print(f"| `{name}` | {m.points:,} | {m.max_ulp:.3f} ulp | "
              f"2^{np.log2(m.max_relative):.2f} | {m.misrounded:.1%} |")


if __name__ == "__main__":
    main()

"""Number formats and tables."""

import decimal
import struct
import subprocess
import sys
import zlib

import pytest

from headrace.hw import formats, tables


def test_constants():
    assert formats.FP32.width == 32 and formats.FP16.width == 16
    assert formats.FP32.canonical_nan == 0x7fc00000 and formats.FP16.canonical_nan == 0x7e00
    assert formats.FP32.max_finite == 0x7f7fffff and formats.FP16.max_finite == 0x7bff
    assert formats.FP32.min_normal == 0x00800000
    assert formats.ONE_BITS == formats.fp32_bits(1.0)
    assert formats.LOWEST_BITS == 0xff7fffff
    assert formats.INV_ACT_MAX_BITS == 0x3c010204
    assert struct.pack("<f", formats.INV_ACT_MAX) == struct.pack("<I", formats.INV_ACT_MAX_BITS)


def test_log2_e():
    with decimal.localcontext(decimal.Context(prec=40)):
        exact = 2 ** formats.LOG2_E_FRACTION_BITS / decimal.Decimal(2).ln()
        assert abs(exact - formats.LOG2_E) < decimal.Decimal("0.5")


@pytest.mark.parametrize("name, widths, checksum", [
    ("EXP2", (27, 20, 10), 0x6e8f6d7a),
    ("RECIPROCAL", (27, 20, 12), 0x7ca9a2e0),
    ("RSQRT", (27, 20, 10), 0x84a6ebc1),
])
def test_tables(name, widths, checksum):
    # Every bit of every result follows from these numbers: they must never change unnoticed.
    table = getattr(tables, name)
    assert len(table.rows) == 1 << table.index_bits
    assert table.widths == widths
    assert min(min(row) for row in table.rows) >= 0
    # One 18 x 18 multiplier each.
    assert table.slope_width == 18 and table.offset_bits <= 18
    assert table.widths[2] <= 18 and table.square_bits <= 18
    assert zlib.crc32(repr(table.rows).encode()) == checksum


def test_light_import():
    code = ("import sys; import headrace.hw.formats, headrace.hw.tables; "
            "sys.exit('amaranth' in sys.modules or 'numpy' in sys.modules)")
    environment = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)

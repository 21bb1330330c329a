"""Instructions: encoding, decoding, fields that do not overlap."""

import random

import pytest

from headrace.hw.isa import ENGINES, FIELDS, INSTRUCTION_BYTES, OPCODES, Op, decode, encode


@pytest.mark.parametrize("op", Op)
def test_round_trip(op):
    rng = random.Random(int(op))
    values = {name: rng.getrandbits(FIELDS[name].bits) for name in ("head", *OPCODES[op])}
    code = encode(op, **values)
    assert len(code) == INSTRUCTION_BYTES
    assert decode(code) == {"op": op, **values}


@pytest.mark.parametrize("op", Op)
def test_fields_do_not_overlap(op):
    used = 0
    for name in ("op", "head", *OPCODES[op]):
        field = FIELDS[name]
        mask = ((1 << field.bits) - 1) << field.offset
        assert field.lsb + field.bits <= 32 and not used & mask, name
        used |= mask


def test_every_instruction_has_engines():
    assert set(ENGINES) == set(OPCODES) == set(Op)


def test_refused():
    with pytest.raises(ValueError, match=r"END: fields \['addr'\] missing or unknown"):
        encode(Op.END)
    with pytest.raises(ValueError, match=r"END: fields \['dim'\] missing or unknown"):
        encode(Op.END, addr=0, dim=1)
    with pytest.raises(ValueError, match=r"END.addr: 4294967296 does not fit into 32 bits"):
        encode(Op.END, addr=1 << 32)
    with pytest.raises(ValueError):
        decode(bytes(32))

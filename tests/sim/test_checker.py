"""The AXI protocol checker: each rule fires on a seeded violation, and on nothing else."""

import pytest

from headrace.sim.memory import ProtocolViolation


#: Read and write address channel.
CHANNELS = pytest.mark.parametrize("write", [False, True], ids=["read", "write"])


@CHANNELS
@pytest.mark.parametrize("fields, rule, detail", [
    ({"addr": 0x100, "burst": 0}, "burst_type", "BURST is 0, must be 1 (INCR)"),
    ({"addr": 0x100, "burst": 2}, "burst_type", "BURST is 2, must be 1 (INCR)"),
    ({"addr": 0x100, "size": 2}, "size", "SIZE is 2, must be 3 (the full bus width)"),
    ({"addr": 0x104}, "alignment", "ADDR must be a multiple of 8 bytes"),
    ({"addr": 0x100, "beats": 17}, "burst_length", "burst has 17 beats, more than 16"),
    ({"addr": 0x1FF8, "beats": 2}, "boundary", "burst of 16 bytes crosses a 4 KiB boundary"),
    ({"addr": 0x3F90, "beats": 16}, "boundary", "burst of 128 bytes crosses a 4 KiB boundary"),
    ({"addr": 0x100, "ident": 6}, "id", "ID is 6, but there are 6 traffic classes"),
    ({"addr": 0x40000}, "unmapped", "burst of 8 bytes leaves the mapped memory"),
    ({"addr": 0xFFFFFFF8}, "unmapped", "burst of 8 bytes leaves the mapped memory"),
])
def test_address_rules(puppet, write, fields, rule, detail):
    master = puppet(max_burst_beats=16)
    master.address(write, go=False, **fields)
    before = master.simulation.cycles
    with pytest.raises(ProtocolViolation) as caught:
        master.simulation.write_csr(0x18 if write else 8, 1)
        master.wait()
    text = str(caught.value)
    assert text.startswith(f"{rule}: {'AW' if write else 'AR'}")
    assert detail in text
    assert f"address 0x{fields['addr']:x})" in text
    cycle = int(text.split("(cycle ")[1].split(",")[0])
    assert before < cycle < before + 10


@CHANNELS
@pytest.mark.parametrize("fields", [
    {"addr": 0x1F80, "beats": 16}, {"addr": 0x3FFF8}, {"addr": 0x100, "ident": 5},
])
def test_edges_of_the_rules_are_allowed(puppet, write, fields):
    master = puppet(max_burst_beats=16, latency=1)
    master.accept()
    master.address(write, **fields)
    if write:
        for beat in range(fields.get("beats", 1)):
            master.data(last=beat + 1 == fields.get("beats", 1))
    master.wait()
    assert master.responses == 1 if write else master.beats == fields.get("beats", 1)


def test_memory_below_its_base_is_unmapped(puppet):
    with pytest.raises(ProtocolViolation, match="^unmapped"):
        puppet(base=0x1000).address(False, 0xFF8)


@CHANNELS
def test_payload_changes_while_stalled(puppet, write):
    master = puppet(depth=1, latency=1000)
    master.address(write, 0x100)
    master.address(write, 0x200)  # stalled behind the first
    master.wait(20)
    with pytest.raises(ProtocolViolation, match=r"^stability: A[RW] payload changed while stalled"):
        master.address(write, 0x300)


@CHANNELS
def test_valid_falls_while_stalled(puppet, write):
    master = puppet(depth=1, latency=1000)
    master.address(write, 0x100)
    master.address(write, 0x200)
    with pytest.raises(ProtocolViolation, match=r"^stability: A[RW]VALID fell before READY"):
        master.simulation.write_csr(0x18 if write else 8, 0)
        master.wait()


@pytest.mark.parametrize("register, value, text", [
    (0x20, 2, "W payload changed while stalled"), (0x24, 0x0F, "W payload changed while stalled"),
    (0x28, 1, "W payload changed while stalled"), (0x28, 0, "WVALID fell before READY"),
])
def test_write_data_changes_while_stalled(puppet, register, value, text):
    # At this bandwidth the third beat waits long enough to be changed.
    master = puppet(bandwidth=0.001)
    master.address(True, 0x100, beats=3)
    for beat in range(3):
        master.data(1, last=beat == 2)
    with pytest.raises(ProtocolViolation, match=f"^stability: {text}"):
        master.simulation.write_csr(register, value)
        master.wait()


@pytest.mark.parametrize("beats, lasts", [(2, [True]), (2, [False, False]), (1, [False])])
def test_last_is_at_the_wrong_beat(puppet, beats, lasts):
    master = puppet()
    master.address(True, 0x100, beats=beats)
    with pytest.raises(ProtocolViolation, match=rf"^wlast: WLAST is wrong on beat {len(lasts)} "
                                                rf"of {beats}"):
        for last in lasts:
            master.data(last=last)
        master.wait()


def test_write_data_without_address(puppet):
    master = puppet()
    with pytest.raises(ProtocolViolation, match="^write_order"):
        master.data()
        master.wait()


def test_more_write_data_than_addressed(puppet):
    master = puppet()
    master.address(True, 0x100)
    master.data()
    with pytest.raises(ProtocolViolation, match="^write_order"):
        master.data()
        master.wait()


@CHANNELS
def test_outstanding_limit(puppet, write):
    master = puppet(latency=1000, max_reads=2, max_writes=2)
    master.address(write, 0x100)
    master.address(write, 0x200)
    master.wait()
    with pytest.raises(ProtocolViolation, match=r"^outstanding: 3 (reads|writes) outstanding, "
                                                r"more than 2"):
        master.address(write, 0x300)
        master.wait()


@CHANNELS
def test_an_answered_burst_is_not_outstanding(puppet, write):
    master = puppet(latency=1, max_reads=1, max_writes=1)
    master.accept()
    for _ in range(3):
        master.address(write, 0x100)
        if write:
            master.data()
        master.wait(10)
    assert (master.responses if write else master.beats) == 3


def test_valid_in_reset(puppet):
    master = puppet()
    master.address(False, 0x100, go=False)
    master.address(True, 0x100, go=False)
    master.simulation.write_csr(0x34, 1)
    master.wait(10)
    master.simulation.reset()
    with pytest.raises(ProtocolViolation, match="^valid_in_reset"):
        master.wait(1)


def test_after_a_violation_nothing_answers_until_reset(puppet):
    master = puppet(latency=1)
    master.accept()
    with pytest.raises(ProtocolViolation):
        master.address(False, 0x104)
        master.wait()
    assert master.memory.violation is not None
    with pytest.raises(ProtocolViolation):
        master.wait()
    master.simulation.reset()
    assert master.memory.violation is None
    master.accept()
    master.address(False, 0x108)
    master.wait()
    assert master.beats == 1

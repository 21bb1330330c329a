"""The first-difference report: faults seeded into the RTL are named where they begin."""

import re

import pytest

from headrace.hw.config import PRESETS
from headrace.hw.verilog import generate
from headrace.sim.device import SimDevice
from headrace.sim.memory import MemoryOptions
from headrace.sim.tops import wrap
from headrace.sw.check import Difference, Finding
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from tests.sim import faults
from tests.sim.faulty import FAULTS, ODD, faulty_verilog
from tests.sw.models import compiled, ids


@pytest.fixture(scope="module")
def image():
    # Tied embeddings of random models only repeat themselves.
    return compiled(ODD, tied=False, seed=2)


@pytest.fixture(scope="module")
def verilog():
    """One device for all faults: a build takes far longer than a run."""
    return faulty_verilog()


@pytest.fixture
def device(image, verilog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(number, options=None, **changes):
        (tmp_path / faults.FILE).write_text(f"{number:02x}\n")
        return SimDevice(ODD, verilog, options, **{"memory_bytes": image.total_bytes,
                                                   "fill": 0xff, **changes})
    return make


def _verdict(device, image):
    notes = []
    with device:
        session = Session(device, image, check=True, passes_per_run=2, max_cycles=3_000_000,
                          notify=notes.append)
        with pytest.raises(Difference) as caught:
            list(session.generate(ids(9), 3))
    assert session.verdict == session.report()["check"]
    assert str(caught.value) == f"check: the first difference is in {session.verdict}"
    assert len(notes) == 1 and "making the runs again with a probe" in notes[0]
    return session.verdict


@pytest.mark.parametrize("name", FAULTS)
def test_names_the_instruction_and_the_tensor(device, image, name):
    *_, where, wanted = FAULTS[name]
    verdict = _verdict(device(list(FAULTS).index(name) + 1), image)
    assert re.match(rf"{where}: {wanted}", verdict), verdict
    pair = re.search(r" is (\S+) ?(\(0x[0-9a-f]{8}\))? on the device and (\S+) ?(\(0x\w{8}\))? on "
                     r"golden; in memory, instruction ", verdict)
    assert pair, verdict
    assert pair[1] != pair[3] and bool(pair[2]) == bool(pair[4]) == (name != "token")


def test_fault_behind_the_vector_unit(device, image):
    verdict = _verdict(device(len(FAULTS) + 1), image)
    assert re.match(r"positions 0 to 5: instruction 5 \(APPEND\), cache of layer 0, K/V head 0: ",
                    verdict), verdict
    assert verdict.endswith(" on golden; everything before that is equal")


def _all_equal(device, image, prompt, tokens, passes):
    """Localise in each run of a good device; return how many there were."""
    with device:
        session = Session(device, image, check=True, chunk=image.chunk, passes_per_run=passes,
                          max_cycles=3_000_000)
        runs = 0
        compare = session._compare

        def localise(run):
            nonlocal runs
            runs += 1
            compare(run)
            late = Finding(run.passes, 0, "nothing")
            assert session._localise(run, late) == "nothing; everything before that is equal"
        session._compare = localise
        list(session.generate(prompt, tokens))
        assert session.verdict == "bit-exact"
    return runs


def test_good_device_differs_nowhere(device, image):
    # Two blocks of the cache; passes with and without logits; runs of several passes.
    options = MemoryOptions(latency=20, stall_seed=5)
    assert _all_equal(device(0, options), image, ids(32), 5, 2) == 7


@pytest.mark.slow
def test_good_preset_differs_nowhere():
    config = PRESETS["tiny"]
    image = compiled(config, tied=False, seed=2)
    device = SimDevice(config, generate(config, fill=1, probe=True),
                       memory_bytes=image.total_bytes)
    assert _all_equal(device, image, ids(33), 4, 3) == 6


def test_only_a_device_with_a_probe_records(image, device, verilog):
    port = re.search(r"  output \[\d+:0\] probe;\n", verilog)[0]
    plain = verilog.replace(port, port.replace("output", "wire"))
    with pytest.raises(HeadraceError, match="sim: the device has no probe port: use its replica"):
        SimDevice(ODD, plain, memory_bytes=1 << 16).begin_recording()
    assert "headrace_probe_tick" in wrap(verilog)[0]
    assert "headrace_probe_tick" not in wrap(plain)[0]
    assert "probe" not in {port.name for port in wrap(verilog)[1]}

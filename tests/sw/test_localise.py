"""The first-difference report, without a simulator: what it says and when."""

import json

import numpy as np
import pytest

from headrace.hw.config import PRESETS
from headrace.hw.isa import Op
from headrace.hw.observation import sources
from headrace.sw import cli
from headrace.sw.check import Difference
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.localise import instruction_name
from headrace.sw.observed import Tensor
from headrace.sw.recording import Recording

from .models import compiled, ids


TINY = PRESETS["tiny"]


@pytest.fixture(scope="module")
def image():
    return compiled(TINY)


# Tensors.

def _tensor(device, golden, **options):
    return Tensor("X", ("position", "element"), np.array(device, np.float32),
                  np.array(golden, np.float32), **options)


def test_values_are_compared_by_their_bits():
    assert _tensor([[1, np.nan]], [[1, np.nan]]).difference() is None
    assert _tensor([[1, 0.0], [2, 2]], [[1, -0.0], [3, 2]]).difference() == (
        "X[position 0, element 1] is 0.0 (0x00000000) on the device and -0.0 (0x80000000) on "
        "golden")


def test_what_does_not_count_is_not_compared():
    counts = np.array([[False, True], [True, True]])
    tensor = _tensor([[5, 1], [0, 0]], [[6, 1], [0.5, 0]], counts=counts, first={"position": 8})
    assert tensor.difference() == ("X[position 9, element 0] is 0.0 (0x00000000) on the device and "
                                   "0.5 (0x3f000000) on golden")


def test_what_is_not_written_differs_even_if_equal():
    written = np.array([[True, True], [True, False]])
    assert "X[position 1, element 1] is not written on the device and 4.0 (0x40800000)" in (
        _tensor([[1, 2], [3, 4]], [[1, 2], [3, 4]], written=written).difference() or "")


@pytest.mark.parametrize("kind, text", [(np.int8, "is -3 on the device and 4 "),
                                        (np.uint16, "is 0xfffd on the device and 0x0004 ")])
def test_integers(kind, text):
    device, golden = np.array([-3]).astype(kind), np.array([4], kind)
    assert text in (Tensor("A", ("stream",), device, golden).difference() or "")


def test_instructions_have_names(image):
    names = [instruction_name(image, index) for index in (0, 1, 2, 18, 19, 36, 37, 38, 39)]
    assert names == [
        "instruction 0 (EMBED)", "instruction 1 (NORM, layers.0.attention_norm)",
        "instruction 2 (MATMUL, layers.0.kv)", "instruction 18 (ADD, layer 0)",
        "instruction 19 (NORM, layers.1.attention_norm)", "instruction 36 (ADD, layer 1)",
        "instruction 37 (NORM, final_norm)", "instruction 38 (MATMUL, head)",
        "instruction 39 (LOGITS)"]


# A device that goes wrong, and whose replica records its first instruction.

class _Replica(GoldenDevice):
    """Records EMBED; `change` spoils the records of X, `ended` are the opcodes."""

    change = staticmethod(lambda x: x)
    ended = (Op.EMBED,)

    def begin_recording(self):
        fields = sources(TINY)
        self.records = {name: np.zeros((0, 1 + sum(sizes.values())), np.uint32)
                        for name, sizes in fields.items()}

        def trace(index, code, tensors):
            if code["op"] == Op.EMBED:
                x = [(0, code["x_base"] + p * code["x_stride"] + element, row[element])
                     for p, row in enumerate(tensors["x"].view(np.uint32))
                     for element in range(len(row))]
                self.records["x"] = self.change(np.array(x, np.uint32))
        self.machine.trace = trace

    def end_recording(self):
        self.records["retire"] = np.array([(i, op) for i, op in enumerate(self.ended)],
                                          np.uint32).reshape(-1, 2)
        return Recording(sources(TINY), self.records)


class _Faulty(GoldenDevice):
    """Flips a logit after each run that computes them."""

    at = 0
    replica_type = _Replica

    def run(self, *args, **kwargs):
        super().run(*args, **kwargs)
        if self._registers["flags"]:
            self.memory[self.at] ^= 1

    def replica(self):
        return self.replica_type(self.config, memory_bytes=self.memory_bytes)


def _replica(**changes):
    return type("Changed", (_Replica,), changes)


def _wrong_value(x):
    x[5, 2] ^= 1 << 31
    return x


@pytest.mark.parametrize("changes, text", [
    ({"change": staticmethod(_wrong_value)}, r"X\[position 8, element 5\] is (-?)(\S+) "
     r"\(0x\w{8}\) on the device and (?!\1)-?\2 \(0x\w{8}\) on golden"),
    ({"change": staticmethod(lambda x: x[:-1])}, r"X\[position 10, element 63\] is not written on "
     r"the device and \S+ \(0x\w{8}\) on golden"),
    ({"change": staticmethod(lambda x: np.append(x, [[0, 4000, 1]], 0).astype(np.uint32))},
     "X word 4000 is written on the device and not on golden"),
    ({"ended": ()}, "it did not end on the device"),
    ({"ended": (Op.QUANT,)}, f"the vector unit of the device executed opcode {int(Op.QUANT)} "
                             f"instead"),
])
def test_report(image, changes, text):
    with _Faulty(TINY, memory_bytes=image.total_bytes) as device:
        device.at = image.regions["logits"].begin + 4 * 6
        device.replica_type = _replica(**changes)
        session = Session(device, image, check=True)
        with pytest.raises(Difference, match=rf"positions 8 to 10: instruction 0 \(EMBED\): {text}"
                           r"; in memory, instruction 39 \(LOGITS\): logits\[6\] is "):
            list(session.generate(ids(11), 3))


def test_without_a_replica_memory_is_compared(image):
    with _Faulty(TINY, memory_bytes=image.total_bytes) as device:
        device.at = image.regions["logits"].begin
        device.replica = lambda: None
        with pytest.raises(Difference, match=r"instruction 39 \(LOGITS\): logits\[0\] is .* on "
                                             r"golden$"):
            list(Session(device, image, check=True).generate(ids(3), 1))


def test_golden_device_does_not_record(image):
    device = GoldenDevice(TINY, memory_bytes=1 << 16)
    assert device.replica() is None
    for record in (device.begin_recording, device.end_recording):
        with pytest.raises(HeadraceError, match="golden: the device cannot record"):
            record()


def test_command_line(tmp_path, monkeypatch, capsys):
    def faulty(kind, image, **options):
        device = _Faulty(image.config, memory_bytes=image.total_bytes)
        device.at = image.regions["logits"].begin
        device.replica_type = _replica(change=staticmethod(_wrong_value))
        return device

    monkeypatch.setattr("headrace.sw.cli.run.open_device", faulty)
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "demo", "--prompt-ids", "1,2,3", "--tokens", "1", "--check", "--json",
                  str(tmp_path / "report.json")])
    assert caught.value.code == 1
    notes = " ".join(capsys.readouterr().err.split())
    check = json.loads((tmp_path / "report.json").read_text())["check"]
    assert check.startswith("positions 0 to 2: instruction 0 (EMBED): X[position 0, element 5] is ")
    assert "making the runs again with a probe" in notes
    assert f"headrace: check: the first difference is in {check}" in notes

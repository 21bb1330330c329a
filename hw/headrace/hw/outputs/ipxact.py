"""Component description in IP-XACT, IEEE 1685-2014."""

from xml.etree import ElementTree

from ..config import Config
from ..control.control import ADDR_BITS
from ..documents import COUNTER_DOCS
from ..regmap import REGISTERS
from .fusesoc import library_version
from .ports import CTRL, MEMORY, Port, ports
from .registers import Field, counter_offsets, fields


__all__ = ["NAMESPACE", "ip_xact"]


NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"

_ACCESS = {"ro": "read-only", "rw": "read-write", "w1": "write-only", "w1c": "read-write"}


def _add(parent, tag, text=None, **attributes):
    """Element of the namespace in `parent`."""
    element = ElementTree.SubElement(parent, f"{{{NAMESPACE}}}{tag}", attributes)
    if text is not None:
        element.text = str(text)
    return element


def _bus(parent, name: str, kind: str, members: list[Port]):
    bus = _add(parent, "busInterface")
    _add(bus, "name", name)
    _add(bus, "busType", vendor="amba.com", library="AMBA4", name=kind, version="r0p0_0")
    abstraction = _add(_add(bus, "abstractionTypes"), "abstractionType")
    _add(abstraction, "abstractionRef", vendor="amba.com", library="AMBA4", name=f"{kind}_rtl",
         version="r0p0_0")
    maps = _add(abstraction, "portMaps")
    shared = [("ACLK", "clk")]
    for logical, physical in [*shared, *((port.signal.upper(), port.name) for port in members)]:
        pair = _add(maps, "portMap")
        _add(_add(pair, "logicalPort"), "name", logical)
        _add(_add(pair, "physicalPort"), "name", physical)
    return bus


def _field(parent, field: Field, access: str) -> None:
    element = _add(parent, "field")
    _add(element, "name", field.name)
    _add(element, "bitOffset", field.lsb)
    value = field.constant if access == "ro" else 0
    if value is not None:
        _add(_add(_add(element, "resets"), "reset"), "value", f"'h{value:x}")
    _add(element, "bitWidth", field.width)
    _add(element, "volatile", "true" if field.constant is None and access != "rw" else "false")
    _add(element, "access", _ACCESS[access])
    if access == "w1c":
        _add(element, "modifiedWriteValue", "oneToClear")


def _register(block, name: str, doc: str, offset: int, bits: int, access: str):
    element = _add(block, "register")
    _add(element, "name", name)
    _add(element, "description", doc)
    _add(element, "addressOffset", f"'h{offset:x}")
    _add(element, "size", bits)
    return element


def _memory_map(root, config: Config) -> None:
    memory_map = _add(_add(root, "memoryMaps"), "memoryMap")
    _add(memory_map, "name", CTRL)
    block = _add(memory_map, "addressBlock")
    _add(block, "name", "registers")
    _add(block, "baseAddress", "'h0")
    _add(block, "range", 1 << ADDR_BITS)
    _add(block, "width", 32)
    _add(block, "usage", "register")
    for register in sorted(REGISTERS.values(), key=lambda each: each.offset):
        element = _register(block, register.name, register.doc, register.offset, 32,
                            register.access)
        for field in fields(register, config):
            _field(element, field, register.access)
    for counter, offset in counter_offsets().items():
        # The port has 32 bits: each counter is its two halves.
        for half, suffix in enumerate(("lo", "hi")):
            element = _register(block, f"counter_{counter}_{suffix}",
                                f"{COUNTER_DOCS[counter]}, {('low', 'high')[half]} half",
                                offset + 4 * half, 32, "ro")
            _field(element, Field("value", 0, 32, None), "ro")
    _add(memory_map, "addressUnitBits", 8)


def _model(root, module: str, found: list[Port]) -> None:
    model = _add(root, "model")
    view = _add(_add(model, "views"), "view")
    _add(view, "name", "rtl")
    _add(view, "envIdentifier", "verilog:*:*")
    _add(view, "componentInstantiationRef", "verilog")
    instantiation = _add(_add(model, "instantiations"), "componentInstantiation")
    _add(instantiation, "name", "verilog")
    _add(instantiation, "language", "verilog")
    _add(instantiation, "moduleName", module)
    _add(_add(instantiation, "fileSetRef"), "localName", "rtl")
    listed = _add(model, "ports")
    for port in found:
        element = _add(listed, "port")
        _add(element, "name", port.name)
        wire = _add(element, "wire")
        _add(wire, "direction", "in" if port.is_input else "out")
        if port.bits > 1:
            vector = _add(_add(wire, "vectors"), "vector")
            _add(vector, "left", port.bits - 1)
            _add(vector, "right", 0)


def ip_xact(config: Config, module: str) -> str:
    """Text of the component: bus interfaces, address space, registers, ports and files.

    The reset is synchronous and active high, so no bus has it as its ``ARESETn``: a netlister
    connects ``rst`` by itself.
    """
    ElementTree.register_namespace("ipxact", NAMESPACE)
    root = ElementTree.Element(f"{{{NAMESPACE}}}component")
    for tag, text in (("vendor", "headrace"), ("library", "accelerator"), ("name", module),
                      ("version", library_version())):
        _add(root, tag, text)
    found = ports(config)
    buses = _add(root, "busInterfaces")
    memory = _bus(buses, MEMORY, "AXI4", [port for port in found if port.bus == MEMORY])
    _add(_add(memory, "master"), "addressSpaceRef", addressSpaceRef="memory")
    control = _bus(buses, CTRL, "AXI4-Lite", [port for port in found if port.bus == CTRL])
    _add(_add(control, "slave"), "memoryMapRef", memoryMapRef=CTRL)
    space = _add(_add(root, "addressSpaces"), "addressSpace")
    _add(space, "name", "memory")
    _add(space, "range", f"'h{1 << config.addr_bits:x}")
    _add(space, "width", config.port_bits)
    _memory_map(root, config)
    _model(root, module, found)
    file_set = _add(_add(root, "fileSets"), "fileSet")
    _add(file_set, "name", "rtl")
    file = _add(file_set, "file")
    _add(file, "name", f"{module}.v")
    _add(file, "fileType", "verilogSource")
    _add(root, "description", f"LLM-inference accelerator, configuration {config.name}, "
                              f"fingerprint {config.fingerprint:08x}")
    ElementTree.indent(root, " ")
    return ('<?xml version="1.0" encoding="UTF-8"?>\n'
            + ElementTree.tostring(root, encoding="unicode") + "\n")

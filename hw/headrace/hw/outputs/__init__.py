"""Descriptions of the accelerator for other tools, all from the same tables."""

from collections.abc import Iterable

from ..config import Config, ConfigError
from .c_header import board_header, c_header
from .csr import csr_csv, csr_json
from .fusesoc import core_file
from .instance import instance_template
from .ipxact import ip_xact
from .rdl import system_rdl
from .vivado import package_script


__all__ = ["KINDS", "board_header", "c_header", "core_file", "csr_csv", "csr_json",
           "descriptions", "instance_template", "ip_xact", "package_script", "system_rdl"]


#: Kinds of descriptions.
KINDS = ("c", "fusesoc", "rdl", "litex", "ipxact", "vivado", "template")


def descriptions(config: Config, module: str, base: int = 0,
                 kinds: Iterable[str] = KINDS) -> dict[str, str]:
    """Texts by file name.

    Parameters
    ----------
    config : Config
        The accelerator.
    module : str
        Name of its Verilog module, which is in ``MODULE.v``.
    base : int
        Address of the control port in the system, for ``csr.json`` and ``csr.csv``.
    kinds : iterable of str
        Some of :data:`KINDS`.

    Raises
    ------
    ConfigError
        For a kind that is none of them.
    """
    kinds = list(kinds)
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"no description {kind!r}: expected some of {', '.join(KINDS)}")
    texts = {
        "c": {f"{module}.h": c_header(config), f"{module}_board.h": board_header()},
        "fusesoc": {f"{module}.core": core_file(config, module)},
        "rdl": {f"{module}.rdl": system_rdl(config, module)},
        "litex": {"csr.json": csr_json(config, module, base),
                  "csr.csv": csr_csv(config, module, base)},
        "ipxact": {f"{module}.xml": ip_xact(config, module)},
        "vivado": {"package_ip.tcl": package_script(config, module)},
        "template": {f"{module}_instance.vh": instance_template(config, module)},
    }
    return {name: text for kind in KINDS if kind in kinds for name, text in texts[kind].items()}

"""Descriptions of the accelerator for other tools, all from the same tables."""

from ..config import Config
from .c_header import board_header, c_header
from .csr import csr_csv, csr_json
from .fusesoc import core_file
from .instance import instance_template
from .ipxact import ip_xact
from .rdl import system_rdl


__all__ = ["board_header", "c_header", "core_file", "csr_csv", "csr_json", "descriptions",
           "instance_template", "ip_xact", "system_rdl"]


def descriptions(config: Config, module: str, base: int = 0) -> dict[str, str]:
    """Texts by file name.

    Parameters
    ----------
    config : Config
        The accelerator.
    module : str
        Name of its Verilog module, which is in ``MODULE.v``.
    base : int
        Address of the control port in the system, for ``csr.json`` and ``csr.csv``.
    """
    return {
        f"{module}.h": c_header(config), f"{module}_board.h": board_header(),
        f"{module}.core": core_file(config, module), f"{module}.rdl": system_rdl(config, module),
        "csr.json": csr_json(config, module, base), "csr.csv": csr_csv(config, module, base),
        f"{module}.xml": ip_xact(config, module),
        f"{module}_instance.vh": instance_template(config, module),
    }

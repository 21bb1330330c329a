"""Projects for Vivado: RTL, IP packaging, block design, and the build, as text."""

import json

from headrace.hw import verilog
from headrace.hw.config import Config
from headrace.sw.errors import HeadraceError

from ..catalogue import Board
from ..synthesis import Resources
from .block_design import block_design
from .implementation import implementation
from .packaging import package_ip
from .readme import readme
from .wrapper import WRAPPER, wrapper


__all__ = ["project_files"]


def project_files(board: Board, config: Config, resources: Resources | None = None
                  ) -> dict[str, str]:
    """Files of a project by name.

    Parameters
    ----------
    board : Board
        One with a processor system.
    config : Config
        Of the accelerator.
    resources : Resources or None
        Of a synthesis with Yosys, for the README.

    Raises
    ------
    HeadraceError
        If the board has none, or its memory cannot be reached.
    """
    if board.processor is None:
        raise HeadraceError(f"{board.name}: its part has no processor system with memory: it is "
                            f"built without Vivado")
    files = {
        f"{verilog.NAME}.v": verilog.generate(config),
        f"{verilog.NAME}.json": json.dumps(verilog.describe(config), indent=1) + "\n",
        f"{verilog.NAME}.h": verilog.c_header(),
        f"{WRAPPER}.v": wrapper(config),
        "package_ip.tcl": package_ip(board),
        "block_design.tcl": block_design(board),
        "build.tcl": implementation(board),
        "README.md": readme(board, config, resources),
    }
    if board.processor.kind == "zynq_ultra_ps_e":
        files[f"{board.name}.bif"] = f"all: {{ [destination_device = pl] {board.name}.bit }}\n"
    return files

"""README of a generated project."""

from headrace.hw.config import Config
from headrace.hw.regmap import ID

from ..catalogue import Board
from ..families import FAMILIES
from ..synthesis import Resources


__all__ = ["readme"]


def readme(board: Board, config: Config, resources: Resources | None) -> str:
    """Text of ``README.md``.

    Parameters
    ----------
    board : Board
        One with a processor system.
    config : Config
        Of the accelerator.
    resources : Resources or None
        Of a synthesis with Yosys, if there was one.
    """
    assert board.processor is not None
    processor = board.processor
    load = (_LOAD_ULTRASCALE if processor.kind == "zynq_ultra_ps_e" else _LOAD_7).format(
        name=board.name)
    return f"""# {config.name} on {board.title}

RTL and Tcl for Vivado, which headrace has generated: {config.rows} x {config.cols} array, \
{config.port_bits}-bit port, {config.clk_hz / 1e6:g} MHz, part {board.order}.

```
vivado -mode batch -source package_ip.tcl
vivado -mode batch -source build.tcl
```

The first makes an IP of the accelerator in `ip_repo/`; the second makes a block design,
`{board.name}.bit`, `{board.name}.xsa`, `utilization.txt` and `timing.txt`, and fails if timing is
not met. The generator's tests run the Tcl with a model of the commands of Vivado, not with Vivado.

| | |
|---|---|
| registers | {processor.control_base:#x}, 4096 bytes |
| memory | {processor.memory_base:#x}, {board.memory.size_bytes:,} bytes: {board.memory.title} |
| Linux leaves it alone with | `{processor.reserve}` |
| interrupt | the first one from the logic |
| fingerprint | {config.fingerprint:#010x} |

{_resources(board, resources)}
## Load and try it

{load}
`devmem {processor.control_base:#x}` then reads {ID:#010x}: the accelerator is there. The host
software runs on the board itself: `headrace run demo --device {board.link.url}`.
"""


def _resources(board: Board, resources: Resources | None) -> str:
    if resources is None:
        return f"`headrace build {board.name} --estimate` counts resources with Yosys.\n"
    available = FAMILIES[board.family].parts[board.part]
    rows = "\n".join(f"| {kind} | {count:,.0f} | {available[kind]:,} | "
                     f"{100 * count / available[kind]:.0f} % |"
                     for kind, count in resources.used.items())
    return (f"Estimated by Yosys (`synth_xilinx`), the accelerator alone:\n\n"
            f"| | used | available | |\n|---|---|---|---|\n{rows}\n")


_LOAD_ULTRASCALE = """On the board's Linux, with `{name}.bit` and `{name}.bif` beside each other:

```
bootgen -image {name}.bif -arch zynqmp -process_bitstream bin -w
sudo fpgautil -b {name}.bit.bin
```

The clock `pl_clk0` must run at 100 MHz: boot firmware built from `{name}.xsa` sets it up.
"""

_LOAD_7 = """On a PYNQ image, with `{name}.bit` and `{name}.hwh` beside each other:

```
sudo python3 -c 'from pynq import Overlay; Overlay("{name}.bit")'
```

It sets up the clock as well.
"""

"""Generated controllers, kept: each is generated once for all that its text depends on."""

import importlib.metadata
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from headrace.sim import cache
from headrace.sw.errors import HeadraceError

from .spec import ControllerSpec


__all__ = ["GeneratedController", "generate_controller"]


#: Packages that write the text; all are pure Python.
_PACKAGES = ("litedram", "litex", "migen")


@dataclass(frozen=True, kw_only=True)
class GeneratedController:
    """A controller: its specification, Verilog of the module, and facts of it.

    `facts` holds `data_bits`, `addr_bits` and `buffer_words` of the AXI port, geometry of the
    chip, and `start`: the commands before the controller takes over.
    """

    spec: ControllerSpec
    verilog: str
    facts: dict


def generate_controller(spec: ControllerSpec) -> GeneratedController:
    """The controller of a specification.

    Raises
    ------
    HeadraceError
        A package is missing, or LiteDRAM does not know the chip.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise HeadraceError(f"no {', '.join(missing)}: LiteDRAM generates the DRAM controllers of "
                            f"boards. Install it with: pip install 'headrace[boards]'")
    folder = Path(__file__).parent
    sources = {name: (folder / name).read_text(encoding="utf-8")
               for name in ("generator.py", "sdr.py", "ddr3.py", "spec.py")}
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}

    def write(work: Path) -> None:
        from .generator import write as write_controller
        try:
            text, facts = write_controller(spec)
        except ValueError as error:
            raise HeadraceError(f"DRAM controller: {error}") from error
        (work / "litedram.v").write_text(text, encoding="utf-8")
        (work / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")

    key = cache.content_key(sources, versions, spec.facts)
    label = f"{spec.kind} controller, {spec.module} at {spec.dram_hz / 1e6:g} MHz"
    place = cache.obtain("controllers", key, label, write)
    return GeneratedController(spec=spec, verilog=(place / "litedram.v").read_text("utf-8"),
                               facts=json.loads((place / "facts.json").read_text("utf-8")))

"""Core description for FuseSoC, CAPI2."""

import json

from ..config import Config
from ..regmap import VERSION


__all__ = ["core_file", "library_version"]


def library_version() -> str:
    """Version of the register map, as descriptions of cores have it."""
    return f"{VERSION >> 16}.{VERSION & 0xffff}.0"


def core_file(config: Config, module: str) -> str:
    """Text of a ``.core`` file: the RTL, its C header, and a target to lint it."""
    core = {
        "name": f"headrace:accelerator:{module}:{library_version()}",
        "description": f"LLM-inference accelerator, configuration {config.name}, fingerprint "
                       f"{config.fingerprint:08x}",
        "license": "Apache-2.0",
        "filesets": {
            "rtl": {"files": [f"{module}.v"], "file_type": "verilogSource"},
            "software": {"files": [{f"{module}.h": {"is_include_file": True}}],
                         "file_type": "user"},
        },
        "targets": {
            "default": {"filesets": ["rtl"], "toplevel": module},
            "lint": {
                "default_tool": "verilator", "filesets": ["rtl"], "toplevel": module,
                "tools": {"verilator": {"mode": "lint-only",
                                        "verilator_options": ["-Wno-fatal", "-Wno-WIDTH"]}},
            },
        },
    }
    # JSON is YAML, and the standard library writes it; the first line makes it CAPI2.
    return f"CAPI=2:\n{json.dumps(core, indent=1)}\n"

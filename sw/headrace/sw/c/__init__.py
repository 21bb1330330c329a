"""The C driver: sources that are compiled into a user's program, see `docs/integration.md`."""

from importlib.resources import files

from headrace.hw.outputs.c_header import c_header

from ..flat_image import image_c_header


__all__ = ["SOURCES", "driver_files", "driver_sources"]


#: Files of the driver that are the same for every configuration.
SOURCES = ("headrace_driver.h", "headrace_driver.c", "headrace_image.c")


def driver_files() -> dict[str, str]:
    """Texts by file name: the driver, and the header of flat images, without ``headrace.h``."""
    folder = files(__name__)
    return {name: (folder / name).read_text(encoding="utf-8") for name in SOURCES} | {
        "headrace_image.h": image_c_header()}


def driver_sources() -> dict[str, str]:
    """All that a program with the driver needs, for any configuration."""
    return driver_files() | {"headrace.h": c_header()}

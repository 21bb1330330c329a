"""What happens once: device and image are compared, registers are set."""

from ..compiler import Image
from ..device import Device
from ..errors import HeadraceError


__all__ = ["check_fit", "configure"]


def check_fit(device: Device, image: Image, *, base: int, chunk: int, passes_per_run: int) -> None:
    """Refuse a device that cannot run an image as it is wished.

    Raises
    ------
    HeadraceError
        If it is no device of headrace, or of another version or configuration; if a number is
        out of range; or if the image does not fit into its memory.
    """
    fingerprint = device.identify()
    if fingerprint != image.fingerprint:
        raise HeadraceError(f"{device.name}: its configuration has fingerprint "
                            f"{fingerprint:08x}, but the image was compiled for "
                            f"{image.fingerprint:08x} ({image.config.name!r}): compile the "
                            f"model for the device's configuration")
    for what, value, limit in (("chunk", chunk, image.chunk),
                               ("passes_per_run", passes_per_run, image.max_passes)):
        if not 1 <= value <= limit:
            raise HeadraceError(f"{what} is {value}: expected 1 to {limit}, which is what the "
                                f"image allows")
    end = device.memory_base + device.memory_bytes
    if base % 4096 or base < device.memory_base:
        raise HeadraceError(f"base {base:#x}: expected a multiple of 4096 from "
                            f"{device.memory_base:#x} on")
    if base + image.total_bytes > end:
        raise HeadraceError(f"{device.name}: the image needs {image.total_bytes:,} bytes at "
                            f"{base:#x}, but the memory has {end - base:,} from "
                            f"there on: take a device with more memory, or a shorter context")


def configure(device: Device, image: Image, base: int) -> None:
    """Set the registers that no run changes."""
    for name, value in (
            ("base_lo", base & 0xffff_ffff), ("base_hi", base >> 32),
            ("program", image.regions["program"].unit),
            ("instructions", image.instructions),
            ("kv_base", image.regions["cache"].unit), ("kv_pinned", image.kv_pinned)):
        device.write_register(name, value)

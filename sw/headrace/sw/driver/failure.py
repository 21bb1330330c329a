"""Runs that a device ended with an error."""

from headrace.hw.regmap import ERRORS

from ..device import Device
from ..errors import HeadraceError


__all__ = ["DeviceError", "check_status"]


class DeviceError(HeadraceError):
    """The device ended a run with an error code. It has been reset and can be used again.

    Attributes
    ----------
    code, address : int
        Error code of the register map, and the address it belongs to.
    """

    def __init__(self, message: str, code: int, address: int):
        super().__init__(message)
        self.code, self.address = code, address


def check_status(device: Device, position: int) -> None:
    """Look how a run from `position` ended; reset a device that ended it with an error.

    Raises
    ------
    DeviceError
        If it did.
    """
    if not device.read_bits("status", "error"):
        return
    code = device.read_register("error_code")
    address = device.read_register("error_addr_lo") | device.read_register("error_addr_hi") << 32
    done = device.read_register("passes_done")
    device.reset()
    text = ERRORS.get(code, "unknown error")
    raise DeviceError(f"{device.name}: error {code} at address {address:#x}: {text} (after "
                      f"{done} passes of the run, from position {position}); the device has been "
                      f"reset", code, address)

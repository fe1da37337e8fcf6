"""Opens the device a search or a verification runs on, by its name."""

from __future__ import annotations

from optiml_core.device.protocol import Device
from optiml_core.records import Failure
from optiml_core.toolchain import Toolchain


def open_device(name: str, toolchain: Toolchain) -> Device | Failure:
    """``emulator`` or ``cuda:N``. A device that is not there is a Failure that says what would bring it."""
    if name == "emulator":
        from optiml_core.device.emulator import EmulatorDevice

        return EmulatorDevice()
    if name.startswith("cuda:") and name[5:].isdigit():
        return Failure("no-device", f"no device {name} here", cure="use --device emulator")
    return Failure("bad-input", f"unknown device {name!r}", cure="use auto, emulator or cuda:N")

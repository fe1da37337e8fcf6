"""What this machine can do, joined from the rooms: the answer to `optiml doctor`."""

from __future__ import annotations

from optiml_core.device.emulator import emulator_capabilities
from optiml_core.toolchain import Capability, capabilities, discover


def all_capabilities() -> tuple[Capability, ...]:
    """Every capability with its cure, in the order in which a newcomer needs them."""
    return (*capabilities(discover()), *emulator_capabilities())

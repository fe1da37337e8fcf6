"""What this machine can do, joined from the rooms: the answer to `optiml doctor`."""

from __future__ import annotations

from optiml_core.device.emulator import emulator_capabilities
from optiml_core.language_models.configuration import model_capabilities
from optiml_core.records import Capability
from optiml_core.toolchain import discover
from optiml_core.toolchain.capabilities import capabilities


def all_capabilities() -> tuple[Capability, ...]:
    """Every capability with its cure, in the order in which a newcomer needs them."""
    return (*capabilities(discover()), *emulator_capabilities(), *model_capabilities())

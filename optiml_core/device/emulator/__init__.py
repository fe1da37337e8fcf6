"""Runs kernels on the CPU, sees every access, checks and counts. See docs/emulator.md."""

from optiml_core.device.emulator.device import EmulatorDevice
from optiml_core.device.emulator.sandbox import SandboxStatus
from optiml_core.device.emulator.sandbox_capabilities import emulator_capabilities

__all__ = ["EmulatorDevice", "SandboxStatus", "emulator_capabilities"]

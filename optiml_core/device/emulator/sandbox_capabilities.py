"""What the emulator can do on this machine, for `optiml doctor`: tried, not guessed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from optiml_core.device.emulator.build_command import run_compiler
from optiml_core.device.emulator.build_toolbox import Toolbox
from optiml_core.device.emulator.device import EmulatorDevice
from optiml_core.records import Capability, Failure


def emulator_capabilities(cache_folder: Path | None = None) -> tuple[Capability, ...]:
    """Three capabilities: running kernels at all, the sandbox of model-written edits, confined compiling.

    Builds the worker the first time (some seconds). ``cache_folder``: as of :class:`EmulatorDevice`.
    """
    with EmulatorDevice(cache_folder) as device:
        toolbox = device.toolbox()
        if isinstance(toolbox, Failure):
            return (Capability("emulator", False, toolbox.message, toolbox.cure),)
        detail = f"g++ {toolbox.version} ({toolbox.compiler})"
        if device.cache_note:
            detail += f"; {device.cache_note}"
        status = device.sandbox_status()
        if isinstance(status, Failure):
            return (Capability("emulator", False, status.message, status.cure),)
        return (
            Capability("emulator", True, detail),
            Capability("emulator sandbox", status.available, status.detail, status.cure),
            _confined_compiling(toolbox),
        )


def _confined_compiling(toolbox: Toolbox) -> Capability:
    """Has the launcher read a file that a compiler has no business with."""
    name = "confined compiling"
    with tempfile.TemporaryDirectory() as outside, tempfile.TemporaryDirectory() as folder:
        secret = Path(outside) / "secret"
        secret.write_text("x")
        read = run_compiler(["/bin/cat", str(secret)], Path(folder), confinement=toolbox.confinement)
    if isinstance(read, Failure) and read.kind == "compile-error":
        return Capability(name, True, "a compiler reads and writes only its own folder and the system's libraries")
    reason = read.message if isinstance(read, Failure) else "this system has no Landlock"
    cure = "Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK; compilers then run with limits only"
    return Capability(name, False, reason, cure)

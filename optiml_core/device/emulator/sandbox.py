"""Does the operating system's fence hold on this machine? Asked by trying it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from attrs import frozen


@frozen
class SandboxStatus:
    """``available``: a forbidden system call in a worker ends it. ``detail`` and ``cure`` are for people."""

    available: bool
    detail: str
    cure: str = ""


def probe_sandbox(worker: Path, folder: Path) -> SandboxStatus:
    """Has the worker fence itself in and make a forbidden call; the system must end it by SIGSYS."""
    try:
        code = subprocess.run(
            [str(worker), "--probe"], env={}, cwd=folder, timeout=10.0, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ).returncode  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return SandboxStatus(False, f"the emulator's worker could not be tried: {error}")
    if code == -signal.SIGSYS:
        return SandboxStatus(True, "seccomp filters and no_new_privs hold")
    cure = "Linux 4.14 or newer with CONFIG_SECCOMP_FILTER; in a container, a profile that allows the seccomp call"
    return SandboxStatus(False, f"seccomp filters cannot be installed here (the trial ended with status {code})", cure)

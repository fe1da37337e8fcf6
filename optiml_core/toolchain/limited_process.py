"""Commands run under limits: time, memory, output, an empty environment, and only the files that they need."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from optiml_core.records import Failure

_SCRIPT = Path(__file__).parent / "children" / "limited_command.py"
# What a dynamically linked program or a compiler needs of the system.
SYSTEM_FOLDERS = ("/usr", "/bin", "/lib", "/lib64", "/opt")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/proc/self", "/dev")


@frozen
class ProcessLimits:
    """``cpu_seconds`` a process, ``seconds`` by the clock; ``memory``, ``output`` and ``file_size`` in bytes."""

    cpu_seconds: float = 30.0
    seconds: float = 60.0
    memory: int = 8 << 30
    output: int = 1 << 20
    file_size: int = 256 << 20


@frozen
class ProcessResult:
    """``status``: the exit status (negative: the signal). ``output``: standard output and error together."""

    status: int
    output: str


def run_limited(
    command: Sequence[str],
    folder: str,
    *,
    read: Sequence[str] = (),
    execute: Sequence[str] = (),
    write: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limits: ProcessLimits = ProcessLimits(),
) -> ProcessResult | Failure:
    """Runs ``command`` (its first word an absolute path; never through a shell) in ``folder`` and waits.

    It may write only in ``folder`` and ``write``, and read only those, ``read``, ``execute`` and the system's programs
    and libraries, where the kernel has Landlock. Nothing it started outlives the call, or this process. Failure
    ``timeout``, ``crash`` (a signal, too much output) or ``missing-tool`` (it could not be started).
    """
    configuration = {
        "command": list(command),
        "environment": {"LC_ALL": "C", "TMPDIR": folder, "HOME": folder, **(environment or {})},
        "read": [folder, *read, *_SYSTEM_FILES],
        "write": [folder, *write, "/dev/null"],
        "execute": [*SYSTEM_FOLDERS, *execute],
        "confined": True,
        "cpu_seconds": limits.cpu_seconds,
        "seconds": limits.seconds,
        "memory": limits.memory,
        "output": limits.output,
        "file_size": limits.file_size,
    }
    program = Path(command[0]).name
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(configuration)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
        )
    except OSError as error:
        return Failure("missing-tool", f"{program} could not be started: {error}")
    with process:
        assert process.stdout is not None
        data = process.stdout.read()
    try:
        (length,) = struct.unpack_from("<I", data)
        answer = json.loads(data[4 : 4 + length])
        ended, status = str(answer["ended"]), int(answer["status"])
    except (struct.error, ValueError, KeyError, TypeError):
        return Failure("crash", f"{program} was started and gave no answer")
    output = data[4 + length :].decode("utf-8", "replace")
    if ended == "timeout":
        return Failure("timeout", f"{program} took longer than {limits.seconds:g} s and was stopped")
    if ended:
        return Failure("crash", f"{program} ended unexpectedly ({ended})")
    if status == 127 and not output:
        return Failure("missing-tool", f"{program} could not be started")
    return ProcessResult(status, output)

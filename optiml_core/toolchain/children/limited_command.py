"""Runs one command under limits and says how it ended. Started as ``python -I -S limited_command.py CONFIGURATION``.

It stays between the caller and the command: standard input is a pipe that closes when the caller dies, however it dies,
and then the command's whole process group is killed. Standard output gets the answer: a length (4 bytes,
little-endian), JSON, and the command's output. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optiml_core.toolchain.children.confinement import confine, limit
else:
    # Run as a script, without site-packages: the file beside this one is all there is.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from confinement import confine, limit


def main() -> None:
    configuration = json.loads(sys.argv[1])
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            _become(configuration, writing)
        finally:
            os._exit(127)
    os.close(writing)
    ended, output = _watch(configuration, process, reading)
    # The group, since a compiler driver has children of its own; they may all have ended already.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    _, status, used = os.wait4(process, 0)
    if not ended and os.WIFSIGNALED(status):
        spent = used.ru_utime + used.ru_stime
        ended = "timeout" if spent > 0.9 * configuration["cpu_seconds"] else f"signal {os.WTERMSIG(status)}"
    answer = json.dumps({"ended": ended, "status": os.waitstatus_to_exitcode(status)}).encode()
    data = struct.pack("<I", len(answer)) + answer + bytes(output)
    while data:
        data = data[os.write(1, data) :]


def _become(configuration: dict[str, Any], writing: int) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.closerange(3, 256)
    limit(configuration["cpu_seconds"], configuration["memory"], configuration["file_size"])
    if configuration["confined"]:
        confine(read=configuration["read"], write=configuration["write"], execute=configuration["execute"])
    os.execve(configuration["command"][0], configuration["command"], configuration["environment"])


def _watch(configuration: dict[str, Any], process: int, reading: int) -> tuple[str, bytearray]:
    """Collects output until the command closes it; ends early for time, size or a caller that is gone."""
    selector = selectors.DefaultSelector()
    selector.register(reading, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    deadline = time.monotonic() + configuration["seconds"]
    output = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout", output
        for key, _ in selector.select(left):
            data = os.read(key.fd, 1 << 16)
            if key.fd == 0:
                if not data:
                    os.killpg(process, signal.SIGKILL)
                    os._exit(1)
                continue
            if not data:
                return _wait(process, deadline), output
            output += data
            if len(output) > configuration["output"]:
                return "too much output", output[: configuration["output"]]


def _wait(process: int, deadline: float) -> str:
    """The output is closed; the process itself may go on. Waits without reaping it."""
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return ""
        time.sleep(0.002)
    return "timeout"


if __name__ == "__main__":
    main()

"""The compile server: loads NVRTC once and forks a limited child for each program.

Started by ``CompilePool`` as ``python -I -S compile_server.py CONFIGURATION`` with an empty environment in an empty
folder; standard input is a socket to the pool. A fork costs 3 ms and gives each program fresh memory, its own limits
and no way to touch the next one; loading the library costs 150 ms and is paid once. Standard library only.

A message is two lengths (header, body; 4 bytes each, little-endian), a JSON header and a body of bytes.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optiml_core.toolchain.children.confinement import confine, die_with_parent, limit
    from optiml_core.toolchain.children.nvrtc import LARGEST_CUBIN, LARGEST_LOG, LARGEST_PTX, OUT_OF_MEMORY, Nvrtc
else:
    # Run as a script, without site-packages: the files beside this one are all there is.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from confinement import confine, die_with_parent, limit
    from nvrtc import LARGEST_CUBIN, LARGEST_LOG, LARGEST_PTX, OUT_OF_MEMORY, Nvrtc

_LARGEST_ANSWER = LARGEST_CUBIN + 4 * LARGEST_LOG + 2 * LARGEST_PTX
_LARGEST_PCH = 1 << 30
_LARGEST_TEMPORARY = 16 << 20
_CREATE_PCH = "-create-pch="


class _Job:
    def __init__(self, number: int, process: int, pipe: int, seconds: float, cpu_seconds: float) -> None:
        self.number, self.process, self.pipe, self.cpu_seconds = number, process, pipe, cpu_seconds
        self.deadline = time.monotonic() + seconds
        self.answer = bytearray()


def main() -> None:
    configuration = json.loads(sys.argv[1])
    die_with_parent(configuration["parent"])
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    try:
        nvrtc = Nvrtc(configuration["nvrtc"], configuration["builtins"])
        # Compiling once sets up what every child then inherits, above all the memory of precompiled headers, which must
        # lie at the same address in the child that writes one and in those that read it.
        warm = [f"-arch={configuration['architecture']}", "-pch", f"-pch-dir={configuration['scratch']}"]
        result, log, _, _, _ = nvrtc.compile(b"__global__ void warm() {}", b"warm.cu", warm, [], [])
        started: dict[str, Any] = {"version": nvrtc.version(), "problem": log if result else ""}
    except (OSError, AttributeError) as error:
        started = {"version": "", "problem": str(error)}
    started["confined"] = confine(read=configuration["read"], write=[configuration["scratch"]])
    _send(control, started, b"")
    if not started["problem"]:
        _serve(control, nvrtc, configuration)


def _serve(control: socket.socket, nvrtc: Nvrtc, configuration: dict[str, Any]) -> None:
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ, None)
    jobs: dict[int, _Job] = {}
    received = bytearray()
    while True:
        wait = min((job.deadline for job in jobs.values()), default=None)
        events = selector.select(None if wait is None else max(0.0, wait - time.monotonic()))
        for key, _ in events:
            if key.data is None:
                data = control.recv(1 << 20)
                if not data:
                    _end(jobs)
                    return
                received += data
                while (request := _take(received)) is not None:
                    job = _start(control, nvrtc, configuration, request[0])
                    jobs[job.pipe] = job
                    selector.register(job.pipe, selectors.EVENT_READ, job)
                continue
            job = key.data
            data = os.read(job.pipe, 1 << 20)
            job.answer += data
            if not data or len(job.answer) > _LARGEST_ANSWER:
                selector.unregister(job.pipe)
                del jobs[job.pipe]
                _finish(control, configuration, job, "" if not data else "too much output")
        now = time.monotonic()
        for job in [job for job in jobs.values() if job.deadline <= now]:
            selector.unregister(job.pipe)
            del jobs[job.pipe]
            _finish(control, configuration, job, "timeout")


def _start(control: socket.socket, nvrtc: Nvrtc, configuration: dict[str, Any], request: dict[str, Any]) -> _Job:
    reading, writing = os.pipe()
    server = os.getpid()
    process = os.fork()
    if process == 0:
        try:
            die_with_parent(server)
            control.close()
            os.close(reading)
            _compile(nvrtc, configuration, request, writing)
        finally:
            os._exit(1)
    os.close(writing)
    return _Job(request["number"], process, reading, request["seconds"], request["cpu_seconds"])


def _own_folder(configuration: dict[str, Any], process: int) -> str:
    return os.path.join(configuration["scratch"], f"child-{process}")


def _compile(nvrtc: Nvrtc, configuration: dict[str, Any], request: dict[str, Any], writing: int) -> None:
    makes_header = any(option.startswith(_CREATE_PCH) for option in request["options"])
    own = _own_folder(configuration, os.getpid())
    os.mkdir(own, 0o700)
    # NVRTC opens a temporary file when it works with precompiled headers.
    os.putenv("TMPDIR", own)
    limit(request["cpu_seconds"], request["memory"], _LARGEST_PCH if makes_header else _LARGEST_TEMPORARY)
    # Only the child that precompiles NVIDIA's and our own headers may write beside: a candidate cannot touch what the
    # next one reads.
    if not makes_header:
        confine(read=[*configuration["read"], configuration["scratch"]], write=[own])
    began = time.monotonic()
    result, log, cubin, lowered, ptx = nvrtc.compile(
        request["source"].encode("utf-8", "surrogateescape"),
        request["name"].encode("utf-8", "surrogateescape"),
        request["options"],
        request["headers"],
        request["expressions"],
    )
    answer = {
        "result": result,
        "out_of_memory": result == OUT_OF_MEMORY,
        "log": log,
        "lowered": lowered,
        "ptx": ptx,
        "seconds": time.monotonic() - began,
    }
    text = json.dumps(answer).encode()
    data = struct.pack("<I", len(text)) + text + cubin
    while data:
        data = data[os.write(writing, data) :]
    os._exit(0)


def _finish(control: socket.socket, configuration: dict[str, Any], job: _Job, ended: str) -> None:
    os.close(job.pipe)
    if ended:
        os.kill(job.process, signal.SIGKILL)
    _, status, used = os.wait4(job.process, 0)
    shutil.rmtree(_own_folder(configuration, job.process), ignore_errors=True)
    if not ended and os.WIFSIGNALED(status):
        spent = used.ru_utime + used.ru_stime
        ended = "timeout" if spent > 0.9 * job.cpu_seconds else f"signal {os.WTERMSIG(status)}"
    elif not ended and os.WEXITSTATUS(status) != 0:
        ended = f"exit {os.WEXITSTATUS(status)}"
    _send(control, {"number": job.number, "ended": ended}, b"" if ended else bytes(job.answer))


def _end(jobs: dict[int, _Job]) -> None:
    for job in jobs.values():
        os.kill(job.process, signal.SIGKILL)
    for job in jobs.values():
        os.waitpid(job.process, 0)


def _send(control: socket.socket, header: dict[str, Any], body: bytes) -> None:
    text = json.dumps(header).encode()
    try:
        control.sendall(struct.pack("<II", len(text), len(body)) + text + body)
    except OSError:
        # The pool is gone: so is everybody who could want an answer. The kernel ends our children.
        os._exit(0)


def _take(received: bytearray) -> tuple[dict[str, Any], bytes] | None:
    if len(received) < 8:
        return None
    header, body = struct.unpack_from("<II", received)
    if len(received) < 8 + header + body:
        return None
    text = bytes(received[8 : 8 + header])
    data = bytes(received[8 + header : 8 + header + body])
    del received[: 8 + header + body]
    return json.loads(text), data


if __name__ == "__main__":
    main()

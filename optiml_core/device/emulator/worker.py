"""One worker process: started, given requests, watched, ended. It runs foreign code.

The worker (runtime/worker_main.cpp) loads one object from a sealed memory file and shares an arena
with this process. It is ended when it exceeds a limit, when a run fails in any way, and by the
kernel when this process ends (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource
import select
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from optiml_core.device.emulator import worker_wire as wire
from optiml_core.records import Failure

# Address space for the arena in a worker; only what the parent lets the file grow to can be touched.
_ARENA_CAPACITY = 64 << 30
# What the worker itself needs beside the shadows and stacks that RunOptions.memory limits.
_OWN_MEMORY = 256 << 20
# Wall-clock seconds allowed for each CPU second asked for, because other work may hold the cores.
_WALL_FACTOR = 6.0
_START_SECONDS = 20.0
_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW, _SEAL_WRITE = 1033, 1, 2, 4, 8


def sealed_file(name: str, data: bytes) -> int:
    """A memory file with ``data`` that nobody can change any more. The caller closes the descriptor."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    fcntl.fcntl(descriptor, _ADD_SEALS, _SEAL_SEAL | _SEAL_SHRINK | _SEAL_GROW | _SEAL_WRITE)
    return descriptor


class Arena:
    """Memory shared with one worker. It only grows: a shrinking file would end this process by SIGBUS."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("optiml-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEAL_SHRINK)
        self.size = 0
        self.bytes: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.grow(wire.PAYLOAD + (1 << 20))

    def grow(self, size: int) -> None:
        """Makes at least ``size`` bytes usable. Earlier views stay valid. Raises OSError when there is no memory."""
        if size <= self.size:
            return
        size = (size + (1 << 20) - 1) >> 20 << 20
        os.ftruncate(self.descriptor, size)
        self.size = size
        self._map = mmap.mmap(self.descriptor, size)
        self.bytes = np.frombuffer(self._map, np.uint8)

    def release_payload(self) -> None:
        """Gives the pages of the buffers back to the system; their contents become zero."""
        with contextlib.suppress(OSError):
            self._map.madvise(mmap.MADV_REMOVE, wire.PAYLOAD, self.size - wire.PAYLOAD)

    @property
    def view(self) -> memoryview:
        return memoryview(self._map)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _process_cpu_seconds(pid: int) -> float:
    """CPU time of a child that has not been waited for (clock_getcpuclockid's encoding of a process's clock)."""
    return time.clock_gettime((~pid << 3) | 2)


class Worker:
    """A started worker with its object loaded. Not shared between threads: the pool hands it to one at a time."""

    def __init__(
        self, process: subprocess.Popen[bytes], arena: Arena, request_fd: int, reply_fd: int, memory: int
    ) -> None:
        self.process = process
        self.arena = arena
        self.memory = memory
        self.runs = 0
        self.module_base = 0
        self._request_fd = request_fd
        self._reply_fd = reply_fd
        self._limited_at = -1.0

    def run(self, request: wire.Request, seconds: float) -> wire.Reply | Failure:
        """Sends ``request`` (buffers lie in the arena) and waits at most ``seconds`` of the worker's CPU time."""
        problem = wire.write_request(self.arena.view, request)
        if problem is not None:
            return problem
        wire.clear_reply(self.arena.view)
        self.runs += 1
        try:
            os.write(self._request_fd, b"r")
        except OSError:
            return self._ended()
        reply = self._await(seconds)
        if isinstance(reply, wire.Reply) and reply.state == wire.RAN and reply.sequence != request.sequence:
            return Failure("crash", "the emulator's worker answered another request")
        return reply

    def await_ready(self) -> Failure | None:
        """Waits until the object is loaded and the fence is closed."""
        reply = self._await(_START_SECONDS)
        if isinstance(reply, Failure):
            return reply
        if reply.state != wire.READY:
            return Failure("crash", "the emulator's worker did not become ready")
        self.module_base = reply.module_base
        return None

    def _await(self, seconds: float) -> wire.Reply | Failure:
        start = time.monotonic()
        cpu_start = _process_cpu_seconds(self.process.pid)
        # A second limit by the system, for the case that this process is stopped: whole seconds of CPU time.
        limit = int(cpu_start + seconds) + 3
        if limit != self._limited_at:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                resource.prlimit(self.process.pid, resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            self._limited_at = limit
        poll = select.poll()
        poll.register(self._reply_fd, select.POLLIN)
        while True:
            elapsed = time.monotonic() - start
            used = _process_cpu_seconds(self.process.pid) - cpu_start
            if used >= seconds or elapsed >= seconds * _WALL_FACTOR:
                what = "of CPU time" if used >= seconds else "of waiting"
                return Failure("timeout", f"the kernel did not end within {seconds:g} s {what} in the emulator")
            wait = min(seconds - used, seconds * _WALL_FACTOR - elapsed)
            if poll.poll(max(1.0, wait * 1000)):
                break
        if not os.read(self._reply_fd, 1):
            return self._ended()
        reply = wire.read_reply(self.arena.view)
        return reply if isinstance(reply, Failure) else _checked(reply)

    def _ended(self) -> Failure:
        """Why the process is gone."""
        try:
            code = self.process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            return Failure("crash", "the emulator's worker closed its pipe")
        if code == -signal.SIGSYS:
            return Failure("refused", "the kernel tried to make a system call; the sandbox ended it")
        if code == -signal.SIGXCPU:
            return Failure("timeout", "the kernel used up its CPU time in the emulator")
        if code < 0:
            return Failure("crash", f"the emulator's worker was ended by {signal.Signals(-code).name}")
        return Failure("crash", f"the emulator's worker ended with status {code}")

    def close(self) -> None:
        """Ends the process and frees the arena. Safe to call twice."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.arena.close()
        for name in ("_request_fd", "_reply_fd"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)


def _checked(reply: wire.Reply) -> wire.Reply | Failure:
    text = reply.text.decode("utf-8", "replace")
    if reply.state == wire.NOT_LOADED:
        return Failure("refused", f"the compiled kernel could not be loaded: {text}")
    if reply.state == wire.NO_SANDBOX:
        return Failure("sandbox-missing", f"this system refused the sandbox: {text}")
    if reply.state == wire.BAD_REQUEST:
        return Failure("unsupported", f"the emulator could not lay out the launch: {text}")
    return reply


def start_worker(
    spawner: ThreadPoolExecutor,
    executable: Path,
    folder: Path,
    object_data: bytes,
    *,
    fenced: bool,
    memory: int,
    start: wire.Request | None = None,
    tile: int = -1,
) -> Worker | Failure:
    """Starts ``executable`` in the empty ``folder`` and has it load ``object_data``.

    ``spawner`` must be one long-lived thread: a worker dies with the thread that started it.
    ``memory`` limits its private memory in bytes. ``start`` says what is settled before the object runs: where
    its functions start, and address space to reserve from the file behind the descriptor ``tile``.
    """
    arena = Arena()
    if start is not None:
        problem = wire.write_request(arena.view, start)
        if problem is not None:
            arena.close()
            return problem
    object_fd = sealed_file("optiml-candidate", object_data)
    request_read, request_write = os.pipe2(os.O_CLOEXEC)
    reply_read, reply_write = os.pipe2(os.O_CLOEXEC)
    passed = [object_fd, arena.descriptor, request_read, reply_write] + ([tile] if tile >= 0 else [])
    arguments = [object_fd, arena.descriptor, tile, request_read, reply_write, _ARENA_CAPACITY, memory + _OWN_MEMORY]

    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(executable), *map(str, arguments), str(os.getpid()), "1" if fenced else "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={}, cwd=folder, pass_fds=passed, close_fds=True,
        )  # fmt: skip

    try:
        process = spawner.submit(spawn).result()
    except OSError as error:
        for descriptor in (request_write, reply_read):
            os.close(descriptor)
        arena.close()
        return Failure("missing-tool", f"the emulator's worker could not be started: {error}")
    finally:
        for descriptor in (object_fd, request_read, reply_write):
            os.close(descriptor)
    worker = Worker(process, arena, request_write, reply_read, memory)
    problem = worker.await_ready()
    if problem is not None:
        worker.close()
        return problem
    return worker

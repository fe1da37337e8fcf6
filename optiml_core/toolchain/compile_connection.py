"""The socket to one compile server process: starting it, sending programs, handing answers to those who wait."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from attrs import frozen

from optiml_core.records import Failure
from optiml_core.toolchain.scratch import make_scratch, remove_abandoned, remove_scratch

_SERVER = Path(__file__).parent / "children" / "compile_server.py"
_LARGEST_MESSAGE = 256 << 20
_START_SECONDS = 60.0
_SCRATCH = "optiml-compile-"


@frozen
class Answer:
    """What a child answered: NVRTC's result code and log, machine code, lowered names, seconds it took, PTX."""

    result: int
    log: str
    cubin: bytes
    lowered: tuple[str, ...]
    seconds: float
    ptx: str = ""


class CompileConnection:
    """One compile server. Made by ``connect``; dead once ``ended`` is set, and then to be replaced."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, scratch: str, lock: int) -> None:
        """``lock``: the descriptor that ``make_scratch`` gave for the folder ``scratch``."""
        self._process = process
        self._control = control
        self.scratch = scratch
        self._scratch_lock: int | None = lock
        self._owner = os.getpid()
        # A process that ends without closing its pool still tidies up.
        atexit.register(self.close)
        self.version = ""
        self.confined = False
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._tidying = threading.Lock()
        self._waiting: dict[int, Future[Answer | Failure]] = {}
        self._number = 0

    def submit(self, request: Mapping[str, Any]) -> Future[Answer | Failure]:
        """Sends a program to be compiled. The future never raises: a dead server is a Failure ``crash``."""
        future: Future[Answer | Failure] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = future
            try:
                _send(self._control, {**request, "number": number})
            except OSError:
                self._waiting.pop(number, None)
                future.set_result(_SERVER_DIED)
        if self.ended.is_set():
            self._fail_all()
        return future

    def close(self) -> None:
        """Ends the server and its children, and removes their folder. Safe to call twice and after a fork."""
        if self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # It may be closed already.
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._tidy()

    def serve(self) -> None:
        """Receives answers until the server ends. Runs in the thread that started the server."""
        try:
            while (message := _receive(self._control)) is not None:
                header, body = message
                with self._lock:
                    future = self._waiting.pop(int(header["number"]), None)
                if future is not None:
                    future.set_result(_answer(str(header["ended"]), body))
        except (OSError, ValueError, KeyError, TypeError):
            pass  # A broken message means a broken server: it is ended below, and every waiter told.
        finally:
            self._control.close()
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            self._tidy()

    def _tidy(self) -> None:
        self.ended.set()
        self._fail_all()
        # The lock is held until the folder is gone: this process ends when ``close`` returns, and would stop the thread
        # that serves in the middle of removing it.
        with self._tidying:
            lock, self._scratch_lock = self._scratch_lock, None
            if lock is not None:
                remove_scratch(self.scratch, lock)
                atexit.unregister(self.close)

    def _fail_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_result(_SERVER_DIED)


def connect(nvrtc: str, builtins: str | None, read: Sequence[str]) -> CompileConnection | Failure:
    """Starts a compile server and a thread that serves it.

    ``read``: folders of headers and libraries, the only places its children can read. Failure ``missing-tool`` if the
    library cannot be loaded, ``crash`` if the process does not come up.
    """
    started: Future[CompileConnection | Failure] = Future()
    # The kernel ends the server with the *thread* that started it (PR_SET_PDEATHSIG): this thread lives as long.
    threading.Thread(target=_run, args=(nvrtc, builtins, read, started), name="compile server", daemon=True).start()
    return started.result()


def _run(nvrtc: str, builtins: str | None, read: Sequence[str], started: Future[CompileConnection | Failure]) -> None:
    remove_abandoned(_SCRATCH)
    scratch, lock = make_scratch(_SCRATCH)
    connection: CompileConnection | None = None
    ours, theirs = socket.socketpair()
    try:
        configuration = {
            "parent": os.getpid(),
            "nvrtc": nvrtc,
            "builtins": builtins,
            "read": [*read, os.path.dirname(os.path.realpath(nvrtc))],
            "scratch": scratch,
            "architecture": "sm_75",
        }
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SERVER), json.dumps(configuration)],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            # Nothing of ours but where NVRTC may put what it precompiles.
            env={"TMPDIR": scratch},
            close_fds=True,
        )
        theirs.close()
        connection = CompileConnection(process, ours, scratch, lock)
        ours.settimeout(_START_SECONDS)
        first = _receive(ours)
        ours.settimeout(None)
    except (OSError, ValueError) as error:
        started.set_result(Failure("crash", f"the compile server did not start: {error}"))
        ours.close()
        if connection is None:
            remove_scratch(scratch, lock)
        else:
            connection.serve()
        return
    if first is None or first[0].get("problem"):
        why = str(first[0]["problem"]) if first is not None else "it ended at once"
        connection.serve()
        started.set_result(
            Failure("missing-tool", f"NVRTC ({nvrtc}) cannot be used: {why}", cure="pip install 'optiml[cuda]'")
        )
        return
    connection.version = str(first[0].get("version", ""))
    connection.confined = first[0].get("confined") is True
    started.set_result(connection)
    connection.serve()


_SERVER_DIED = Failure("crash", "the compile server ended unexpectedly")


def _answer(ended: str, body: bytes) -> Answer | Failure:
    """Reads what a child wrote. It may be anything, since the child read a candidate's text."""
    if ended == "timeout":
        return Failure("timeout", "compiling took too long and was stopped")
    if ended in ("signal 6", "signal 9", "exit 1"):
        return Failure("out-of-memory", f"the compiler ran out of memory ({ended})")
    if ended:
        return Failure("crash", f"the compiler crashed ({ended})")
    try:
        (length,) = struct.unpack_from("<I", body)
        text, cubin = body[4 : 4 + length], body[4 + length :]
        answer = json.loads(text)
        if answer["out_of_memory"]:
            return Failure("out-of-memory", "the compiler ran out of memory")
        lowered = tuple(str(name) for name in answer["lowered"])
        return Answer(
            int(answer["result"]), str(answer["log"]), cubin, lowered, float(answer["seconds"]), str(answer["ptx"])
        )
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        return Failure("crash", "the compiler's answer makes no sense")


def _send(control: socket.socket, header: Mapping[str, Any]) -> None:
    text = json.dumps(header).encode()
    control.sendall(struct.pack("<II", len(text), 0) + text)


def _receive(control: socket.socket) -> tuple[dict[str, Any], bytes] | None:
    lengths = _exactly(control, 8)
    if lengths is None:
        return None
    header, body = struct.unpack("<II", lengths)
    if header + body > _LARGEST_MESSAGE:
        raise ValueError("a message is too large")
    data = _exactly(control, header + body)
    return None if data is None else (json.loads(data[:header]), data[header:])


def _exactly(control: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = control.recv(min(1 << 20, count - len(data)))
        if not piece:
            return None
        data += piece
    return bytes(data)

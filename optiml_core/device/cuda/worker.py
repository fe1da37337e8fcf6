"""The worker process of one GPU: answers requests over a pipe until the pipe closes or the context is lost.

No host code of a candidate exists here; it holds compiled device code, buffers and events, nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection

from attrs import frozen

from optiml_core.device.cuda.requests import Answer, KernelImage, RunRequest, TimeRequest
from optiml_core.records import Failure


@frozen
class Load:
    image: KernelImage


@frozen
class Unload:
    token: str


@frozen
class EndSession:
    session: str


@frozen
class AskState:
    pass


Request = Load | Unload | EndSession | AskState | RunRequest | TimeRequest


def serve(connection: Connection, index: int, parent: int) -> None:
    """Runs until told to end. The first message sent says whether the GPU could be opened."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            return
    try:
        from optiml_core.device.cuda.driver import Gpu

        gpu = Gpu(index)
    except ImportError as error:
        connection.send(import_failure(error))
        return
    except Exception as error:  # noqa: BLE001 - the driver raises its own types, which exist only once it is loaded
        connection.send(Failure("no-device", f"the GPU could not be opened: {error}", cure="see `optiml doctor`"))
        return
    connection.send(gpu.state())
    while True:
        try:
            request: Request | None = connection.recv()
        except (EOFError, OSError):
            request = None
        if request is None:
            with contextlib.suppress(Exception):  # leaving anyway; what cannot be freed ends with the process
                gpu.close()
            return
        answer: Answer
        try:
            answer = _answer(gpu, request)
        except Exception as error:  # noqa: BLE001 - whatever happens in here, the parent gets a value and a new worker
            answer = Failure("sticky-error", f"the GPU worker failed: {type(error).__name__}: {error}")
        connection.send(answer)
        if isinstance(answer, Failure) and answer.kind == "sticky-error":
            os._exit(1)  # The context is lost: leaving by the driver's own clean-up could hang.


def _answer(gpu: object, request: Request) -> Answer:
    from optiml_core.device.cuda.driver import Gpu

    assert isinstance(gpu, Gpu)
    if isinstance(request, Load):
        return gpu.load(request.image)
    if isinstance(request, Unload):
        gpu.unload(request.token)
        return None
    if isinstance(request, EndSession):
        gpu.end_session(request.session)
        return None
    if isinstance(request, AskState):
        return gpu.state()
    if isinstance(request, RunRequest):
        return gpu.run(request)
    return gpu.time(request)


def import_failure(error: ImportError) -> Failure:
    """Why PyCUDA could not be imported, with the cure."""
    text = str(error)
    if "libcuda" in text:
        return Failure("no-device", "no NVIDIA driver: libcuda.so.1 was not found", cure="install NVIDIA's driver")
    return Failure("missing-package", f"PyCUDA is not installed: {text}", cure="run `optiml setup-gpu`")

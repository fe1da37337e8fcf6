"""The parent's end of a GPU worker: starts it, asks it with a time limit, replaces it when it is lost."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from optiml_core.device.cuda.requests import Answer, GpuState, KernelImage
from optiml_core.device.cuda.worker import Load, Request, serve
from optiml_core.records import Failure

START_SECONDS = 30.0


class WorkerConnection:
    """One worker process on GPU ``index``. After a hang or a sticky error the next request starts a new one."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._loaded: set[str] = set()
        self.state: GpuState | None = None
        self.restarts = 0

    def start(self) -> Failure | None:
        """Starts the worker if none runs; None once it has opened its GPU."""
        if self._process is not None and self._process.is_alive():
            return None
        self.stop()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self._index, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        self._process, self._pipe, self._loaded = process, ours, set()
        first = self._receive(START_SECONDS, "opening the GPU")
        if isinstance(first, GpuState):
            self.state = first
            return None
        self.stop()
        return first if isinstance(first, Failure) else Failure("no-device", "the GPU worker did not start")

    def ask(self, request: Request, seconds: float, image: KernelImage | None = None) -> Answer:
        """The answer to ``request``; a worker that does not answer within ``seconds`` is killed.

        ``image`` is loaded first if this worker does not have it yet.
        """
        failure = self.start()
        if failure is not None:
            return failure
        if image is not None and image.token not in self._loaded:
            answer = self._exchange(Load(image), seconds)
            if isinstance(answer, Failure):
                return answer
            self._loaded.add(image.token)
        return self._exchange(request, seconds)

    def _exchange(self, request: Request, seconds: float) -> Answer:
        assert self._pipe is not None
        try:
            self._pipe.send(request)
        except (OSError, ValueError) as error:
            self._lost()
            return Failure("crash", f"the GPU worker is gone: {error}")
        answer = self._receive(seconds, "running on the GPU")
        if isinstance(answer, Failure) and answer.kind in ("timeout", "crash", "sticky-error"):
            self._lost()
        return answer

    def _receive(self, seconds: float, during: str) -> Answer:
        assert self._pipe is not None
        try:
            if not self._pipe.poll(seconds):
                return Failure("timeout", f"{during} took more than {seconds:g} s and was ended")
            answer: Answer = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            return Failure("crash", f"the GPU worker died while {during}")

    def _lost(self) -> None:
        self.restarts += 1
        self.stop()

    def stop(self) -> None:
        """Ends the worker, killing it if it does not end by itself. Safe to call twice."""
        pipe, process = self._pipe, self._process
        self._pipe = self._process = None
        self._loaded = set()
        if pipe is not None:
            # A worker that is gone already is what was wanted.
            with contextlib.suppress(OSError, ValueError):
                pipe.send(None)
            pipe.close()
        if process is not None:
            process.join(0.5)
            if process.is_alive():
                process.kill()
                process.join(5.0)

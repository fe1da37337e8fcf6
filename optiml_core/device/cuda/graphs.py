"""CUDA graphs through the driver's C interface: many launches in one submission.

A launch from Python costs some microseconds, more than a small kernel runs; a graph of N launches costs the GPU
less than one each (NVIDIA, "CUDA Graphs"). PyCUDA's current context and stream are used as they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import Any

CAPTURE_MODE_THREAD_LOCAL = 1


class GraphError(RuntimeError):
    """The driver refused to capture or to launch a graph."""


class LaunchGraph:
    """A captured sequence of launches on ``stream`` (PyCUDA's)."""

    def __init__(self, stream: Any) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._stream = ctypes.c_void_p(stream.handle)
        self._graph = ctypes.c_void_p()
        self._executable = ctypes.c_void_p()

    def capture(self, launch: Callable[[], None], repetitions: int) -> None:
        """Records ``repetitions`` calls of ``launch`` without running them."""
        self._call("cuStreamBeginCapture_v2", self._stream, CAPTURE_MODE_THREAD_LOCAL)
        try:
            for _ in range(repetitions):
                launch()
        finally:
            self._call("cuStreamEndCapture", self._stream, ctypes.byref(self._graph))
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(self._executable), self._graph, ctypes.c_ulonglong(0))

    def launch(self) -> None:
        """Submits the whole sequence once."""
        self._call("cuGraphLaunch", self._executable, self._stream)

    def __enter__(self) -> LaunchGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executable:
            self._cuda.cuGraphExecDestroy(self._executable)
        if self._graph:
            self._cuda.cuGraphDestroy(self._graph)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status != 0:
            raise GraphError(f"{name} returned {status}")

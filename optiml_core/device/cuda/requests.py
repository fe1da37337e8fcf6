"""What the parent asks of the worker, and what comes back: plain data over a pipe."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from optiml_core.records import Failure


@frozen
class KernelImage:
    """A compiled kernel: ``image`` is a cubin or PTX text, ``symbol`` the kernel's mangled name.

    ``symbols`` maps the names of the file's ``__constant__`` and ``__device__`` globals to their mangled ones.
    """

    token: str
    image: bytes
    symbol: str
    symbols: Mapping[str, str] = field(factory=dict)


@frozen
class BufferBytes:
    """One pointer argument: its bytes and how its address must lie.

    ``shift`` moves the base address by that many bytes; ``alias_of`` names the buffer whose memory it shares.
    ``restore``: whether its contents must be put back before every timed launch.
    """

    name: str
    data: npt.NDArray[np.uint8]
    shift: int = 0
    alias_of: str = ""


@frozen
class ParameterBytes:
    """One kernel parameter in order: the name of a buffer, or the bytes of a value with its alignment."""

    buffer: str = ""
    value: bytes = b""
    alignment: int = 8


@frozen
class LaunchNumbers:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


@frozen
class RunRequest:
    """Run once: poison, launch, synchronise, copy back, look at the guard zones."""

    token: str
    launch: LaunchNumbers
    parameters: tuple[ParameterBytes, ...]
    buffers: tuple[BufferBytes, ...]
    globals: Mapping[str, bytes]
    guard: int
    poison: int


@frozen
class TimeRequest:
    """Time ``repetitions`` launches over buffers that stay on the GPU between requests of one ``session``."""

    token: str
    launch: LaunchNumbers
    parameters: tuple[ParameterBytes, ...]
    buffers: tuple[BufferBytes, ...]  # empty when the session's buffers are already there
    globals: Mapping[str, bytes]
    session: str
    repetitions: int
    flush: bool


@frozen
class RunAnswer:
    """Contents after the launch, by buffer name; ``seconds`` by CUDA events, ``wall`` by the worker's clock."""

    buffers: Mapping[str, npt.NDArray[np.uint8]]
    guards_intact: bool
    seconds: float
    wall: float
    globals: Mapping[str, bytes] = field(factory=dict)


@frozen
class TimeAnswer:
    """Mean seconds a launch by CUDA events; ``wall`` seconds of the whole request by the worker's clock."""

    seconds: float
    wall: float
    clock_mhz: int | None
    throttled: tuple[str, ...]
    restored: bool


@frozen
class GpuState:
    """What the worker sees of its GPU: for predictions, for doctor and for the record of a measurement."""

    name: str
    uuid: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    l2_bytes: int
    driver: str


Answer = RunAnswer | TimeAnswer | GpuState | Failure | None

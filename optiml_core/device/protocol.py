"""One protocol for whatever runs a variant: the emulator, a GPU, a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from optiml_core.records import AccessCounts, Check, Failure, Launch, ResourceUsage, Variant

Array = npt.NDArray[np.generic]

FaultKind = Literal[
    "out-of-bounds",
    "race",
    "same-place-store",  # lanes of one warp, by one instruction: one of them stays, which one is not defined
    "divergent-barrier",
    "deadlock",
    "uninitialised-read",
    "misaligned",
    "bad-warp-mask",
    "inactive-shuffle-source",
    "step-limit",
    "missing-wait",
    "undefined-number",  # a cast from floating point or a shift out of range
    "assertion",
    "launch-limit",
    "sticky-error",
]


@frozen
class Fault:
    """Something a run did wrong, at a source line, with the first thread that did it.

    ``note`` is a sentence for people. ``key`` identifies the same fault across runs of one source.
    """

    kind: FaultKind
    line: int | None
    note: str
    count: int = 1
    other_line: int | None = None
    buffer: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    both_write: bool = False  # a race of two plain writes


@frozen
class Contents:
    """The bytes behind one launch's pointer arguments, in the order of the parameters.

    ``buffers`` maps a parameter's (or global's) name to an array of its elements: shape ``(length,)``
    or ``(length, lanes)`` for vector types, structured for structs. Devices copy; they never
    write into these arrays.
    ``offset_elements`` shifts each base address by that many elements (alignment is not a given).
    ``aliases`` maps a parameter name to another whose memory it shares (in = out).
    ``shifted``: the one buffer that ``offset_elements`` shifts; empty for all of them.
    """

    buffers: Mapping[str, Array]
    offset_elements: int = 0
    aliases: Mapping[str, str] = field(factory=dict)
    shifted: str = ""

    def offset_of(self, name: str) -> int:
        """By how many elements the base address of a buffer is shifted."""
        return self.offset_elements if self.shifted in ("", name) else 0


@frozen
class RunOptions:
    """What one run watches and how much it may cost.

    ``checks``: bounds, races, barriers, initialisation. ``counts``: per-line requests and sectors.
    ``schedule``: seed for the order of blocks and of warps; 0 is the natural order.
    ``poison``: the byte that fills guard zones and shared memory.
    ``guard``: bytes of guard zone on both sides of each buffer.
    ``seconds``, ``steps`` (accesses) and ``memory`` (bytes) limit the run.
    ``blocks``: linear block numbers to run (None: all), ``warp_stride``: of each only every so many-th warp
    (at most 255); both for sampled counting only.
    """

    checks: bool = True
    counts: bool = False
    schedule: int = 0
    poison: int = 0xFF
    guard: int = 256
    seconds: float = 10.0
    steps: int = 2_000_000_000
    memory: int = 4 << 30
    blocks: tuple[int, ...] | None = None
    warp_stride: int = 1


@frozen
class RunResult:
    """What one launch left behind.

    ``buffers``: the contents afterwards, same names and shapes. ``faults``: what the checkers saw.
    ``guards_intact``: no byte of any guard zone changed. ``accesses``: per-line counts, if asked for.
    ``metrics``: further counts (``instructions_estimate``, ``barriers``, ``divergent_branches``,
    ``warp_steps``, ``threads``). ``seconds``: the device's own time of the launch; on the emulator
    this is CPU time and says nothing about a GPU.
    """

    buffers: Mapping[str, Array]
    faults: tuple[Fault, ...]
    guards_intact: bool
    accesses: tuple[AccessCounts, ...] = ()
    metrics: Mapping[str, float] = field(factory=dict)
    seconds: float = 0.0
    output: str = ""  # what the kernel printed


@frozen
class Built:
    """A variant compiled for one device. ``token`` is the device's own handle."""

    token: str
    variant: Variant
    resources: ResourceUsage | None = None
    widened: bool = False
    log: str = ""


class Device(Protocol):
    """Builds and runs variants. Failures come back as values; neither call raises for bad code."""

    @property
    def name(self) -> str:
        """``emulator``, ``cuda:0`` or ``recorded``."""
        ...

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        """Compiles the variant's kernel for this device; results are cached by content.

        ``widened`` asks for the shadow: float becomes double, double becomes long double, half and
        bfloat16 become float64; buffers passed to ``run`` and returned then have the wider dtypes.
        A device that cannot, returns Failure(kind="unsupported").
        """
        ...

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions = RunOptions()
    ) -> RunResult | Failure:
        """Runs one launch. Time-outs, crashes and refusals are Failures; the device stays usable."""
        ...

    def close(self) -> None:
        """Ends the worker processes. Safe to call twice."""
        ...


@runtime_checkable
class MeasuringDevice(Device, Protocol):
    """A device with a clock, counters and checkers of its own: a GPU, or the record of one."""

    def target(self) -> str | Failure:
        """The GPU's name for people; a record's says that it is one."""
        ...

    def time_launches(
        self, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        """Mean seconds of a launch; see ``measurement.TimingDevice``."""
        ...

    def clock(self) -> float:
        """Seconds of the clock by which timings are checked: they cannot take longer than passes on it."""
        ...

    def conditions(self) -> tuple[str, ...]:
        """What the timings since the last call ran under, for people: clocks, and what held them down."""
        ...

    def exclusive(self) -> AbstractContextManager[Failure | None]:
        """Holds the device against other processes of ours; yields a Failure where that cannot be."""
        ...

    def sanitize(self, built: Built, launch: Launch, contents: Contents, checker: str) -> Check:
        """One of compute-sanitizer's checkers on one launch; only an explicit clean summary passes."""
        ...

    def write_ncu_report(self, built: Built, launch: Launch, contents: Contents, report: Path) -> str | Failure:
        """Counts one launch with Nsight Compute into ``report``; the mangled name of the kernel that it is of."""
        ...

"""Runs kernels of the tests through the emulator's runtime in this process: no worker, no sandbox.

The product runs candidates in a worker process; the kernels here are the tests' own.
"""

from __future__ import annotations

import ctypes as C
import functools
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from optiml_core.device.emulator import compile_plan as plan
from optiml_core.device.emulator.build import CANDIDATE, Builder, KernelName, kernel_name
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_lines import LineTable
from optiml_core.device.emulator.build_slice import EmulatorSource
from optiml_core.device.emulator.build_symbols import function_starts, variables_of
from optiml_core.device.emulator.prepare import prepare_body
from optiml_core.device.emulator.reading import REPORT, SITE, STATISTICS, TRAFFIC, WHAT
from optiml_core.device.emulator.widening import widen_arguments
from optiml_core.records import Failure

STATUS = ("done", "refused", "stopped", "no-memory")


_RUNTIME: list[C.CDLL] = []
_INITIAL: dict[Path, list[bytes]] = {}


def cache_folder() -> Path:
    """Objects outlive one test run; they are keyed by everything that they depend on."""
    folder = Path(tempfile.gettempdir()) / f"optiml-test-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@functools.cache
def builder() -> Builder:
    return Builder(BuildCache(cache_folder() / "builds"))


def runtime() -> C.CDLL:
    """The runtime as a shared library, its control functions visible."""
    if not _RUNTIME:
        folder = plan.RUNTIME_DIRECTORY
        sources = [plan.RUNTIME_SOURCE, folder / "indirect_calls.cpp"]
        digest = hashlib.sha256(repr(plan.RUNTIME_FLAGS).encode())
        for path in sorted([*folder.iterdir(), *plan.SHIM_DIRECTORY.iterdir()]):
            digest.update(path.read_bytes())
        target = cache_folder() / f"runtime-{digest.hexdigest()[:16]}.so"
        if not target.exists():
            part = target.with_suffix(f".{os.getpid()}")
            flags = [*plan.RUNTIME_FLAGS, "-fPIC", "-shared", "-DOPTIML_HIDDEN=", f"-I{folder}"]
            subprocess.run(["g++", *flags, *map(str, sources), "-lm", "-o", str(part)], check=True)
            part.rename(target)
        library = C.CDLL(str(target), mode=C.RTLD_GLOBAL)
        for name in ("sites", "reports", "traffic", "output"):
            getattr(library, f"optiml_emulator_{name}").restype = C.c_uint64
        _RUNTIME.append(library)
    return _RUNTIME[0]


class Options(C.Structure):
    _fields_ = [
        ("lockstep", C.c_uint8),
        ("races", C.c_uint8),
        ("initialisation", C.c_uint8),
        ("poison", C.c_uint8),
        ("traffic", C.c_uint8),
        ("warp_stride", C.c_uint8),
        ("reserved", C.c_uint8 * 2),
        ("schedule", C.c_uint64),
        ("steps", C.c_uint64),
        ("output_limit", C.c_uint64),
        ("shared_limit", C.c_uint64),
        ("memory_limit", C.c_uint64),
        ("blocks", C.c_void_p),
        ("block_count", C.c_uint64),
    ]


class RangeStruct(C.Structure):
    _fields_ = [
        ("address", C.c_size_t),
        ("bytes", C.c_uint64),
        ("buffer", C.c_int32),
        ("space", C.c_uint8),
        ("flags", C.c_uint8),
        ("reserved", C.c_uint16),
        ("fill", C.c_void_p),
        ("fill_context", C.c_void_p),
    ]


@frozen
class Seen:
    """One report, with lines instead of addresses."""

    what: str
    line: int | None
    other_line: int | None
    count: int
    record: Any = field(repr=False)


@frozen
class Outcome:
    status: str
    seconds: float
    faults: tuple[Seen, ...]
    sites: Any
    lines: dict[int, int | None]
    statistics: Any
    traffic: Any
    output: str

    def kinds(self) -> set[str]:
        return {f.what for f in self.faults}

    def at(self, line: int, kind: int | None = None) -> Any:
        """Counts summed over the sites of a line."""
        rows = [s for s in self.sites if self.lines.get(int(s["pc"])) == line and kind in (None, s["kind"])]
        return {n: sum(int(r[n]) for r in rows) for n in SITE.names[6:18]}


def aligned(array: np.ndarray[Any, Any], offset: int = 0) -> np.ndarray[Any, Any]:
    raw = np.empty(array.nbytes + 1024, np.uint8)
    start = -raw.ctypes.data % 256 + 256 + offset
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


class BuiltKernel:
    """A kernel of ``source``, built as the product builds candidates, and loaded into this process."""

    def __init__(self, source: str, kernel: str, template_arguments: Sequence[str] = (), widened: bool = False) -> None:
        start = time.perf_counter()
        text = prepare_body(source, widened)
        name = kernel_name(kernel, widen_arguments(template_arguments) if widened else template_arguments)
        assert isinstance(name, KernelName)
        compiled = text if isinstance(text, Failure) else builder().compile(EmulatorSource(text), name, (), widened)
        if isinstance(compiled, Failure):
            raise NotBuiltError(compiled)
        self.build_seconds = time.perf_counter() - start
        self.path = compiled.path
        runtime()
        self.library = C.CDLL(str(self.path))
        self.entry = C.cast(getattr(self.library, plan.ENTRY_SYMBOL), C.c_void_p).value or 0
        self.base = self.entry - next(s.value for s in compiled.elf.symbols if s.name == plan.ENTRY_SYMBOL)
        self.variables = variables_of(compiled.elf)
        toolbox = builder().toolbox()
        assert not isinstance(toolbox, Failure), toolbox
        self.table = LineTable(self.path, CANDIDATE, cache_folder(), toolbox.confinement)
        self.starts = np.ascontiguousarray(function_starts(compiled.elf), np.uint32)
        # An object is loaded once per process: what its variables held at first, for every later launch.
        if self.path not in _INITIAL:
            _INITIAL[self.path] = [C.string_at(self.base + v.offset, v.size) for v in self.variables]
        self.initial = _INITIAL[self.path]

    def launch(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Any,
        shared: int = 0,
        uninitialised: Sequence[int] = (),
        offset: int = 0,
        **options: Any,
    ) -> Outcome:
        """Arrays are buffers (changed in place), ctypes values are scalars."""
        emulator = runtime()
        emulator.optiml_emulator_reset()
        allow = emulator._Z18optiml_allow_callsmPKjm
        allow(C.c_size_t(self.base), C.c_void_p(self.starts.ctypes.data), C.c_uint64(len(self.starts)))
        for number, (variable, contents) in enumerate(zip(self.variables, self.initial, strict=True), 100):
            address = self.base + variable.offset
            if variable.writable:
                C.memmove(address, contents, variable.size)
            space = 1 if variable.space == "shared" else 2
            add(emulator, address, variable.size, number, space, 0 if variable.writable else 1)
        values, pairs = [], []
        for i, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                device = aligned(argument, offset)
                pairs.append((argument, device))
                add(emulator, device.ctypes.data, device.nbytes, i, 0, 2 if i in uninitialised else 0)
                values.append(C.c_void_p(device.ctypes.data))
            else:
                values.append(argument)
        pointers = (C.c_void_p * max(1, len(values)))(*(C.addressof(v) for v in values))
        setting = {"lockstep": 1, "races": 1, "initialisation": 1, "poison": 0xFF, **options}
        blocks = setting.pop("blocks", None)
        chosen = Options(**setting)
        if blocks is not None:
            numbers = np.array(blocks, np.uint32)
            chosen.blocks, chosen.block_count = numbers.ctypes.data, len(numbers)
        dims = [(C.c_uint32 * 3)(*((d,) if isinstance(d, int) else d), *(1,) * (3 - np.size(d))) for d in (grid, block)]
        start = time.thread_time()
        status = emulator.optiml_emulator_launch(
            C.c_void_p(self.entry), pointers, dims[0], dims[1], C.c_uint64(shared), C.byref(chosen)
        )
        seconds = time.thread_time() - start
        for host, device in pairs:
            host[...] = device
        return self.outcome(emulator, status, seconds)

    def outcome(self, emulator: C.CDLL, status: int, seconds: float) -> Outcome:
        sites, reports = array_of(emulator, "sites", SITE), array_of(emulator, "reports", REPORT)
        statistics = np.zeros(1, STATISTICS)
        emulator.optiml_emulator_statistics(C.c_void_p(statistics.ctypes.data))
        text = array_of(emulator, "output", np.dtype("u1")).tobytes().decode()
        wanted = {int(p) for p in (*sites["pc"], *reports["pc"], *reports["pc2"])}
        lines: dict[int, int | None] = dict.fromkeys(wanted)
        found = self.table.lines(p - self.base for p in wanted if 0 < p - self.base < 1 << 32)
        lines.update({offset + self.base: line for offset, line in found.items()})
        faults = tuple(
            Seen(WHAT[r["what"]], lines.get(int(r["pc"])), lines.get(int(r["pc2"])), int(r["count"]), r)
            for r in reports
            if not (r["what"] == 4 and r["detail"] == 1 and self.same_place(int(r["pc"]), int(r["pc2"])))
        )
        traffic = array_of(emulator, "traffic", TRAFFIC)
        return Outcome(STATUS[status], seconds, faults, sites, lines, statistics[0], traffic, text)

    def same_place(self, first: int, second: int) -> bool:
        return self.table.same_place(first - self.base, second - self.base)


class NotBuiltError(Exception):
    """The kernel of a test was refused or did not compile; the argument is the Failure."""


def add(emulator: C.CDLL, address: int, size: int, buffer: int, space: int, flags: int) -> None:
    status = emulator.optiml_emulator_add_range(C.byref(RangeStruct(address, size, buffer, space, flags)))
    assert status == 0, "overlapping ranges"


def array_of(emulator: C.CDLL, name: str, dtype: np.dtype[Any]) -> Any:
    pointer = C.c_void_p()
    count = getattr(emulator, f"optiml_emulator_{name}")(C.byref(pointer))
    return np.frombuffer(C.string_at(pointer, count * dtype.itemsize), dtype) if count else np.zeros(0, dtype)


def refusal(source: str, kernel: str = "k", widened: bool = False) -> Failure:
    """Why ``source`` cannot be built."""
    try:
        BuiltKernel(source, kernel, (), widened)
    except NotBuiltError as error:
        failure: Failure = error.args[0]
        return failure
    raise AssertionError("it was built")

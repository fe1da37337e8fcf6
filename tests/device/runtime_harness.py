"""Runs kernels of the tests through the emulator's runtime in this process: no worker, no sandbox.

The product runs candidates in a worker process; the kernels here are the tests' own.
"""

from __future__ import annotations

import ctypes as C
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
from optiml_core.device.emulator.build_elf import read_elf
from optiml_core.device.emulator.build_symbols import variables_of
from optiml_core.device.emulator.prepare import PreparedSource, prepare_source
from optiml_core.device.emulator.reading import REPORT, SITE, STATISTICS, TRAFFIC, WHAT
from optiml_core.records import Failure

STATUS = ("done", "refused", "stopped", "no-memory")


def cache() -> Path:
    """A folder for objects that outlive one test run, keyed by the contents of the runtime and the shim."""
    digest = hashlib.sha256(repr((plan.RUNTIME_FLAGS, plan.COMPILE_FLAGS)).encode())
    for folder in (plan.RUNTIME_DIRECTORY, plan.SHIM_DIRECTORY):
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.name != "worker_main.cpp":
                digest.update(path.name.encode() + path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"optiml-test-{os.getuid()}" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def once(target: Path, command: Sequence[str]) -> None:
    """Runs ``command`` with the output path appended unless the target is there already."""
    if target.exists():
        return
    part = target.with_suffix(f".{os.getpid()}{target.suffix}")
    subprocess.run([*command, "-o", str(part)], check=True)
    part.rename(target)


_RUNTIME: list[C.CDLL] = []
_INITIAL: dict[Path, list[bytes]] = {}


def runtime() -> C.CDLL:
    """The runtime as a shared library, its control functions visible."""
    if not _RUNTIME:
        target = cache() / "runtime.so"
        once(
            target,
            ["g++", *plan.RUNTIME_FLAGS, "-fPIC", "-shared", "-DOPTIML_HIDDEN=", str(plan.RUNTIME_SOURCE), "-lm"],
        )
        library = C.CDLL(str(target), mode=C.RTLD_GLOBAL)
        for name in ("sites", "reports", "traffic", "output"):
            getattr(library, f"optiml_emulator_{name}").restype = C.c_uint64
        _RUNTIME.append(library)
    return _RUNTIME[0]


def precompiled(flags: Sequence[str]) -> Path:
    """The folder with the precompiled shim for these flags."""
    folder = cache() / hashlib.sha256(repr(flags).encode()).hexdigest()[:12]
    folder.mkdir(exist_ok=True)
    header = folder / plan.SHIM_HEADER.name
    if not header.exists():
        header.write_text(f'#include "{plan.SHIM_HEADER}"\n')
    once(folder / (header.name + ".gch"), ["g++", *flags, "-x", "c++-header", str(plan.SHIM_HEADER)])
    return header


class Options(C.Structure):
    _fields_ = [
        ("lockstep", C.c_uint8),
        ("races", C.c_uint8),
        ("initialisation", C.c_uint8),
        ("poison", C.c_uint8),
        ("traffic", C.c_uint8),
        ("reserved", C.c_uint8 * 3),
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
    """A kernel of ``source`` compiled against the shim. ``instrumented`` False: results only."""

    def __init__(
        self,
        source: str,
        kernel: str,
        template_arguments: Sequence[str] = (),
        widened: bool = False,
        instrumented: bool = True,
        extra: Sequence[str] = (),
    ) -> None:
        prepared = prepare_source(source, "kernel.cu", kernel, template_arguments, widened)
        assert isinstance(prepared, PreparedSource), prepared
        flags = [*plan.COMPILE_FLAGS, *(plan.INSTRUMENT_FLAGS if instrumented else ()), *extra]
        header = precompiled(flags)
        tag = hashlib.sha256(repr((prepared.text, flags)).encode()).hexdigest()[:16]
        cpp, obj, self.path = (cache() / (tag + s) for s in (".cpp", ".o", ".so"))
        start = time.perf_counter()
        if not self.path.exists():
            cpp.write_text(prepared.text)
            compile_ = ["g++", *flags, "-pipe", "-include", str(header), "-c", str(cpp), "-o", str(obj)]
            done = subprocess.run(compile_, capture_output=True, text=True)
            if done.returncode:
                raise CompileError(done.stderr)
            once(self.path, ["g++", "-fuse-ld=gold", *plan.LINK_FLAGS, str(obj), "-lgcc"])
        self.build_seconds = time.perf_counter() - start
        runtime()
        self.library = C.CDLL(str(self.path))
        self.entry = C.cast(getattr(self.library, plan.ENTRY_SYMBOL), C.c_void_p).value or 0
        elf = read_elf(self.path.read_bytes())
        self.base = self.entry - next(symbol.value for symbol in elf.symbols if symbol.name == plan.ENTRY_SYMBOL)
        self.variables = variables_of(elf)
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
        start = time.perf_counter()
        status = emulator.optiml_emulator_launch(
            C.c_void_p(self.entry), pointers, dims[0], dims[1], C.c_uint64(shared), C.byref(chosen)
        )
        seconds = time.perf_counter() - start
        for host, device in pairs:
            host[...] = device
        return self.outcome(emulator, status, seconds)

    def outcome(self, emulator: C.CDLL, status: int, seconds: float) -> Outcome:
        sites, reports = array_of(emulator, "sites", SITE), array_of(emulator, "reports", REPORT)
        statistics = np.zeros(1, STATISTICS)
        emulator.optiml_emulator_statistics(C.c_void_p(statistics.ctypes.data))
        text = array_of(emulator, "output", np.dtype("u1")).tobytes().decode()
        wanted = {int(p) for p in (*sites["pc"], *reports["pc"], *reports["pc2"])}
        lines = self.lines(sorted(p for p in wanted if p > self.base))
        faults = tuple(
            Seen(WHAT[r["what"]], lines.get(int(r["pc"])), lines.get(int(r["pc2"])), int(r["count"]), r)
            for r in reports
        )
        traffic = array_of(emulator, "traffic", TRAFFIC)
        return Outcome(STATUS[status], seconds, faults, sites, lines, statistics[0], traffic, text)

    def lines(self, addresses: Sequence[int]) -> dict[int, int | None]:
        if not addresses:
            return {}
        offsets = [hex(a - self.base - 1) for a in addresses]
        command = ["addr2line", "-i", "-a", "-e", str(self.path), *offsets]
        found: dict[int, int | None] = {}
        remaining = iter(addresses)
        current = 0
        for row in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            if row.startswith("0x"):
                current = next(remaining)
                found[current] = None
                continue
            name, _, line = row.partition(":")
            line = line.split()[0]
            names = ("kernel.cu", self.path.stem + ".cpp")
            if found[current] is None and Path(name).name in names and line.isdigit():
                found[current] = int(line)
        return found


class CompileError(Exception):
    """The kernel of a test did not compile."""


def add(emulator: C.CDLL, address: int, size: int, buffer: int, space: int, flags: int) -> None:
    status = emulator.optiml_emulator_add_range(C.byref(RangeStruct(address, size, buffer, space, flags)))
    assert status == 0, "overlapping ranges"


def array_of(emulator: C.CDLL, name: str, dtype: np.dtype[Any]) -> Any:
    pointer = C.c_void_p()
    count = getattr(emulator, f"optiml_emulator_{name}")(C.byref(pointer))
    return np.frombuffer(C.string_at(pointer, count * dtype.itemsize), dtype) if count else np.zeros(0, dtype)


def refusal(source: str, kernel: str, widened: bool = False) -> Failure:
    prepared = prepare_source(source, "kernel.cu", kernel, (), widened)
    assert isinstance(prepared, Failure), "accepted"
    return prepared

"""The emulator as a device: builds variants with g++, runs them in worker processes."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from attrs import evolve, frozen

from optiml_core.device.emulator import worker_wire as wire
from optiml_core.device.emulator.build import CANDIDATE, Builder, CompiledObject, kernel_name
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_lines import LineTable
from optiml_core.device.emulator.build_slice import slice_for_emulator
from optiml_core.device.emulator.build_symbols import Variable, function_starts, variables_of
from optiml_core.device.emulator.build_toolbox import Toolbox
from optiml_core.device.emulator.device_results import accesses_of, faults_of, metrics_of
from optiml_core.device.emulator.sandbox import SandboxStatus, probe_sandbox
from optiml_core.device.emulator.widening import widen_arguments, widened_shared
from optiml_core.device.emulator.worker import Worker, start_worker
from optiml_core.device.emulator.worker_layout import (
    Layout,
    fill,
    fill_values,
    guards_intact,
    lay_out,
    place_buffers,
    read_buffers,
)
from optiml_core.device.emulator.worker_reserved import Reserved, ReservedCache
from optiml_core.device.protocol import Built, Contents, RunOptions, RunResult
from optiml_core.records import BufferArgument, Failure, Launch, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.workload.contents import buffer_contents

_DEFAULT_OPTIONS = RunOptions()
_IDLE_WORKERS = 8
_IDLE_BYTES = 512 << 20  # of their arenas together
_OUTPUT_LIMIT = 64 << 10
_STACK = 64 << 10  # STACK_BYTES of runtime/state.h
_KEEP_PAYLOAD = 64 << 20


@frozen(eq=False)
class _Loaded:
    """A build with what every run of it needs."""

    compiled: CompiledObject
    variables: tuple[Variable, ...]
    lines: LineTable
    functions: wire.Table  # where they start


class EmulatorDevice:
    """Runs variants on the CPU. Usable from several threads; each run has a worker process of its own.

    A worker has one object loaded and is kept for the next run of the same build, so that a build's
    launches see the module variables that earlier ones left behind, as on a GPU, but never the same
    addresses. ``cache_folder`` holds compiled objects (default: below the user's cache folder).
    """

    def __init__(self, cache_folder: Path | None = None) -> None:
        self._builder = Builder(BuildCache(cache_folder))
        self._lock = threading.Lock()
        self._loaded: dict[str, _Loaded] = {}
        self._idle: list[tuple[str, Worker]] = []
        self._sequence = itertools.count(1)
        self._spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="optiml-emulator")
        self._empty_folder = tempfile.TemporaryDirectory(prefix="optiml-empty-")
        self._owner = os.getpid()
        self._reserved = ReservedCache()
        self._sandbox: SandboxStatus | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return "emulator"

    def toolbox(self) -> Toolbox | Failure:
        """The worker and the precompiled shim, built on first use; or what is missing for them."""
        return self._builder.toolbox()

    @property
    def cache_note(self) -> str:
        """Why compiled kernels are not kept in the user's cache folder; "" if they are."""
        return self._builder.cache.note

    def sandbox_status(self) -> SandboxStatus | Failure:
        """Whether this system fences workers in. A Failure where the worker cannot even be built."""
        toolbox = self._builder.toolbox()
        if isinstance(toolbox, Failure):
            return toolbox
        with self._lock:
            if self._sandbox is None:
                self._sandbox = probe_sandbox(toolbox.worker, Path(self._empty_folder.name))
            return self._sandbox

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        """Compiles the variant's kernel with its access hooks; see :class:`optiml_core.device.protocol.Device`."""
        unit = parse(SourceFile(variant.file, variant.data))
        kernel = unit.kernel(variant.kernel)
        if kernel is None:
            return Failure("bad-input", f"{variant.file} has no kernel {variant.kernel}", variant.file)
        name = kernel_name(kernel.qualified, widen_arguments(template_arguments) if widened else template_arguments)
        if isinstance(name, Failure):
            return name
        source = slice_for_emulator(unit, kernel, template_arguments, variant.flags, widened)
        if isinstance(source, Failure):
            return source
        compiled = self._builder.compile(source, name, variant.flags, widened)
        if isinstance(compiled, Failure):
            return _in_file(compiled, variant.file)
        toolbox = self._builder.toolbox()
        if isinstance(toolbox, Failure):
            return toolbox
        with self._lock:
            if compiled.digest not in self._loaded:
                table = LineTable(compiled.path, CANDIDATE, Path(self._empty_folder.name), toolbox.confinement)
                self._loaded[compiled.digest] = _Loaded(
                    compiled, variables_of(compiled.elf), table, function_starts(compiled.elf)
                )
        return Built(compiled.digest, variant, None, widened)

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions = _DEFAULT_OPTIONS
    ) -> RunResult | Failure:
        """Runs one launch in a worker; see :class:`optiml_core.device.protocol.Device`."""
        loaded = self._loaded_for(built)
        if isinstance(loaded, Failure):
            return loaded
        worker = self._take(built, loaded, options)
        if isinstance(worker, Failure):
            return worker
        try:
            result = self._run_in(worker, loaded, launch, contents, options, built.widened)
        except BaseException:
            worker.close()
            raise
        if isinstance(result, Failure) and result.kind not in ("bad-input", "unsupported"):
            worker.close()
        else:
            self._give_back(built.token, worker)
        return result if isinstance(result, RunResult) else _in_file(result, built.variant.file)

    def _run_in(
        self,
        worker: Worker,
        loaded: _Loaded,
        launch: Launch,
        contents: Contents,
        options: RunOptions,
        widened: bool = False,
    ) -> RunResult | Failure:
        if widened:
            launch = evolve(launch, shared=widened_shared(launch.shared))
        placed = place_buffers(launch, contents, options, worker.runs)
        if isinstance(placed, Failure):
            return placed
        layout = lay_out(launch, contents, loaded.compiled.parameters, loaded.variables, placed)
        if isinstance(layout, Failure):
            return layout
        problem = fill(worker.arena, layout, launch, contents, options)
        if problem is not None:
            return problem
        reply = self._launch(worker, loaded, layout, launch, options)
        if isinstance(reply, Failure):
            return reply
        result = evolve(
            self._result(worker, loaded, layout, launch, options, reply),
            buffers=read_buffers(worker.arena, layout, contents),
            guards_intact=guards_intact(worker.arena, layout, options),
        )
        if layout.end > _KEEP_PAYLOAD:
            worker.arena.release_payload()
        return result

    def run_sampled(self, built: Built, launch: Launch, options: RunOptions = _DEFAULT_OPTIONS) -> RunResult | Failure:
        """Counts the accesses of some blocks of a launch of any size, without keeping its buffers in memory.

        ``options.blocks``: which blocks (None: all); ``options.steps``: accesses after which the run stops
        cleanly. Nothing is checked but bounds, and no buffers come back. ``metrics`` says how far it came:
        ``blocks_total`` of the grid, ``blocks_asked``, ``blocks_completed``, and ``stopped`` (1.0 when the cap cut
        it off; the counts then cover the completed blocks and part of one more). Contents as in worker_reserved.py.
        """
        loaded = self._loaded_for(built)
        if isinstance(loaded, Failure):
            return loaded
        if built.widened:
            return Failure("unsupported", "a widened build is not sampled")
        reserved = self._reserved.reserve(launch)
        if isinstance(reserved, Failure):
            return reserved
        try:
            result = self._run_reserved(loaded, launch, reserved, evolve(options, checks=False, counts=True))
        finally:
            reserved.close()
        return result if isinstance(result, RunResult) else _in_file(result, built.variant.file)

    def _run_reserved(
        self, loaded: _Loaded, launch: Launch, reserved: Reserved, options: RunOptions
    ) -> RunResult | Failure:
        filled = {a.name: buffer_contents(a, 0) for a in launch.globals if isinstance(a, BufferArgument)}
        for values in filled.values():
            if isinstance(values, Failure):
                return values
        contents = Contents({name: values for name, values in filled.items() if not isinstance(values, Failure)})
        layout = lay_out(
            launch, contents, loaded.compiled.parameters, loaded.variables, reserved.placed, wire.IN_RESERVED
        )
        if isinstance(layout, Failure):
            return layout
        request = evolve(
            self._request(layout, launch, options), reserved_pieces=reserved.pieces, reserved_bytes=reserved.bytes
        )
        worker = self._start(loaded, options.memory + reserved.bytes, request, reserved.tile)
        if isinstance(worker, Failure):
            return worker
        try:
            problem = fill_values(worker.arena, layout, launch, contents)
            reply = problem or self._launch(worker, loaded, layout, launch, options)
            if isinstance(reply, Failure):
                return reply
            result = self._result(worker, loaded, layout, launch, options, reply)
        finally:
            worker.close()
        total = launch.grid[0] * launch.grid[1] * launch.grid[2]
        stopped = reply.status == wire.STOPPED
        started = result.metrics["blocks"]
        metrics = {
            "blocks_total": float(total),
            "blocks_asked": float(total if options.blocks is None else len(options.blocks)),
            "blocks_completed": max(0.0, started - 1) if stopped else started,
            "stopped": float(stopped),
        }
        return evolve(result, metrics={**result.metrics, **metrics})

    def _request(self, layout: Layout, launch: Launch, options: RunOptions) -> wire.Request:
        return wire.Request(
            sequence=next(self._sequence) & 0xFFFFFFFF, grid=launch.grid, block=launch.block,
            dynamic_shared=launch.shared, lockstep=options.counts, races=options.checks, initialisation=options.checks,
            traffic=_watches_reuse(options), warp_stride=options.warp_stride,
            poison=options.poison, schedule=options.schedule, steps=options.steps,
            output_limit=_OUTPUT_LIMIT, shared_limit=0, memory_limit=options.memory, parameters=layout.parameters,
            ranges=layout.ranges, fills=layout.fills, read_backs=layout.read_backs,
            blocks=np.array(options.blocks if options.blocks is not None else (), np.uint32),
        )  # fmt: skip

    def _launch(
        self, worker: Worker, loaded: _Loaded, layout: Layout, launch: Launch, options: RunOptions
    ) -> wire.Reply | Failure:
        """One launch in a worker whose memory is filled; a reply that is a result, or why there is none."""
        reply = worker.run(self._request(layout, launch, options), options.seconds)
        if isinstance(reply, Failure):
            return reply
        if reply.state == wire.REFUSED_CALL:
            offset = reply.crash_pc - worker.module_base
            line = loaded.lines.lines([offset])[offset] if reply.crashed_in_candidate else None
            return Failure("refused", "the kernel calls something that is not one of its functions", line=line)
        if reply.state == wire.CRASHED:
            offset = reply.crash_pc - worker.module_base + 1
            return _crash(reply, loaded.lines.lines([offset])[offset] if reply.crashed_in_candidate else None)
        if reply.status == wire.NO_MEMORY:
            return Failure("out-of-memory", f"the emulator needs more than {options.memory >> 20} MiB for this launch")
        return reply

    def _result(
        self, worker: Worker, loaded: _Loaded, layout: Layout, launch: Launch, options: RunOptions, reply: wire.Reply
    ) -> RunResult:
        """Faults, counts and metrics of a reply; no buffers yet."""
        base = worker.module_base
        size = max((s.address + s.size for s in loaded.compiled.elf.sections), default=0)
        columns = (reply.sites["pc"], reply.reports["pc"], reply.reports["pc2"])
        offsets = {int(pc) - base for column in columns for pc in column}
        lines = loaded.lines.lines(offset for offset in offsets if 0 < offset < size)

        def line_of(pc: int) -> int | None:
            return lines.get(pc - base)

        accesses = accesses_of(reply, line_of, layout.numbers, _watches_reuse(options)) if options.counts else ()

        def same_place(first: int, second: int) -> bool:
            return loaded.lines.same_place(first - base, second - base)

        faults = faults_of(reply, launch.grid, launch.block, line_of, layout.numbers, same_place)
        text = reply.text.decode("utf-8", "replace")
        return RunResult({}, faults, True, accesses, metrics_of(reply), reply.cpu_seconds, text)

    def _loaded_for(self, built: Built) -> _Loaded | Failure:
        """What belongs to ``built``, or why it is not run: an edit written by a model needs the sandbox."""
        loaded = self._loaded.get(built.token)
        if loaded is None:
            return Failure("bad-input", "this build does not belong to this device")
        status = self.sandbox_status()
        if isinstance(status, Failure):
            return status
        if not status.available and any(step.proposer != "rewrites" for step in built.variant.steps):
            message = f"an edit written by a model is not run without the sandbox: {status.detail}"
            return Failure("sandbox-missing", message, cure=status.cure)
        return loaded

    def _take(self, built: Built, loaded: _Loaded, options: RunOptions) -> Worker | Failure:
        if self._closed or os.getpid() != self._owner:
            return Failure("refused", "this emulator device is closed")
        with self._lock:
            for index in range(len(self._idle) - 1, -1, -1):
                token, worker = self._idle[index]
                if token == built.token and worker.memory == options.memory:
                    del self._idle[index]
                    return worker
        return self._start(loaded, options.memory)

    def _start(
        self, loaded: _Loaded, memory: int, start: wire.Request | None = None, tile: int = -1
    ) -> Worker | Failure:
        toolbox = self._builder.toolbox()
        status = self.sandbox_status()
        start = start or wire.EMPTY_REQUEST
        if isinstance(toolbox, Failure):
            return toolbox
        if isinstance(status, Failure):
            return status
        return start_worker(
            self._spawner, toolbox.worker, Path(self._empty_folder.name), loaded.compiled.data,
            fenced=status.available, memory=memory, start=evolve(start, functions=loaded.functions), tile=tile,
        )  # fmt: skip

    def _give_back(self, token: str, worker: Worker) -> None:
        surplus: list[Worker] = []
        with self._lock:
            if self._closed:
                surplus.append(worker)
            else:
                self._idle.append((token, worker))
                while len(self._idle) > _IDLE_WORKERS or sum(w.arena.size for _, w in self._idle) > _IDLE_BYTES:
                    surplus.append(self._idle.pop(0)[1])
        for old in surplus:
            old.close()

    def forget(self, built: Built) -> None:
        """Ends the idle workers of ``built``: its next run starts from the module's initial state."""
        with self._lock:
            mine = [worker for token, worker in self._idle if token == built.token]
            self._idle = [(token, worker) for token, worker in self._idle if token != built.token]
        for worker in mine:
            worker.close()

    def close(self) -> None:
        """Ends the worker processes. Safe to call twice."""
        with self._lock:
            self._closed = True
            workers = [worker for _, worker in self._idle]
            self._idle = []
        if os.getpid() != self._owner:
            return
        for worker in workers:
            worker.close()
        self._reserved.close()
        self._spawner.shutdown()
        self._empty_folder.cleanup()

    def __enter__(self) -> EmulatorDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _watches_reuse(options: RunOptions) -> bool:
    """Reuse curves are for predictions: where counts are asked for and nothing is verified."""
    return options.counts and not options.checks


def _in_file(failure: Failure, file: str) -> Failure:
    return evolve(failure, file=file) if failure.line is not None and failure.file is None else failure


def _crash(reply: wire.Reply, line: int | None) -> Failure:
    import signal

    try:
        name = signal.Signals(reply.signal).name
    except ValueError:
        name = f"signal {reply.signal}"
    if name == "SIGSEGV" and abs(reply.crash_address - reply.crash_stack) < _STACK:
        return Failure(
            "unsupported", f"a thread needs more than the {_STACK >> 10} KiB of stack it has here", line=line
        )
    where = f" at address 0x{reply.crash_address:x}" if name in ("SIGSEGV", "SIGBUS") else ""
    what = "divides an integer by zero" if name == "SIGFPE" else f"ended the emulator's worker by {name}{where}"
    return Failure("crash", f"the kernel {what}", line=line)

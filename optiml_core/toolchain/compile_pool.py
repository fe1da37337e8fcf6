"""Kernels compiled in limited child processes, several at a time, each result remembered in the store."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import attrs

from optiml_core.records import Failure, ResourceUsage
from optiml_core.store import Json, Store, content_key
from optiml_core.toolchain.compile_connection import Answer, CompileConnection, connect
from optiml_core.toolchain.compile_records import CompiledKernel, CompileLimits, CompileRequest
from optiml_core.toolchain.compiler_log import compile_failure, own_log, resource_usage
from optiml_core.toolchain.discovery import Toolchain, nvrtc_builtins
from optiml_core.toolchain.nvcc import compile_with_nvcc
from optiml_core.toolchain.nvrtc_source import PROGRAM_NAME, NvrtcProgram, nvrtc_program
from optiml_core.toolchain.slice_includes import HEADERS_FOLDER

# Precompiling NVIDIA's largest headers; nothing of a candidate is in it.
_MOST_PRECOMPILED = 4  # files of 100 MB each
_HEADER_LIMITS = CompileLimits(cpu_seconds=60, seconds=120)


class CompilePool:
    """Compiles with NVRTC (``workers`` programs at a time), with nvcc where NVRTC is missing.

    May be used by several threads. Ends its processes with ``close``, at the end of the ``with`` block, or when this
    process dies, however it dies. A pool does not survive a fork: the child makes its own.
    """

    def __init__(self, toolchain: Toolchain, workers: int = 2, store: Store | None = None) -> None:
        self._toolchain = toolchain
        self._store = store
        self._running = threading.BoundedSemaphore(max(1, workers))
        self._workers = max(1, workers)
        self._lock = threading.Lock()
        self._connection: CompileConnection | None = None
        self._process = os.getpid()
        self._closed = False
        self._headers = ""
        # By prelude and options: how often it was asked for, and the precompiled file once there is one.
        self._preludes: dict[str, int] = {}
        self._precompiled: dict[str, str | None] = {}
        self._precompiling = threading.Lock()
        self._beyond_nvrtc: set[str] = set()  # preludes that NVRTC cannot read

    def compile(self, request: CompileRequest) -> CompiledKernel | Failure:
        """Compiles one kernel, or takes it from the store.

        Failure ``compile-error`` with messages about the file's own lines, ``timeout``, ``out-of-memory``, ``crash``,
        ``missing-tool`` (neither NVRTC nor nvcc is here) or ``cancelled`` (the pool is closed).
        """
        nvrtc = self._toolchain.tool("nvrtc")
        if nvrtc.path is None:
            if self._toolchain.path("nvcc") is None:
                return Failure("missing-tool", f"no CUDA compiler: {nvrtc.reason}", cure=nvrtc.cure)
            return self.compile_with_nvcc(request)
        program = nvrtc_program(request, self._toolchain)
        if program.prelude in self._beyond_nvrtc:
            return self.compile_with_nvcc(request)
        compiler = f"NVRTC {nvrtc.version}"
        key = _key(
            program.source, program.headers, program.options, program.expression, compiler, self._headers_version()
        )
        known = self._known(key)
        if known is not None:
            return known
        result = self._compile(program, request, compiler)
        self._remember(key, result)
        return result

    def compile_many(self, requests: Sequence[CompileRequest]) -> tuple[CompiledKernel | Failure, ...]:
        """Compiles several kernels at a time; the results are in the order of the requests."""
        results: list[CompiledKernel | Failure | None] = [None] * len(requests)
        following = iter(range(len(requests)))
        taking = threading.Lock()

        def work() -> None:
            while True:
                with taking:
                    index = next(following, None)
                if index is None:
                    return
                results[index] = self.compile(requests[index])

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self._workers, len(requests)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return tuple(result or Failure("crash", "compiling did not finish") for result in results)

    def compile_with_nvcc(self, request: CompileRequest) -> CompiledKernel | Failure:
        """Compiles one kernel with nvcc, as a winner is reported and where NVRTC is missing. Remembered likewise."""
        nvcc = self._toolchain.tool("nvcc")
        if nvcc.path is None:
            return Failure("missing-tool", nvcc.reason, cure=nvcc.cure)
        compiler = f"nvcc {nvcc.version}"
        cut = request.slice
        headers = tuple((header.name, header.text) for header in cut.headers)
        options = (request.architecture, *request.flags, *cut.cuda_headers, *cut.standard_headers)
        key = _key(cut.text, headers, options, request.name_expression, compiler, self._headers_version())
        known = self._known(key)
        if known is not None:
            return known
        with self._running:
            result = compile_with_nvcc(request, self._toolchain)
        self._remember(key, result)
        return result

    def close(self) -> None:
        """Ends the compile processes. Safe to call twice; later calls of ``compile`` are ``cancelled``."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            connection.close()

    @property
    def is_confined(self) -> bool | None:
        """Whether the operating system keeps the compiler from reading other files; None before the first program."""
        return None if self._connection is None else self._connection.confined

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -------------------------------------------------------------------------------- private

    def _compile(self, program: NvrtcProgram, request: CompileRequest, compiler: str) -> CompiledKernel | Failure:
        answer: Answer | Failure = Failure("cancelled", "the compile pool is closed")
        # A server that dies takes every program in flight along, so that each innocent one gets a second try.
        for _ in range(2):
            connection = self._connected()
            if isinstance(connection, Failure):
                return connection
            precompiled = self._precompiled_header(program, connection)
            with self._running:
                answer = connection.submit(_message(program, request.limits, precompiled)).result()
                if precompiled and isinstance(answer, Answer) and "Catastrophic error" in answer.log:
                    # The precompiled header could not be used, which says nothing about the program.
                    answer = connection.submit(_message(program, request.limits, None)).result()
            if not (isinstance(answer, Failure) and answer.kind == "crash" and connection.ended.is_set()):
                break
        if isinstance(answer, Failure):
            # NVRTC itself crashes on some valid text (constrained templates by name): nvcc may not.
            if answer.kind == "crash" and not self._closed and self._toolchain.path("nvcc") is not None:
                return self.compile_with_nvcc(request)
            return answer
        if answer.result != 0 or not answer.lowered:
            cut = request.slice
            failure = compile_failure(answer.log, program.messages, cut.dropped_includes, cut.cuda_headers)
            # NVRTC cannot read some of NVIDIA's own headers (thrust with its host side): nvcc can.
            if failure.line is None and program.is_heavy and self._toolchain.path("nvcc") is not None:
                self._beyond_nvrtc.add(program.prelude)
                return self.compile_with_nvcc(request)
            return failure
        name = answer.lowered[0]
        resources = resource_usage(answer.log).get(name)
        if resources is None:
            return Failure("crash", f"the compiler's log does not name the kernel {name}")
        log = own_log(answer.log, program.messages)
        return CompiledKernel(
            answer.cubin, name, request.architecture, resources, compiler, answer.seconds, log, ptx=answer.ptx
        )

    def _connected(self) -> CompileConnection | Failure:
        with self._lock:
            if self._closed:
                return Failure("cancelled", "the compile pool is closed")
            if self._process != os.getpid():
                return Failure("crash", "a compile pool was carried across a fork")
            if self._connection is None or self._connection.ended.is_set():
                library = self._toolchain.path("nvrtc") or ""
                read = [str(HEADERS_FOLDER), *self._toolchain.include_folders]
                connection = connect(library, nvrtc_builtins(library), read)
                if isinstance(connection, Failure):
                    return connection
                self._connection = connection
                self._precompiled = {}
            return self._connection

    def _precompiled_header(self, program: NvrtcProgram, connection: CompileConnection) -> str | None:
        """The precompiled prelude of a program, made the second time that one with heavy headers is asked for."""
        if not program.is_heavy:
            return None
        key = content_key(program.prelude, *program.options, connection.scratch)
        with self._precompiling:
            self._preludes[key] = self._preludes.get(key, 0) + 1
            full = len(self._precompiled) >= _MOST_PRECOMPILED
            if self._preludes[key] < 2 or key in self._precompiled or full:
                return self._precompiled.get(key)
            path = os.path.join(connection.scratch, f"{len(self._precompiled)}.pch")
            options = [*program.options, f"-create-pch={path}"]
            source = program.prelude + "__global__ void optiml_nothing() {}\n"
            message = _wire(source, [], options, "optiml_nothing", _HEADER_LIMITS)
            answer = connection.submit(message).result()
            made = isinstance(answer, Answer) and answer.result == 0 and os.path.exists(path)
            # Without it, compiling is slower and nothing else.
            self._precompiled[key] = path if made else None
            return self._precompiled[key]

    def _headers_version(self) -> str:
        if not self._headers:
            tools = [self._toolchain.tool(name) for name in ("cuda_headers", "cccl_headers")]
            ours = [path.read_bytes() for path in sorted(HEADERS_FOLDER.iterdir()) if path.is_file()]
            self._headers = content_key(*(f"{tool.path} {tool.version}" for tool in tools), *ours)
        return self._headers

    def _known(self, key: str) -> CompiledKernel | Failure | None:
        entry = None if self._store is None else self._store.get_entry("compiled", key)
        if entry is None or not isinstance(entry.value, Mapping):
            return None
        value: dict[str, Any] = dict(entry.value)
        try:
            if "failure" in value:
                return Failure(**value["failure"])
            resources = ResourceUsage(**value.pop("resources"))
            return CompiledKernel(cubin=entry.blob, resources=resources, cached=True, **value)
        except TypeError:
            return None  # Written by a version with other fields.

    def _remember(self, key: str, result: CompiledKernel | Failure) -> None:
        if self._store is None:
            return
        if isinstance(result, Failure):
            # A time-out or a crash may pass with the machine's load; what the compiler said of the text does not.
            if result.kind == "compile-error":
                self._store.put("compiled", key, {"failure": attrs.asdict(result)})
            return
        value: dict[str, Json] = attrs.asdict(result)
        del value["cubin"], value["cached"]
        self._store.put("compiled", key, value, result.cubin)


def _key(
    source: str, headers: Sequence[tuple[str, str]], options: Sequence[str], expression: str, *versions: str
) -> str:
    flat = [part for header in headers for part in header]
    return content_key("kernel", source, str(len(flat)), *flat, *options, expression, *versions)


def _message(program: NvrtcProgram, limits: CompileLimits, precompiled: str | None) -> dict[str, Any]:
    options = [*program.options, *([f"-use-pch={precompiled}"] if precompiled else [])]
    return _wire(program.source, program.headers, options, program.expression, limits)


def _wire(
    source: str, headers: Sequence[tuple[str, str]], options: Sequence[str], expression: str, limits: CompileLimits
) -> dict[str, Any]:
    return {
        "source": source,
        "name": PROGRAM_NAME,
        "headers": list(headers),
        "options": list(options),
        "expressions": [expression],
        "cpu_seconds": limits.cpu_seconds,
        "seconds": limits.seconds,
        "memory": limits.memory,
    }

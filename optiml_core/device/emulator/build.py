"""Compiles a candidate for the emulator: text in, checked shared object out.

    device slice -> g++ -E with the precompiled shim -> fence over its tokens -> our entry point appended
    -> g++ -c with access hooks -> fence over the object -> link -> fence over the shared object -> cache

The candidate is preprocessed apart, so that the fence sees every token after macro expansion and our
entry point cannot be reached by its macros.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from optiml_core.device.emulator import compile_plan
from optiml_core.device.emulator.allow_list import check_preprocessed, check_source
from optiml_core.device.emulator.allow_list_object import (
    check_object,
    check_shared_object,
    without_instrumentation_start,
)
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_command import run_compiler
from optiml_core.device.emulator.build_elf import Elf, read_elf
from optiml_core.device.emulator.build_entry import ParameterRow, entry_text, parameter_rows
from optiml_core.device.emulator.prepare import prepare_body
from optiml_core.records import Failure

CANDIDATE = "candidate.cu"
"""The name of the candidate's own lines in debug information and messages."""

_WORKER_SOURCES = ("worker_main.cpp", "sandbox.cpp")
_EXPORTS = "{ optiml_device_*; optiml_dynamic_shared; __tsan_*; __ubsan_*; __wrap_*; };\n"
_OFFERED = ("optiml_device_", "optiml_dynamic_shared", "__tsan_", "__ubsan_", "__wrap_")


@frozen
class Toolbox:
    """Everything built once per compiler and runtime: the worker executable and the precompiled shim."""

    compiler: str
    worker: Path
    shim: Path  # the header beside its .gch
    exported: frozenset[str]  # what a candidate may call
    identity: str


@frozen
class CompiledObject:
    """A checked shared object. ``path`` holds the same bytes on disk, for reading debug information only."""

    data: bytes
    path: Path
    elf: Elf
    parameters: tuple[ParameterRow, ...]
    digest: str


def find_compiler() -> str | Failure:
    """The path of g++, or why there is none."""
    found = shutil.which("g++")
    if found is None:
        return Failure(
            "missing-tool",
            "the emulator needs g++ 12 or newer",
            cure="install g++ (Debian and Ubuntu: apt install g++)",
        )
    return found


def _identity(compiler: str) -> str | Failure:
    version = run_compiler([compiler, "-dumpfullversion", "-dumpmachine"], Path("/"))
    if isinstance(version, Failure):
        return version
    digest = hashlib.sha256(version.encode() + compiler.encode())
    folder = Path(compile_plan.RUNTIME_DIRECTORY)
    for path in sorted([*folder.iterdir(), *Path(compile_plan.SHIM_DIRECTORY).rglob("*")]):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(
        repr((compile_plan.COMPILE_FLAGS, compile_plan.INSTRUMENT_FLAGS, compile_plan.LINK_FLAGS, _EXPORTS)).encode()
    )
    return digest.hexdigest()[:24]


def build_toolbox(cache: BuildCache, compiler: str) -> Toolbox | Failure:
    """Builds, or finds in the cache, the worker and the precompiled shim. Takes some seconds the first time."""
    identity = _identity(compiler)
    if isinstance(identity, Failure):
        return identity
    with cache.locked("toolbox"):
        worker = _build_worker(cache, compiler, identity)
        if isinstance(worker, Failure):
            return worker
        shim = _build_shim(cache, compiler, identity)
        if isinstance(shim, Failure):
            return shim
    elf = read_elf(worker.read_bytes())
    exported = frozenset(s.name for s in elf.dynamic_symbols if s.section and s.name.startswith(_OFFERED))
    return Toolbox(compiler, worker, shim, exported, identity)


def _build_worker(cache: BuildCache, compiler: str, identity: str) -> Path | Failure:
    name = f"worker-{identity}"
    if cache.get(name) is not None:
        return cache.path(name)
    runtime = Path(compile_plan.RUNTIME_DIRECTORY)
    with cache.workspace() as folder:
        (folder / "exports").write_text(_EXPORTS)
        sources = [str(compile_plan.RUNTIME_SOURCE), *(str(runtime / source) for source in _WORKER_SOURCES)]
        problem = run_compiler(
            [compiler, *compile_plan.RUNTIME_FLAGS, "-fPIE", f"-I{runtime}", *sources, "-o", str(folder / "worker"),
             "-pie", f"-Wl,--dynamic-list={folder / 'exports'}", "-Wl,-z,now", "-Wl,-z,relro", "-static-libstdc++",
             "-static-libgcc", "-Wl,--no-as-needed", "-lm", "-ldl"],
            folder, seconds=120.0,
        )  # fmt: skip
        if isinstance(problem, Failure):
            return problem
        return cache.put(name, (folder / "worker").read_bytes(), executable=True)


def _build_shim(cache: BuildCache, compiler: str, identity: str) -> Path | Failure:
    """The shim's header that only includes the real one, with its .gch beside it as g++ wants it."""
    name = f"shim-{identity}.h"
    header, compiled = cache.path(name), f"{name}.gch"
    text = f'#include "{compile_plan.SHIM_HEADER}"\n'.encode()
    if cache.get(name) == text and cache.get(compiled) is not None:
        return header
    cache.put(name, text)
    with cache.workspace() as folder:
        target = folder / "shim.gch"
        problem = run_compiler(
            [compiler, *candidate_flags(), "-x", "c++-header", str(header), "-o", str(target)], folder, seconds=120.0
        )
        if isinstance(problem, Failure):
            return problem
        cache.put(compiled, target.read_bytes())
    return header


def candidate_flags() -> list[str]:
    """The flags of every candidate; the precompiled shim must have exactly the same."""
    return [*compile_plan.COMPILE_FLAGS, *compile_plan.INSTRUMENT_FLAGS]


def definitions(flags: Sequence[str]) -> str:
    """``-D`` and ``-U`` of the allow-listed compile flags as preprocessor lines."""
    lines = []
    pending = ""
    for flag in flags:
        if pending:
            flag, pending = pending + flag, ""
        elif flag in ("-D", "-U"):
            pending = flag
            continue
        if flag.startswith("-D"):
            name, _, value = flag[2:].partition("=")
            lines.append(f"#define {name} {value if '=' in flag else '1'}")
        elif flag.startswith("-U"):
            lines.append(f"#undef {flag[2:]}")
        elif flag in ("-use_fast_math", "--use_fast_math"):
            lines.append("#define __USE_FAST_MATH__ 1")
    return "".join(line.replace("\n", " ") + "\n" for line in lines)


class Builder:
    """Compiles candidates, keeping what it has compiled in memory and on disk. Usable from several threads."""

    def __init__(self, cache: BuildCache) -> None:
        self.cache = cache
        self._lock = threading.Lock()
        self._toolbox: Toolbox | Failure | None = None
        self._objects: dict[str, CompiledObject] = {}

    def toolbox(self) -> Toolbox | Failure:
        with self._lock:
            if self._toolbox is None:
                compiler = find_compiler()
                self._toolbox = compiler if isinstance(compiler, Failure) else build_toolbox(self.cache, compiler)
            return self._toolbox

    def compile(
        self, text: str, kernel: str, flags: Sequence[str] = (), widened: bool = False
    ) -> CompiledObject | Failure:
        """Compiles ``text`` (a device slice with the user's line numbers) and makes ``kernel`` its entry point.

        kernel: a C++ expression naming the function, with template arguments. Returns a Failure
        ("compile-error", "refused", "unsupported", "timeout") with the line in the user's file.
        """
        toolbox = self.toolbox()
        if isinstance(toolbox, Failure):
            return toolbox
        prologue = definitions(flags)
        key = hashlib.sha256(
            "\0".join((toolbox.identity, prologue, kernel, str(widened), text)).encode("utf-8", "surrogateescape")
        )
        digest = key.hexdigest()[:32]
        with self._lock:
            known = self._objects.get(digest)
        if known is not None:
            return known
        name = f"object-{digest}.so"
        data = self.cache.get(name)
        if data is None:
            compiled = self._compile(toolbox, prologue, text, kernel, widened)
            if isinstance(compiled, Failure):
                return compiled
            data = compiled
            self.cache.put(name, data)
        checked = self._checked(toolbox, data, name, digest)
        if isinstance(checked, CompiledObject):
            with self._lock:
                self._objects[digest] = checked
        return checked

    def _checked(self, toolbox: Toolbox, data: bytes, name: str, digest: str) -> CompiledObject | Failure:
        try:
            elf = read_elf(data)
            rows = parameter_rows(data, elf)
        except ValueError as error:
            return Failure("refused", f"the compiled kernel is not a usable object: {error}")
        problem = check_shared_object(elf, toolbox.exported)
        return problem or CompiledObject(data, self.cache.path(name), elf, rows, digest)

    def _compile(self, toolbox: Toolbox, prologue: str, text: str, kernel: str, widened: bool) -> bytes | Failure:
        problem = check_source(text)
        if problem is not None:
            return problem
        prepared = prepare_body(text, widened)
        if isinstance(prepared, Failure):
            return prepared
        with self.cache.workspace() as folder:
            source, expanded = folder / CANDIDATE, folder / "candidate.ii"
            body = f'{prologue}#line 1 "{CANDIDATE}"\n{prepared}\n'
            source.write_bytes(body.encode("utf-8", "surrogateescape"))
            result = run_compiler(
                [toolbox.compiler, *candidate_flags(), "-E", "-fpch-preprocess", "-include",
                 str(toolbox.shim), "-x", "c++", str(source), "-o", str(expanded)],
                folder, own_file=CANDIDATE,
            )  # fmt: skip
            if isinstance(result, Failure):
                return result
            tokens = expanded.read_bytes().decode("utf-8", "surrogateescape")
            allowed = check_preprocessed(tokens, str(toolbox.shim), CANDIDATE)
            if isinstance(allowed, Failure):
                return allowed
            expanded.write_bytes((allowed + '\n# 1 "entry"\n' + entry_text(kernel)).encode("utf-8", "surrogateescape"))
            target, shared = folder / "candidate.o", folder / "candidate.so"
            result = run_compiler(
                [toolbox.compiler, *candidate_flags(), "-fpreprocessed", "-c", str(expanded), "-o", str(target)],
                folder, own_file=CANDIDATE,
            )  # fmt: skip
            if isinstance(result, Failure):
                return result
            data = target.read_bytes()
            elf = read_elf(data)
            problem = check_object(elf, toolbox.exported)
            if problem is not None:
                return problem
            target.write_bytes(without_instrumentation_start(data, elf))
            result = run_compiler(
                [toolbox.compiler, *compile_plan.LINK_FLAGS, str(target), "-lgcc", "-o", str(shared)], folder
            )
            if isinstance(result, Failure):
                return result
            return shared.read_bytes()


_TEMPLATE = re.compile(r"[\w:<>,\s*&()+\-.]*")


def kernel_expression(qualified: str, template_arguments: Sequence[str]) -> str | Failure:
    """The C++ name of one instantiation. Template arguments are a candidate's text: only type and value tokens pass."""
    arguments = ", ".join(template_arguments)
    if not _TEMPLATE.fullmatch(arguments) or not re.fullmatch(r"[\w:~]+", qualified):
        return Failure("bad-input", f"{qualified}<{arguments}> is not a name the emulator can compile")
    return f"::{qualified}<{arguments}>" if template_arguments else f"::{qualified}"

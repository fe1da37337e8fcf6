"""Built once per compiler and runtime: the worker executable and the precompiled shim."""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path

from attrs import frozen

from optiml_core.device.emulator import compile_plan
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_command import Confinement, run_compiler
from optiml_core.device.emulator.build_elf import read_elf
from optiml_core.records import Failure

DEFAULT_STANDARD = "c++17"  # nvcc's own
# Calls through pointers go by way of the worker, which knows where functions start (runtime/indirect_calls.cpp).
_INDIRECT_CALLS = (
    ("-fcf-protection=none", "-mindirect-branch=thunk-extern", "-mindirect-branch-register", "-fno-jump-tables")
    if platform.machine() == "x86_64"
    else ()
)
_WORKER_SOURCES = ("worker_main.cpp", "sandbox.cpp", "indirect_calls.cpp")
# A frame larger than the guard page below a thread's stack is noticed instead of reaching the next stack.
# An array of fixed size indexed outside is a fault; the hooks cannot see it where it hits another local variable.
_OTHER_FLAGS = ("-fno-rtti", "-fstack-clash-protection", "-fsanitize=bounds")
# What a candidate may call in the worker: names and beginnings of names.
_OFFERED = (
    "optiml_device_",
    "optiml_dynamic_shared",
    "__tsan_",
    "__ubsan_",
    "__wrap_",
    "__x86_indirect_thunk_",
    "__cxa_pure_virtual",
)
_EXPORTS = "{ " + " ".join(f"{name}{'*' if name.endswith('_') else ''};" for name in _OFFERED) + " };\n"


@frozen
class Toolbox:
    """Everything built once per compiler and runtime: the worker executable and the precompiled shim."""

    compiler: str
    version: str
    worker: Path
    confinement: Confinement  # for compilers that read a candidate
    shim: Path  # the header beside its .gch
    exported: frozenset[str]  # what a candidate may call
    identity: str
    standard: str  # as -std has it


_OLDEST = 12
_CURE = "install g++ 12 or newer (Debian 12 and Ubuntu 24.04: apt install g++)"


def find_compiler() -> str | Failure:
    """The path of g++, or why there is none."""
    found = shutil.which("g++")
    if found is None:
        return Failure("missing-tool", "the emulator needs g++, which is not here", cure=_CURE)
    return found


def _version(compiler: str) -> str | Failure:
    found = run_compiler([compiler, "-dumpfullversion"], Path("/"))
    if isinstance(found, Failure):
        return found
    version = found.strip()
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < _OLDEST:
        return Failure(
            "missing-tool", f"the emulator needs g++ {_OLDEST} or newer; {compiler} is {version}", cure=_CURE
        )
    return version


def _identity(compiler: str, version: str) -> str:
    digest = hashlib.sha256(version.encode() + compiler.encode())
    folder = Path(compile_plan.RUNTIME_DIRECTORY)
    for path in sorted([*folder.iterdir(), *Path(compile_plan.SHIM_DIRECTORY).rglob("*")]):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(
        repr(
            (
                compile_plan.COMPILE_FLAGS,
                compile_plan.INSTRUMENT_FLAGS,
                compile_plan.LINK_FLAGS,
                candidate_flags(),
                _EXPORTS,
                # The precompiled header names its source: two installations of the same text must not overwrite each
                # other's, since a compiler that starts meanwhile may read only the file it found.
                str(compile_plan.SHIM_HEADER),
            )
        ).encode()
    )
    return digest.hexdigest()[:24]


def build_toolbox(cache: BuildCache, compiler: str, standard: str = DEFAULT_STANDARD) -> Toolbox | Failure:
    """Builds, or finds in the cache, the worker and the precompiled shim. Takes some seconds the first time."""
    version = _version(compiler)
    if isinstance(version, Failure):
        return version
    identity = _identity(compiler, version)
    with cache.locked("toolbox"):
        cache.prune()
        worker = _build_worker(cache, compiler, identity)
        if isinstance(worker, Failure):
            return worker
        launcher = _build_launcher(cache, compiler, identity)
        if isinstance(launcher, Failure):
            return launcher
        shim = _build_shim(cache, compiler, identity, standard)
        if isinstance(shim, Failure):
            return shim
    elf = read_elf(worker.read_bytes())
    exported = frozenset(s.name for s in elf.dynamic_symbols if s.section and s.name.startswith(_OFFERED))
    prefix = str(Path(compiler).resolve().parent.parent)
    confinement = Confinement(launcher, (prefix, str(shim), f"{shim}.gch", str(compile_plan.SHIM_DIRECTORY)))
    return Toolbox(compiler, version, worker, confinement, shim, exported, identity, standard)


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


def _build_launcher(cache: BuildCache, compiler: str, identity: str) -> Path | Failure:
    name = f"limited-{identity}"
    if cache.get(name) is not None:
        return cache.path(name)
    with cache.workspace() as folder:
        source = Path(compile_plan.RUNTIME_DIRECTORY) / "limited_main.cpp"
        command = [compiler, "-std=c++17", "-O2", str(source), "-o", str(folder / name)]
        problem = run_compiler(command, folder, seconds=60.0)
        if isinstance(problem, Failure):
            return problem
        return cache.put(name, (folder / name).read_bytes(), executable=True)


def _build_shim(cache: BuildCache, compiler: str, identity: str, standard: str) -> Path | Failure:
    """The shim's header that only includes the real one, with its .gch beside it as g++ wants it."""
    name = f"shim-{identity}-{standard.removeprefix('c++')}.h"
    header, compiled = cache.path(name), f"{name}.gch"
    text = f'#include "{compile_plan.SHIM_HEADER}"\n'.encode()
    if cache.get(name) == text and cache.get(compiled) is not None:
        return header
    cache.put(name, text)
    with cache.workspace() as folder:
        target = folder / "shim.gch"
        problem = run_compiler(
            [compiler, *candidate_flags(standard), "-x", "c++-header", str(header), "-o", str(target)],
            folder,
            seconds=120.0,
        )
        if isinstance(problem, Failure):
            return problem
        cache.put(compiled, target.read_bytes())
    return header


def candidate_flags(standard: str = DEFAULT_STANDARD) -> list[str]:
    """The flags of every candidate; the precompiled shim must have exactly the same."""
    flags = [*compile_plan.COMPILE_FLAGS, *compile_plan.INSTRUMENT_FLAGS, *_INDIRECT_CALLS, *_OTHER_FLAGS]
    return [f"-std={standard}" if flag.startswith("-std=") else flag for flag in flags]

"""nvcc in a limited process: the fallback for NVRTC, the compiler of what is reported, and of whole files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from optiml_core.records import Failure, ResourceUsage
from optiml_core.source import SourceFile
from optiml_core.toolchain.compile_records import CompiledKernel, CompileLimits, CompileRequest
from optiml_core.toolchain.compiler_log import compile_failure, own_log, resource_usage
from optiml_core.toolchain.discovery import Toolchain
from optiml_core.toolchain.limited_process import ProcessLimits, ProcessResult, run_limited
from optiml_core.toolchain.nvrtc_source import printed_path, quoted_path
from optiml_core.toolchain.slice_includes import project_root

_INSTANTIATION = "optiml_instantiation"
_LARGEST_CUBIN = 64 << 20


def compile_with_nvcc(request: CompileRequest, toolchain: Toolchain) -> CompiledKernel | Failure:
    """Compiles the kernel of a slice with nvcc; results and failures as ``CompilePool.compile`` has them."""
    cut = request.slice
    files = {header.name: f'#line 1 "{quoted_path(header.path)}"\n{header.text}' for header in cut.headers}
    includes = "".join(f"#include <{name}>\n" for name in (*cut.standard_headers, *cut.cuda_headers))
    files["program.cu"] = f'{includes}#line 1 "{quoted_path(cut.path)}"\n{cut.text}\n{_use_of(request.name_expression)}'
    messages = {printed_path(path): path for path in (cut.path, *(header.path for header in cut.headers))}
    flags = [flag for flag in request.flags if not flag.startswith(("-I", "-isystem=", "-arch=", "-gencode="))]
    return _compile(files, messages, request, flags, toolchain, cut.kernel, ())


def compile_file_with_nvcc(
    source: SourceFile, kernel: str, request: CompileRequest, toolchain: Toolchain
) -> CompiledKernel | Failure:
    """Compiles a whole file as the project does, host code and all its includes too; nothing of it is run.

    This is the last word on whether a winner compiles. ``kernel``: its qualified name. Needs g++ and every header.
    """
    folder = Path(source.path).absolute().parent
    flags = [f"-I{folder}"]
    for flag in request.flags:
        if not flag.startswith(("-arch=", "-gencode=")):
            flags += ["-isystem", flag.removeprefix("-isystem=")] if flag.startswith("-isystem=") else [flag]
    text = source.data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    files = {"program.cu": f'#line 1 "{quoted_path(source.path)}"\n{text}\n{_use_of(request.name_expression)}'}
    readable = [str(project_root(folder)), *(flag[2:] for flag in flags if flag.startswith("-I"))]
    readable += [flag.removeprefix("-isystem=") for flag in request.flags if flag.startswith("-isystem=")]
    messages = {printed_path(source.path): source.path}
    return _compile(files, messages, request, flags, toolchain, kernel, readable)


def _use_of(expression: str) -> str:
    """Taking a kernel's address makes nvcc instantiate a template, and keep a static kernel that nobody launches."""
    return f'#line 1 "{_INSTANTIATION}"\nnamespace {{ [[maybe_unused]] auto {_INSTANTIATION} = &{expression}; }}\n'


def _compile(
    files: Mapping[str, str],
    messages: Mapping[str, str],
    request: CompileRequest,
    flags: Sequence[str],
    toolchain: Toolchain,
    kernel: str,
    readable: Sequence[str],
) -> CompiledKernel | Failure:
    nvcc, host = toolchain.tool("nvcc"), toolchain.tool("g++")
    for tool in (nvcc, host):
        if tool.path is None:
            return Failure("missing-tool", tool.reason, cure=tool.cure)
    assert nvcc.path is not None
    assert host.path is not None
    # Wheels keep the toolkit in one prefix; a system's nvcc may be a link or a wrapper to it.
    prefixes = [
        str(Path(os.path.realpath(nvcc.path)).parent.parent),
        str(Path(os.path.realpath(host.path)).parent.parent),
    ]
    command = [nvcc.path, "-cubin", f"-arch={request.architecture}", "-lineinfo", "-Xptxas", "-v", "-w"]
    command += ["--expt-relaxed-constexpr", "--expt-extended-lambda", "-ccbin", host.path]
    command += [flag for flag in flags if not flag.startswith("--expt-")]
    if not any(flag.startswith("-std=") for flag in flags):
        command.append("-std=c++17")
    command += [f"-I{folder}" for folder in toolchain.include_folders]
    command += ["-o", "program.cubin", "program.cu"]
    environment = {
        "PATH": os.pathsep.join((os.path.dirname(nvcc.path), os.path.dirname(host.path), "/usr/bin", "/bin"))
    }
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="optiml-nvcc-") as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8", errors="surrogateescape")
        ran = run_limited(
            command,
            folder,
            read=[*readable, *toolchain.include_folders],
            execute=prefixes,
            environment=environment,
            limits=_limits(request.limits),
        )
        if isinstance(ran, Failure):
            return ran
        if ran.status != 0:
            return _failure(ran, messages, request)
        cubin = Path(folder, "program.cubin")
        if not cubin.is_file() or cubin.stat().st_size > _LARGEST_CUBIN:
            return Failure("crash", "nvcc left no machine code")
        data = cubin.read_bytes()
    found = _entry(resource_usage(ran.output), kernel)
    if isinstance(found, Failure):
        return found
    name, resources = found
    log = own_log(ran.output, messages)
    seconds = time.monotonic() - began
    return CompiledKernel(data, name, request.architecture, resources, f"nvcc {nvcc.version}", seconds, log)


def _limits(limits: CompileLimits) -> ProcessLimits:
    # nvcc runs five programs one after the other; each has the processor time of one compilation.
    return ProcessLimits(cpu_seconds=limits.cpu_seconds, seconds=2 * limits.seconds, memory=max(limits.memory, 8 << 30))


def _failure(ran: ProcessResult, messages: Mapping[str, str], request: CompileRequest) -> Failure:
    if "Killed" in ran.output or "out of memory" in ran.output or "CPU time limit" in ran.output:
        return Failure("timeout", "compiling took too much time or memory and was stopped")
    return compile_failure(ran.output, messages, request.slice.dropped_includes, request.slice.cuda_headers)


def _entry(entries: Mapping[str, ResourceUsage], kernel: str) -> tuple[str, ResourceUsage] | Failure:
    """The entry function of a kernel among those of an object, by its plain name in the mangled one."""
    plain = kernel.split("::")[-1].split("<")[0]
    # Itanium mangling spells a name behind its length; an extern "C" name stands alone.
    matching = [name for name in entries if name == plain or f"{len(plain)}{plain}" in name]
    if len(matching) == 1:
        return matching[0], entries[matching[0]]
    why = "no" if not matching else "more than one"
    return Failure("unsupported", f"nvcc's object has {why} entry function for the kernel {kernel}")

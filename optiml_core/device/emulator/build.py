"""Compiles a candidate for the emulator: text in, checked shared object out.

    device slice -> g++ -E with the precompiled shim -> fence over its tokens -> our entry point appended
    -> g++ -c with access hooks -> fence over the object -> link -> fence over the shared object -> cache

The candidate is preprocessed apart, so that the fence sees every token after macro expansion and our
entry point cannot be reached by its macros.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, frozen

from optiml_core.device.emulator import compile_plan
from optiml_core.device.emulator.allow_list import check_preprocessed
from optiml_core.device.emulator.allow_list_object import (
    check_object,
    check_shared_object,
    without_instrumentation_start,
)
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_command import run_compiler
from optiml_core.device.emulator.build_elf import Elf, read_elf
from optiml_core.device.emulator.build_entry import ParameterRow, entry_text, parameter_rows
from optiml_core.device.emulator.build_slice import EmulatorSource
from optiml_core.device.emulator.build_toolbox import (
    DEFAULT_STANDARD,
    Toolbox,
    build_toolbox,
    candidate_flags,
    find_compiler,
)
from optiml_core.records import Failure

CANDIDATE = "candidate.cu"
"""The name of the candidate's own lines in debug information and messages."""

CANDIDATE_SECONDS = 10.0
"""CPU time of each step of compiling a candidate."""


@frozen
class CompiledObject:
    """A checked shared object. ``path`` holds the same bytes on disk, for reading debug information only."""

    data: bytes
    path: Path
    elf: Elf
    parameters: tuple[ParameterRow, ...]
    digest: str


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
        elif architecture := re.fullmatch(r"-arch=(?:sm|compute)_(\d+)[af]?", flag):
            lines += ["#undef __CUDA_ARCH__", f"#define __CUDA_ARCH__ {architecture[1]}0"]
        elif flag in ("-use_fast_math", "--use_fast_math"):
            lines += compile_plan.FAST_MATH_DEFINITIONS.splitlines()
    return "".join(line.replace("\n", " ") + "\n" for line in lines)


def _standard_of(flags: Sequence[str]) -> str:
    """The shim's standards are nvcc's default and the newest that g++ 12 knows whole."""
    newer = any(flag.startswith("-std=") and flag.endswith(("20", "23")) for flag in flags)
    return "c++20" if newer else DEFAULT_STANDARD


_NO_FORCED_INLINING = "#undef __forceinline__\n#define __forceinline__ inline\n"


class Builder:
    """Compiles candidates, keeping what it has compiled in memory and on disk. Usable from several threads."""

    def __init__(self, cache: BuildCache) -> None:
        self.cache = cache
        self._lock = threading.Lock()
        self._toolboxes: dict[str, Toolbox | Failure] = {}
        self._objects: dict[str, CompiledObject] = {}

    def toolbox(self, standard: str = DEFAULT_STANDARD) -> Toolbox | Failure:
        """The worker, and the shim precompiled for a C++ standard; built on first use."""
        with self._lock:
            if standard not in self._toolboxes:
                compiler = find_compiler()
                found = compiler if isinstance(compiler, Failure) else build_toolbox(self.cache, compiler, standard)
                self._toolboxes[standard] = found
            return self._toolboxes[standard]

    def compile(
        self, source: EmulatorSource, kernel: KernelName, flags: Sequence[str] = (), widened: bool = False
    ) -> CompiledObject | Failure:
        """Compiles ``source`` and makes ``kernel`` its entry point.

        Returns a Failure ("compile-error", "refused", "unsupported", "timeout") with the line in the user's file.
        """
        toolbox = self.toolbox(_standard_of(flags))
        if isinstance(toolbox, Failure):
            return toolbox
        prologue = definitions(flags)
        parts = (
            toolbox.identity,
            toolbox.standard,
            prologue,
            kernel.expression,
            str(widened),
            source.text,
            repr(sorted(source.headers.items())),
        )
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        with self._lock:
            known = self._objects.get(digest)
        if known is not None:
            return known
        name = f"object-{digest}.so"
        data = self.cache.get(name)
        if data is None:
            compiled = self._compile(toolbox, prologue, source, kernel)
            if isinstance(compiled, Failure) and compiled.message.startswith("inlining failed"):
                # To nvcc __forceinline__ is a wish; g++ refuses a recursive function.
                compiled = self._compile(toolbox, prologue + _NO_FORCED_INLINING, source, kernel)
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

    def _compile(self, toolbox: Toolbox, prologue: str, source: EmulatorSource, kernel: KernelName) -> bytes | Failure:
        own = {CANDIDATE: "", **source.paths}
        with self.cache.workspace() as folder:
            text = f'{prologue}#line 1 "{CANDIDATE}"\n{source.text}\n#line 1 "{_NAME_FILE}"\n{kernel.expression}\n'
            (folder / CANDIDATE).write_bytes(_encoded(text))
            for name, text in source.headers.items():
                (folder / name).write_bytes(_encoded(text))
            expanded, target, shared = folder / "candidate.ii", folder / "candidate.o", folder / "candidate.so"
            compile_with = [toolbox.compiler, *candidate_flags(toolbox.standard)]
            result = run_compiler(
                [*compile_with, "-E", "-fpch-preprocess", "-include", str(toolbox.shim),
                 "-x", "c++", str(folder / CANDIDATE), "-o", str(expanded)],
                folder, CANDIDATE_SECONDS, own, toolbox.confinement,
            )  # fmt: skip
            if isinstance(result, Failure):
                return result
            tokens, _, tail = expanded.read_bytes().decode("utf-8", "surrogateescape").rpartition(f'# 1 "{_NAME_FILE}"')
            allowed = check_preprocessed(tokens, str(toolbox.shim), own)
            if isinstance(allowed, Failure):
                return allowed
            name = " ".join(tail.split())
            if not _NAME.fullmatch(name):
                return Failure("bad-input", f"{kernel.shown} is not a name the emulator can compile")
            allowed = _shared_declarations(allowed)
            expanded.write_bytes(_encoded(f'{allowed}\n# 1 "{_NAME_FILE}"\n{entry_text(name)}'))
            result = run_compiler(
                [*compile_with, "-fpreprocessed", "-c", str(expanded), "-o", str(target)],
                folder, CANDIDATE_SECONDS, {**own, _NAME_FILE: _NAME_FILE}, toolbox.confinement,
            )  # fmt: skip
            if isinstance(result, Failure):
                return _explained(result, source, kernel)
            data = target.read_bytes()
            elf = read_elf(data)
            problem = check_object(elf, toolbox.exported)
            if problem is not None:
                return problem
            target.write_bytes(without_instrumentation_start(data, elf))
            result = run_compiler(
                [toolbox.compiler, *compile_plan.LINK_FLAGS, str(target), "-lgcc", "-o", str(shared)],
                folder,
                confinement=toolbox.confinement,
            )
            return result if isinstance(result, Failure) else shared.read_bytes()


# What the shim makes of ``__shared__``, and of a declaration ``extern __shared__ T name[];`` in any order of words: an
# array without a size, whose memory the worker has.
_SHARED = r"static __attribute__\(\(aligned\(128\)[^()]*\)\)"
_DYNAMIC_SHARED = re.compile(
    rf"(?:\bextern\b(?P<a>[^;{{}}]*?)\b{_SHARED}|\b{_SHARED}(?P<b>[^;{{}}]*?)\bextern\b)(?P<c>[^;{{}}]*?\[\s*\][^;{{}}]*);"
)
# ``static __shared__`` is common and says what __shared__ says already.
_STATIC_SHARED = re.compile(rf"\bstatic\s+(?P<shared>{_SHARED})|(?P<first>{_SHARED})\s+static\b")
# g++ takes alignas only at the start of a declaration, nvcc anywhere.
_ALIGNAS = re.compile(rf"({_SHARED}\s*)alignas\s*(\((?:[^()]|\([^()]*\))*\))")


def _shared_declarations(text: str) -> str:
    """Shared arrays as g++ can take them, after the fence has seen the text."""
    text = _STATIC_SHARED.sub(
        lambda m: f"{m['shared'] or m['first']}{' ' * bool(m['first'])}" + "\n" * m[0].count("\n"), text
    )
    return _DYNAMIC_SHARED.sub(_bound_to_memory, _ALIGNAS.sub(r"\1__attribute__((aligned\2))", text))


def _bound_to_memory(match: re.Match[str]) -> str:
    return f'extern{match["a"] or match["b"] or " "}{match["c"]} __asm__("optiml_dynamic_shared");'


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _explained(failure: Failure, source: EmulatorSource, kernel: KernelName) -> Failure:
    """Says that the kernel's name is at fault where it is, and names the headers that may be missed."""
    if failure.kind != "compile-error":
        return failure
    if failure.file == _NAME_FILE and failure.message.startswith("unable to deduce"):
        message = f"{kernel.shown} is a template whose arguments are not known, or a name that several kernels have"
        return Failure("unsupported", message)
    if failure.file == _NAME_FILE:
        failure = Failure(failure.kind, f"{kernel.shown}: {failure.message}")
    missing = [name for name in source.missing if "." in name]  # <vector> and its like declare nothing for devices
    return evolve(failure, message=f"{failure.message} (not found: {', '.join(missing)})") if missing else failure


# The line that names the kernel goes through the preprocessor, since template arguments may be macros.
_NAME_FILE = "optiml_kernel_name"
_NAME = re.compile(r"[\w:<>,\s*&()+\-./%?=!|^~']*")


@frozen
class KernelName:
    """One instantiation: ``expression`` in C++ with macros as written, ``shown`` for messages."""

    expression: str
    shown: str


def kernel_name(qualified: str, template_arguments: Sequence[str]) -> KernelName | Failure:
    """Names one instantiation. Template arguments are a candidate's text: only what types and values need passes."""
    shown = f"{qualified}<{', '.join(template_arguments)}>" if template_arguments else qualified
    if not _NAME.fullmatch(shown) or not re.fullmatch(r"[\w:~]+(?:<.*>)?", qualified) or "\n" in shown:
        return Failure("bad-input", f"{shown} is not a name the emulator can compile")
    return KernelName(f"::{shown}", shown)

"""``FILE[:KERNEL]``: which file and which kernel a command is about."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attrs import frozen

from optiml_core.cli.failure import CommandFailure, bad_input
from optiml_core.records import Failure, Kernel
from optiml_core.source import SourceFile, TranslationUnit, parse

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


@frozen
class Target:
    """A parsed file and, where one was named, its kernel and template arguments."""

    path: Path
    unit: TranslationUnit
    kernel: Kernel | None
    template_arguments: tuple[str, ...] | None = None


def split_target(text: str) -> tuple[str, str | None]:
    """Splits at the last single colon that is not part of ``::`` or of an existing file's name."""
    # A long description is no file's name, and asking the system for it is an error.
    if os.path.exists(text):
        return text, None
    match = re.match(r"(?P<file>.+?\.(?:cu|cuh|h|hpp|cc|cpp|inl))(?::(?P<name>.+))?$", text)
    if match:
        return match["file"], match["name"]
    head, colon, tail = text.rpartition(":")
    return (head, tail) if colon and not head.endswith(":") else (text, None)


def open_target(text: str, kernel_option: str | None, *, needs_kernel: bool) -> Target:
    """Reads the file and finds the kernel; raises CommandFailure with the choices where it is not clear."""
    file, name = split_target(text)
    if not file:
        raise bad_input("no file is named", cure="name a .cu file")
    source = SourceFile.read(file)
    if isinstance(source, Failure):
        raise CommandFailure(source, 2)
    unit = parse(source)
    name = kernel_option or name
    arguments: tuple[str, ...] | None = None
    if name and "<" in name and name.endswith(">"):
        name, _, inner = name[:-1].partition("<")
        arguments = tuple(part.strip() for part in inner.split(","))
    kernel = choose_kernel(unit, name, needs_kernel)
    return Target(Path(file), unit, kernel, arguments)


def choose_kernel(unit: TranslationUnit, name: str | None, needed: bool) -> Kernel | None:
    file = unit.source.path
    kernels = unit.kernels
    if not kernels and needed:
        line, message, cure = no_kernels(unit)
        raise bad_input(message, file=file, line=line, cure=cure)
    if not name:
        if not needed:
            return None
        candidates = [kernel for kernel in kernels if unit.launches_of(kernel) or _declared(unit, kernel)]
        candidates = candidates or list(kernels)
        if len(candidates) == 1:
            return candidates[0]
        listing = ", ".join(kernel.qualified for kernel in candidates)
        raise bad_input(
            f"more than one kernel: {listing}", file=file, cure=f"name one: {file}:{candidates[0].qualified}"
        )
    if name.isdigit():
        line = int(name)
        for kernel in kernels:
            if kernel.range.start_line <= line <= kernel.range.end_line:
                return kernel
        raise bad_input(f"no kernel around line {line}", file=file, line=line, cure="give a line inside a kernel")
    matching = [kernel for kernel in kernels if name in (kernel.qualified, kernel.name)]
    exact = [kernel for kernel in matching if kernel.qualified == name] or matching
    if len(exact) == 1:
        return exact[0]
    listing = ", ".join(kernel.qualified for kernel in exact or kernels) or "none"
    what = "is ambiguous" if exact else "is not a kernel of this file"
    raise bad_input(f"{name} {what}", file=file, cure=f"kernels here: {listing}")


def no_kernels(unit: TranslationUnit) -> tuple[int | None, str, str]:
    """Why a file has no kernels that can be read: the line, the reason, the cure."""
    plain = _COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), unit.source.text)
    found = re.search(r"\b__global__\b", plain)
    if found is None:
        return None, "no kernel (__global__ function) in this file", "name a .cu file with a kernel"
    line = plain.count("\n", 0, found.start()) + 1
    start = plain.rfind("\n", 0, found.start()) + 1
    while start > 1 and plain[start - 2 : start] == "\\\n":
        start = plain.rfind("\n", 0, start - 1) + 1
    if plain[start:].lstrip().startswith("#"):
        return line, "the kernels of this file are made by a macro, which is not read", "write the kernel out"
    declared = re.match(r"[^;{]*?(\w+)\s*\([^;{]*;", plain[found.end() :])
    if declared is not None:
        return (
            line,
            f"`{declared.group(1)}` is only declared here",
            "name the file, such as a header, that has the kernel's body",
        )
    return line, "`__global__` begins no kernel that can be read here", "names of ASCII letters, and one kernel in full"


def _declared(unit: TranslationUnit, kernel: Kernel) -> bool:
    """Whether a workload declaration stands in the lines directly above the kernel."""
    lines = unit.source.text.split("\n")
    index = kernel.range.start_line - 2
    while index >= 0 and lines[index].lstrip().startswith("//"):
        if re.match(r"\s*//\s*optiml\b", lines[index]):
            return True
        index -= 1
    return False

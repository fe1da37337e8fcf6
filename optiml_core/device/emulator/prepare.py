"""Turns the device slice of a CUDA file into one C++ translation unit for the emulator."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from optiml_core.device.emulator.compile_plan import ENTRY_SYMBOL
from optiml_core.device.emulator.widening import widen
from optiml_core.records import Failure

_EXTERN_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w:<>\s]+?)\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?"
    r"(\w+)\s*\[\s*\]\s*((?:\[[^\]]*\]\s*)*);"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b(?! "optiml_\d+_[\w.]+"$).*$', re.MULTILINE)


@frozen
class PreparedSource:
    """``text`` is a whole translation unit; line numbers of ``file`` are those of the slice."""

    text: str
    file: str


def prepare_source(
    text: str, file: str, kernel: str, template_arguments: Sequence[str] = (), widened: bool = False
) -> PreparedSource | Failure:
    """Prepares a device slice for g++ with the shim header in front.

    text: the slice, with the line numbers of the user's file. file: the name that debug information
    uses for it. kernel: qualified name. Returns a Failure("unsupported", line=...) for what the
    emulator cannot run.
    """
    body = prepare_body(text, widened)
    if isinstance(body, Failure):
        return body
    name = kernel if not template_arguments else f"{kernel}<{', '.join(template_arguments)}>"
    return PreparedSource(f'#line 1 "{file}"\n{body}\n{entry_point(name)}', file)


def prepare_body(text: str, widened: bool = False) -> str | Failure:
    """The slice alone, line for line, made ready for g++ with the shim in front: no entry point, no #line."""
    body = _INCLUDE.sub("", text)
    if widened:
        wider = widen(body)
        if isinstance(wider, Failure):
            return wider
        body = wider
    return _EXTERN_SHARED.sub(_pointer_for_extern_shared, body)


def entry_point(name: str) -> str:
    """The function through which the worker calls kernel ``name``; its arguments are pointers to values."""
    return (
        '#line 1 "optiml_entry"\n'
        f'extern "C" __attribute__((no_sanitize_thread, visibility("default"))) void {ENTRY_SYMBOL}(void** arguments) '
        f"{{ optiml_call(&{name}, arguments); }}\n"
    )


_TRANSPARENT = re.compile(r'(?:\bnamespace\b[\w\s:]*|\bextern\s*"C")\s*$')


def _at_file_scope(text: str, position: int) -> bool:
    """No brace but those of namespaces and ``extern "C"`` is open at ``position``."""
    open_braces: list[bool] = []
    for brace in re.finditer(r"[{}]", text[:position]):
        if brace[0] == "{":
            open_braces.append(_TRANSPARENT.search(text, max(0, brace.start() - 200), brace.start()) is not None)
        elif open_braces:
            open_braces.pop()
    return all(open_braces)


def _pointer_for_extern_shared(match: re.Match[str]) -> str:
    if _at_file_scope(match.string, match.start()):
        return match[0]  # a pointer would need an initialiser; the build binds the array to its memory instead
    element, name, dimensions = match.groups()
    lines = "\n" * match.group(0).count("\n")
    pointer = f"(*{name}){dimensions}" if dimensions else f"*{name}"
    cast = f"{element} (*){dimensions}" if dimensions else f"{element}*"
    return f"{element} {pointer} = ({cast})optiml_device_dynamic_shared();{lines}"

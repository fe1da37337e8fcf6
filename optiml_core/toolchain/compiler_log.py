"""What a compiler's log says: resources of each kernel, and the messages about the file's own lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from attrs import frozen

from optiml_core.records import Failure, ResourceUsage

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
# nvcc leaves the stack line bare, NVRTC begins it with "ptxas         .", so that the expressions are not anchored.
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")
_PART = re.compile(r"(\d+) bytes (smem|lmem|cmem\[\d+\]|gmem)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SPILL_NOTE = re.compile(r"(?i)warning.*(?:spill|register).*")


def resource_usage(log: str) -> dict[str, ResourceUsage]:
    """Resources of every kernel in a ptxas log (``-Xptxas -v`` of nvcc, ``--ptxas-options=-v`` of NVRTC), by its name.

    Both shapes of the log are read. ``shared`` is static shared memory without what the system keeps for itself.
    """
    found: dict[str, ResourceUsage] = {}
    name = architecture = ""
    stack = (0, 0, 0)
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name, architecture, stack = entry[1], entry[2], (0, 0, 0)
        elif frame := _STACK.search(line):
            stack = (int(frame[1]), int(frame[2]), int(frame[3]))
        elif (used := _USED.search(line)) and name:
            parts = {kind: int(size) for size, kind in _PART.findall(used[2])}
            barriers = _BARRIERS.search(used[2])
            found[name] = ResourceUsage(
                registers=int(used[1]),
                shared=parts.get("smem", 0),
                stack=stack[0],
                spill_stores=stack[1],
                spill_loads=stack[2],
                constant=sum(size for kind, size in parts.items() if kind.startswith("cmem")),
                architecture=architecture,
                barriers=int(barriers[1]) if barriers else 0,
            )
            name = ""
    return found


@frozen
class CompilerMessage:
    """One message about a line of the file or one of the project's headers."""

    file: str
    line: int
    severity: str  # "error" or "warning"
    text: str


_MESSAGE = re.compile(
    r"^(?P<file>[^\n]*?)(?:\((?P<line>\d+)\)|:(?P<host_line>\d+):\d+): "
    r"(?P<kind>(?:catastrophic )?error|warning)(?: #[\w-]+)?: (?P<text>.*)$"
)


def own_messages(log: str, files: Mapping[str, str]) -> tuple[CompilerMessage, ...]:
    """The messages about our own files only. ``files``: name as the compiler prints it -> path to show.

    Everything else is dropped, above all excerpts of other files: a candidate must not be able to print them.
    """
    found: dict[CompilerMessage, None] = {}
    for line in log.splitlines():
        matched = _MESSAGE.match(line)
        if matched is None:
            continue
        path = files.get(matched["file"])
        if path is None:
            continue
        severity = "warning" if matched["kind"] == "warning" else "error"
        line_number = int(matched["line"] or matched["host_line"])
        found[CompilerMessage(path, line_number, severity, _without_foreign(matched["text"], files))] = None
    return tuple(found)


def _without_foreign(text: str, files: Collection[str]) -> str:
    """A message may name another place (``previous definition at line 3 of x.h``): only our own files stay named."""

    def named(found: re.Match[str]) -> str:
        return found[0] if found[1] in files or found[1].isidentifier() else "of a header"

    return re.sub(r"\bof (\S+?)(?=[)\s]|$)", named, text)


def own_log(log: str, files: Mapping[str, str]) -> str:
    """The messages about our own files, one a line: ``file:line: severity: text``."""
    return "\n".join(f"{m.file}:{m.line}: {m.severity}: {m.text}" for m in own_messages(log, files))


_UNDECLARED = re.compile(r"undefined|not declared|no member|not a (?:class|template|type)|expected|does not apply")


def compile_failure(
    log: str, files: Mapping[str, str], missing: Collection[str], included: Collection[str] = ()
) -> Failure:
    """A Failure ``compile-error`` with the first errors about our own lines and the line of the first.

    ``missing``: headers that were left out because they were not found; they are named as the likely cause where an
    error is about an undefined name. ``included``: NVIDIA's headers that the compiler was told to include.
    """
    messages = [message for message in own_messages(log, files) if message.severity == "error"]
    if not messages and (found := _NAME_MAP.search(log)):
        # NVRTC's own place for the text that names the instantiation, which is ours.
        return Failure("compile-error", f"the kernel cannot be instantiated like this: {found[1]}")
    if not messages and (opened := _NOT_OPENED.search(log)) and (opened[1] or opened[2]) in included:
        header = opened[1] or opened[2]
        cure = "install the part of the CUDA toolkit that has it, or name its folder with -I"
        return Failure("compile-error", f"the header {header}, which the kernel uses, was not found", cure=cure)
    if not messages:
        # An error in a header of the compiler's, or one without a line (ptxas): say that much and no more.
        reason = _reason_without_line(log)
        return Failure("compile-error", reason, cure=_about_missing(missing))
    text = "\n".join(f"line {message.line}: {message.text}" for message in messages[:5])
    if len(messages) > 5:
        text += f"\nand {len(messages) - 5} more errors"
    cure = _about_missing(missing) if any(_UNDECLARED.search(message.text) for message in messages) else ""
    return Failure("compile-error", text, messages[0].file, messages[0].line, cure=cure)


def _about_missing(missing: Collection[str]) -> str:
    if not missing:
        return ""
    names = ", ".join(sorted(missing))
    return f"headers that were not found may declare what is missing: {names}; name their folders with -I"


_NAME_MAP = re.compile(r"^(?:__nv_name_map|optiml_instantiation)\(\d+\): error: (.*)$", re.MULTILINE)
_NOT_OPENED = re.compile(r'cannot open source file "([^"\n]+)"|fatal error: (\S+): No such file')
_PTXAS = re.compile(r"ptxas (?:error|fatal)\s*: (.*)")
_LIMIT = re.compile(r"(?:uses too much|too many|exceeds|too large|not supported|requires)[^\n]{0,200}")


def _reason_without_line(log: str) -> str:
    found = _PTXAS.search(log)
    if found is not None and _LIMIT.search(found[1]):
        return found[1][:300]
    return "the compiler rejected the code with no message about one of the file's own lines"

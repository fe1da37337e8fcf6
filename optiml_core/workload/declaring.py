"""Writing a workload into its file as a declaration, to be corrected there."""

from __future__ import annotations

from optiml_core.records import Edit, Failure
from optiml_core.source import TranslationUnit
from optiml_core.workload.declaration import declaration_lines
from optiml_core.workload.record import Workload


def declare_edit(unit: TranslationUnit, workload: Workload) -> Edit | Failure:
    """The edit that writes ``workload.text`` directly above its kernel, indented like it and with the file's line ends.

    Lines that declare a part of it already are replaced, since the text has their items too. ``unit`` must be the
    file that defines the kernel. Failure ``refused`` where other comments stand between such lines.
    """
    kernel = workload.kernel
    data = unit.source.data
    if kernel.file != unit.source.path:
        return Failure("bad-input", f"`{kernel.qualified}` is defined in {kernel.file}", kernel.file)
    lines = declaration_lines(unit.source.text, kernel)
    ending = b"\r\n" if b"\r\n" in data else b"\n"
    start = _line_start(data, kernel.range.start_byte)
    indentation = data[start : kernel.range.start_byte]
    indentation = indentation if not indentation.strip() else b""
    end = start
    if lines:
        if lines != list(range(lines[0], lines[-1] + 1)):
            cure = "move them above the first `// optiml:` line"
            message = "other comments stand between the lines of the declaration"
            return Failure("refused", message, kernel.file, lines[0], cure=cure)
        start, end = _offset_of_line(data, lines[0]), _offset_of_line(data, lines[-1] + 1)
    written = b"".join(indentation + line.encode() + ending for line in workload.text.split("\n"))
    return Edit(kernel.file, start, end, written)


def _line_start(data: bytes, offset: int) -> int:
    return data.rfind(b"\n", 0, offset) + 1


def _offset_of_line(data: bytes, line: int) -> int:
    """The byte offset at which a 1-based line begins."""
    offset = 0
    for _ in range(line - 1):
        offset = data.index(b"\n", offset) + 1
    return offset

"""One file's bytes, and the way between byte offsets and positions that people and editors use."""

from __future__ import annotations

import re
import stat
from bisect import bisect_right
from functools import cached_property
from pathlib import Path

from attrs import define, field

from optiml_core.records import Failure, SourceRange

UTF8_BOM = b"\xef\xbb\xbf"
LARGEST_FILE = 64 * 1024 * 1024  # bytes; the largest real .cu file seen is about 1 MB

_NEWLINE = re.compile(rb"\n")


@define(frozen=True, slots=False)
class SourceFile:
    """A file as it stands: ``data`` are its bytes, and nothing is ever changed about them.

    Line ends, a byte order mark, tabs and bytes that are not UTF-8 stay where they are: every
    offset in this package counts bytes of ``data``. Lines and columns count from 1; a column
    counts code points (a byte that is not UTF-8 counts as one; a byte order mark as none).
    """

    path: str
    data: bytes = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> SourceFile | Failure:
        """Reads a regular file of at most ``LARGEST_FILE`` bytes; anything else is a ``Failure``."""
        text_path = str(path)
        try:
            status = Path(path).stat()
            # Only regular files: a FIFO or a device named like a header would block us for ever.
            if not stat.S_ISREG(status.st_mode):
                return Failure("bad-input", f"{text_path} is not a regular file", file=text_path)
            if status.st_size > LARGEST_FILE:
                return Failure("bad-input", f"{text_path} is larger than {LARGEST_FILE} bytes", file=text_path)
            data = Path(path).read_bytes()
        except FileNotFoundError:
            return Failure("bad-input", f"{text_path} does not exist", file=text_path)
        except (OSError, ValueError) as error:
            return Failure("bad-input", f"{text_path} cannot be read: {error}", file=text_path)
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return Failure(
                "bad-input",
                f"{text_path} is UTF-16, which CUDA compilers do not read",
                file=text_path,
                cure="Save it as UTF-8.",
            )
        return cls(text_path, data)

    @cached_property
    def text(self) -> str:
        """The text for people: bytes that are not UTF-8 become U+FFFD, so never encode it back."""
        return self.data.removeprefix(UTF8_BOM).decode("utf-8", "replace")

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Byte offset of the start of each line (after the byte order mark for the first)."""
        first = len(UTF8_BOM) if self.data.startswith(UTF8_BOM) else 0
        return (first, *(match.end() for match in _NEWLINE.finditer(self.data)))

    @cached_property
    def newline(self) -> bytes:
        """The line end that most lines use: ``b"\\r\\n"`` or ``b"\\n"``."""
        crlf = self.data.count(b"\r\n")
        return b"\r\n" if crlf * 2 > self.data.count(b"\n") else b"\n"

    def line_of(self, byte: int) -> int:
        """The line (from 1) that holds a byte offset; offsets outside the file are clamped."""
        return max(1, bisect_right(self.line_starts, byte))

    def position(self, byte: int) -> tuple[int, int]:
        """Line and column (both from 1) of a byte offset; offsets outside the file are clamped."""
        byte = min(max(byte, self.line_starts[0]), len(self.data))
        line = bisect_right(self.line_starts, byte)
        return line, len(self.data[self.line_starts[line - 1] : byte].decode("utf-8", "replace")) + 1

    def line_bytes(self, line: int) -> bytes:
        """The bytes of a line (from 1) without its line end; empty outside the file."""
        if not 1 <= line <= len(self.line_starts):
            return b""
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.data)
        text = self.data[self.line_starts[line - 1] : end]
        return text.removesuffix(b"\n").removesuffix(b"\r") if text.endswith(b"\n") else text

    def byte_at(self, line: int, column: int) -> int:
        """The byte offset of a line and column (from 1); beyond a line's end is the line's end."""
        if line < 1:
            return self.line_starts[0]
        if line > len(self.line_starts):
            return len(self.data)
        text = self.line_bytes(line)
        return self.line_starts[line - 1] + _bytes_of_code_points(text, column - 1)

    def utf16_position(self, byte: int) -> tuple[int, int]:
        """Line and character as the language server protocol counts: from 0, in UTF-16 units."""
        byte = min(max(byte, self.line_starts[0]), len(self.data))
        line = bisect_right(self.line_starts, byte)
        text = self.data[self.line_starts[line - 1] : byte].decode("utf-8", "replace")
        return line - 1, len(text) + sum(ord(character) > 0xFFFF for character in text)

    def byte_at_utf16(self, line: int, character: int) -> int:
        """The byte offset of a protocol position (line and UTF-16 unit from 0), clamped to the line."""
        text = self.line_bytes(line + 1).decode("utf-8", "replace")
        units = 0
        for column, code_point in enumerate(text):
            if units >= character:
                return self.byte_at(line + 1, column + 1)
            units += 2 if ord(code_point) > 0xFFFF else 1
        return self.byte_at(line + 1, len(text) + 1)

    def range(self, start: int, end: int) -> SourceRange:
        """The half-open byte range ``start`` to ``end`` with its position for people."""
        start_line, start_column = self.position(start)
        end_line, end_column = self.position(end)
        return SourceRange(self.path, start, end, start_line, start_column, end_line, end_column)

    def slice(self, range_: SourceRange) -> str:
        """The text of a range, for people."""
        return self.data[range_.start_byte : range_.end_byte].decode("utf-8", "replace")


def _bytes_of_code_points(text: bytes, count: int) -> int:
    """How many bytes the first ``count`` code points of ``text`` take."""
    if count <= 0:
        return 0
    if text.isascii():
        return min(count, len(text))
    # Grow the prefix until it decodes to that many code points: lines are short.
    decoded = text.decode("utf-8", "replace")
    if count >= len(decoded):
        return len(text)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if len(text[:middle].decode("utf-8", "replace")) < count:
            low = middle + 1
        else:
            high = middle
    # ``low`` may stand inside a character whose first bytes already count as one replacement.
    while low < len(text) and (text[low] & 0xC0) == 0x80 and len(text[: low + 1].decode("utf-8", "replace")) == count:
        low += 1
    return low

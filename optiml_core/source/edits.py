"""Edits of bytes, and the unified diff that shows them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from optiml_core.records import Edit, Failure

CONTEXT_LINES = 3


def apply_edits(data: bytes, edits: Iterable[Edit]) -> bytes | Failure:
    """``data`` with all edits applied at once: offsets of every edit count in the original ``data``.

    Edits may come in any order. Two edits that overlap, or an edit outside the data, are a
    ``Failure`` of kind ``bad-input``. Insertions at one place are applied in the order given; an
    insertion at the start or end of a replaced range stands before or after the replacement.
    """
    ordered = sorted(enumerate(edits), key=lambda item: (item[1].start_byte, item[1].end_byte, item[0]))
    pieces: list[bytes] = []
    at = 0
    for _, edit in ordered:
        if not 0 <= edit.start_byte <= edit.end_byte <= len(data):
            where = f"bytes {edit.start_byte} to {edit.end_byte}"
            return Failure("bad-input", f"an edit of {where} lies outside the file", edit.file)
        if edit.start_byte < at:
            line = data.count(b"\n", 0, edit.start_byte) + 1
            return Failure("bad-input", "two edits overlap", edit.file, line)
        pieces.append(data[at : edit.start_byte])
        pieces.append(edit.replacement)
        at = edit.end_byte
    pieces.append(data[at:])
    return b"".join(pieces)


def _lines(data: bytes) -> list[bytes]:
    """The lines with their ends; only ``\\n`` ends a line, as git counts."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", data)


def _git_path(prefix: str, path: str) -> str:
    """The path as git writes it in a header: quoted when it holds characters that need it."""
    whole = f"{prefix}/{path}" if prefix else path
    raw = whole.encode("utf-8", "surrogateescape")
    if re.fullmatch(rb"[ !#-\[\]-~]*", raw):
        # A name with a space needs a tab behind it, or the reader takes the rest for a time stamp.
        return whole + ("\t" if " " in whole else "")
    escapes = {0x22: '\\"', 0x5C: "\\\\", 0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
    return '"' + "".join(escapes.get(b) or (chr(b) if 0x20 <= b < 0x7F else f"\\{b:03o}") for b in raw) + '"'


def unified_diff(before: bytes, after: bytes, path: str) -> str:
    """The patch from ``before`` to ``after`` as ``git apply`` takes it; empty if they are equal.

    ``path`` is relative to the repository's root, with forward slashes. Carriage returns stay in
    the lines, and a missing newline at the end is marked. Write the result as
    ``diff.encode("utf-8", "surrogateescape")`` with no newline translation: bytes that are not
    UTF-8 travel as surrogates, so that the patch has exactly the file's bytes.
    """
    return unified_diff_bytes(before, after, path).decode("utf-8", "surrogateescape")


def unified_diff_bytes(before: bytes, after: bytes, path: str) -> bytes:
    """As ``unified_diff``, as bytes ready to be written to a file."""
    if before == after:
        return b""
    path = path.lstrip("/")
    old, new = _lines(before), _lines(after)
    out: list[bytes] = [
        f"--- {_git_path('a', path)}\n".encode("utf-8", "surrogateescape"),
        f"+++ {_git_path('b', path)}\n".encode("utf-8", "surrogateescape"),
    ]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        out.append(f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n".encode())
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                out.extend(_marked(b" ", old[old_start:old_end]))
                continue
            out.extend(_marked(b"-", old[old_start:old_end]))
            out.extend(_marked(b"+", new[new_start:new_end]))
    return b"".join(out)


def _marked(mark: bytes, lines: list[bytes]) -> Iterable[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"


def _span(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"

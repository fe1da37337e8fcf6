"""The text of one file of a device slice: what is kept stands where it stood, everything else is blank."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from optiml_core.source.lexical import Directive, blank
from optiml_core.toolchain.slice_includes import ResolvedInclude
from optiml_core.toolchain.slice_items import CutFile, Item, cut_members

_CONDITIONALS = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"})
_KEPT_DIRECTIVES = _CONDITIONALS | {"define", "undef", "error", "warning", "pragma", "include"}
_KEPT_PRAGMAS = re.compile(
    r"(?:unroll|nounroll|once|push_macro|pop_macro|nv_\w+|diag_\w+|hd_warning_disable)\b.*", re.DOTALL
)
_COMMENT = re.compile(
    rb'//(?:[^\\\n]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')', re.DOTALL
)
_HAS_INCLUDE = re.compile(r"__has_(?:include|include_next|embed)\b")
_LITERAL_HAS_INCLUDE = re.compile(r'__has_include\s*\(\s*(?:<(?!/)[\w./+-]+>|"(?!/)[\w./+-]+")\s*\)')
_PRAGMA_OPERATOR = re.compile(r'\b(?:_Pragma|__pragma)\b(?!\s*\(\s*"\s*(?:unroll|nounroll|nv_\w+)\b[^"\\]*"\s*\))')
_SPLICE = re.compile(r"\\[ \t\f\v\r]*\n")
_DIRECTIVE_LINE = re.compile(r"^[ \t\f\v\r]*(?:#|%:|\?\?=)", re.MULTILINE)


def rendered(
    file: CutFile,
    items: Sequence[Item],
    includes: Mapping[int, ResolvedInclude],
    names: Mapping[str, str],
    is_device: Callable[[Item], bool],
    whole: bool,
) -> str:
    """The text of a file with only ``items`` and the directives that matter; as long and with the same lines.

    Host-only members of kept types are blanked. ``whole``: keep everything but comments, for a header that is included
    inside a declaration. Includes of the project's headers become includes of their names in the slice.
    """
    out = bytearray(blank(file.data))
    ranges = [(0, len(file.data))] if whole else [(item.start, item.end) for item in items]
    for start, end in ranges:
        out[start:end] = file.data[start:end]
    if not whole:
        for item in items:
            for start, end in _host_members(file, item, is_device):
                out[start:end] = blank(file.data[start:end])
    for span in file.scan.spans:
        if span.kind != "string":
            out[span.start : span.end] = blank(file.data[span.start : span.end])
    text = bytes(out)
    pieces: list[bytes] = []
    at = 0
    for directive in file.scan.directives:
        kept = _directive(file.data, directive, includes.get(directive.start), names)
        if kept is not None:
            pieces += [text[at : directive.start], kept]
            at = directive.end
    pieces.append(text[at:])
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def _host_members(file: CutFile, item: Item, is_device: Callable[[Item], bool]) -> list[tuple[int, int]]:
    """The member functions of a type that only the host can call: they may use what a device slice does not have."""
    if item.kind != "type" or item.body is None:
        return []
    found: list[tuple[int, int]] = []
    for member in cut_members(file, item.body):
        if member.kind == "type":
            found += _host_members(file, member, is_device)
        elif member.kind == "function" and not is_device(member) and "virtual" not in member.words:
            text = file.scan.skeleton[member.start : member.end]
            if not re.search(rb"=\s*(?:default|delete|0)\s*;", text):
                found.append((member.start, member.end))
    return found


def _directive(
    data: bytes, directive: Directive, include: ResolvedInclude | None, names: Mapping[str, str]
) -> bytes | None:
    """The directive as the slice has it, on as many lines; None to leave it blank."""
    if directive.word not in _KEPT_DIRECTIVES:
        return None
    if directive.word == "include":
        if include is None or include.file is None:
            return None
        lines = data.count(b"\n", directive.start, directive.end)
        return b'#include "' + names[include.file.path].encode() + b'"' + b"\n" * lines
    if directive.word == "pragma" and not _KEPT_PRAGMAS.fullmatch(directive.text):
        return None
    return _COMMENT.sub(lambda found: found[1] or blank(found[0]), data[directive.start : directive.end])


def hidden_danger(file: CutFile, text: str) -> tuple[int, str] | None:
    """What a compiler would read as a directive or a probe and our scan did not: (line, reason), or None.

    The scan decides what is code. Text made to be read otherwise by a compiler (digraphs, trigraphs, a literal that
    only one side takes for one) would let a candidate include any file, so it is refused.
    """
    kept = [directive for directive in file.scan.directives if directive.word in _KEPT_DIRECTIVES]
    ends = [found.start() for found in re.finditer(b"\n", file.data)]
    known: set[int] = set()
    for directive in kept:
        # A macro's text may go on over lines that begin with "#", the operator.
        known.update(range(bisect_left(ends, directive.start), bisect_left(ends, directive.end) + 1))
    line_ends = [found.start() for found in re.finditer("\n", text)]
    for found in _DIRECTIVE_LINE.finditer(text):
        line = bisect_left(line_ends, found.end())
        if line not in known or found.group().strip() != "#":
            return line + 1, "text that a compiler would read as a hidden preprocessor directive is refused"
    spliced = _SPLICE.sub("", text)
    if len(_DIRECTIVE_LINE.findall(spliced)) > len(kept) or "??/" in text:
        return 1, "text that joins lines into a preprocessor directive is refused"
    for found in _HAS_INCLUDE.finditer(spliced):
        literal = _LITERAL_HAS_INCLUDE.match(spliced, found.start())
        if literal is None or ".." in literal[0]:
            return _line_in(text, found[0]), f"{found[0]} of anything but a relative header name is refused"
    found_pragma = _PRAGMA_OPERATOR.search(spliced)
    if found_pragma is not None:
        return _line_in(text, found_pragma[0]), "a _Pragma other than unroll is refused"
    return None


def _line_in(text: str, word: str) -> int:
    at = text.find(word)
    return text.count("\n", 0, at) + 1 if at >= 0 else 1

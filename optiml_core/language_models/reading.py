"""Reads what a model answered: tolerant of form, strict about what is taken over.

Whatever a model says is data. Nothing of it is run, and only these things are taken: a few words about its idea,
names from our own vocabulary, and an edit of the one kernel it was asked about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from optiml_core.records import Failure, Kernel
from optiml_core.source import SourceFile, parse

FENCE = re.compile(r"```(?P<kind>[\w+-]*)[^\n]*\n(?P<body>.*?)(?:\n```|\Z)", re.DOTALL)
LONGEST_WORDS = 400
LONGEST_ANSWER = 1 << 20
MOST_BRACES = 64  # places at which an object is looked for

HUNK = re.compile(r"^@@+ -(?P<start>\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


@frozen
class ReadAnswer:
    """``data``: the whole new file, None if the answer only names an idea. ``rewrites``: names it asked for."""

    bottleneck: str
    idea: str
    expected_effect: str
    rewrites: tuple[str, ...]
    data: bytes | None


def read_proposal(text: str, source: SourceFile, kernel: Kernel, vocabulary: Iterable[str]) -> ReadAnswer | Failure:
    """The proposal in a model's answer, applied to ``source``; a Failure says what a repair should mend."""
    if len(text) > LONGEST_ANSWER:
        return Failure("bad-answer", f"an answer of {len(text)} characters is no kernel")
    head = read_json_object(text)
    named = head.get("rewrites")
    names = set(vocabulary)
    rewrites = tuple(str(name) for name in named if str(name) in names) if isinstance(named, list) else ()
    data = _edited(text, source, kernel)
    if isinstance(data, Failure):
        return data
    if data is None and not rewrites:
        return Failure("bad-answer", "the answer holds neither a diff nor a kernel")
    if data is not None:
        refusal = refuse_edit(source, kernel, data)
        if refusal is not None:
            return refusal
    return ReadAnswer(
        _words(head.get("bottleneck")), _words(head.get("idea")), _words(head.get("expected_effect")), rewrites, data
    )


def read_json_object(text: str) -> dict[str, Any]:
    """The first JSON object in ``text``, wherever it stands; an empty one if there is none that can be read."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(MOST_BRACES):
        if at < 0:
            break
        try:
            value, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
        at = text.find("{", at + 1)
    return {}


def _words(value: Any) -> str:
    return " ".join(str(value).split())[:LONGEST_WORDS] if isinstance(value, (str, int, float)) else ""


def _edited(text: str, source: SourceFile, kernel: Kernel) -> bytes | Failure | None:
    blocks = [(match["kind"].lower(), match["body"]) for match in FENCE.finditer(text)]
    for kind, body in blocks:
        if kind in ("diff", "patch") or body.startswith(("--- ", "@@ ")):
            return apply_diff(source.data, body)
    for kind, body in blocks:
        if kind != "json" and "__global__" in body:
            return replace_kernel(source, kernel, body)
    if not blocks and "__global__" in text:
        return replace_kernel(source, kernel, text[text.index("__global__") :])
    return None


def apply_diff(data: bytes, diff: str) -> bytes | Failure:
    """Applies a unified diff by its lines, not by its numbers: models count badly.

    Every hunk's old lines must stand in the file, white space at line ends aside, at exactly one place, or at the
    place nearest to the number the hunk gives.
    """
    ending = b"\r\n" if b"\r\n" in data else b"\n"
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    for start, old, new in _hunks(diff):
        places = _places(lines, old)
        if not places:
            shown = next((line for line in old if line.strip()), b"").decode("utf-8", "replace")
            message = f"the diff does not apply: its lines from {shown[:80]!r} on are not in the file"
            return Failure("bad-answer", message)
        place = min(places, key=lambda at: abs(at - start))
        if len(places) > 1 and not any(line.strip() for line in old):
            return Failure("bad-answer", "the diff does not say where it belongs")
        lines[place : place + len(old)] = new
    return ending.join(lines)


def _hunks(diff: str) -> list[tuple[int, list[bytes], list[bytes]]]:
    hunks: list[tuple[int, list[bytes], list[bytes]]] = []
    for line in diff.split("\n"):
        line = line.rstrip("\r")
        match = HUNK.match(line)
        if match:
            hunks.append((int(match["start"]) - 1, [], []))
        elif line.startswith("@@"):
            hunks.append((0, [], []))
        elif not hunks or line.startswith(("--- ", "+++ ", "\\ ")):
            continue
        elif line.startswith("+"):
            hunks[-1][2].append(line[1:].encode())
        elif line.startswith("-"):
            hunks[-1][1].append(line[1:].encode())
        else:
            text = (line[1:] if line.startswith(" ") else line).encode()
            hunks[-1][1].append(text)
            hunks[-1][2].append(text)
    return [hunk for hunk in (_without_trailing_blank(*h) for h in hunks) if hunk[1] or hunk[2]]


def _without_trailing_blank(start: int, old: list[bytes], new: list[bytes]) -> tuple[int, list[bytes], list[bytes]]:
    while old and new and not old[-1] and not new[-1]:
        old, new = old[:-1], new[:-1]
    return start, old, new


def _places(lines: list[bytes], old: list[bytes]) -> list[int]:
    if not old:
        return []
    wanted = [line.rstrip() for line in old]
    have = [line.rstrip() for line in lines]
    return [at for at in range(len(have) - len(wanted) + 1) if have[at : at + len(wanted)] == wanted]


def replace_kernel(source: SourceFile, kernel: Kernel, text: str) -> bytes | Failure:
    """Puts a whole kernel (with the device functions and comment lines around it in ``text``) in its old place."""
    written = parse(SourceFile(source.path, text.encode()))
    found = [other for other in written.kernels if other.name == kernel.name]
    if len(found) != 1 or len(written.kernels) != 1:
        names = ", ".join(other.name for other in written.kernels) or "none"
        return Failure("bad-answer", f"the answer must hold the kernel {kernel.name} alone; it holds: {names}")
    body = written.source.data
    start = 0
    for include in re.finditer(rb"^[ \t]*#[ \t]*include[^\n]*\n", body, re.MULTILINE):
        start = max(start, include.end())  # the file has its includes already
    piece = body[start : found[0].range.end_byte].strip(b"\n")
    if b"\r\n" in source.data:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    first = _with_declaration(source, kernel) if b"optiml:" in piece else kernel.range.start_byte
    return source.data[:first] + piece + source.data[kernel.range.end_byte :]


def _with_declaration(source: SourceFile, kernel: Kernel) -> int:
    """Where the comment lines directly above the kernel begin, so that a new declaration replaces the old."""
    at = kernel.range.start_byte
    while True:
        line_start = source.data.rfind(b"\n", 0, max(at - 1, 0)) + 1
        line = source.data[line_start:at].strip()
        if at == 0 or not line.startswith(b"// optiml"):
            return at
        at = line_start


def refuse_edit(source: SourceFile, kernel: Kernel, data: bytes) -> Failure | None:
    """Why a model's edit is not even compiled: changed signature, host code, other kernels, new includes or streams."""
    before, after = parse(source), parse(SourceFile(source.path, data))
    now = after.kernel(kernel.qualified)
    if now is None:
        return Failure("refused", f"the kernel {kernel.name} is gone")
    old_types = [parameter.type for parameter in kernel.parameters]
    if [parameter.type for parameter in now.parameters] != old_types or len(now.parameters) != len(old_types):
        return Failure("refused", "the kernel's parameters changed; keep their types and order")
    if [other.qualified for other in after.kernels] != [other.qualified for other in before.kernels]:
        return Failure("refused", "the file's set of kernels changed; edit the one kernel only")
    if {include.name for include in after.includes} - {include.name for include in before.includes}:
        return Failure("refused", "the edit adds an include; use what the file has")
    if _host_text(before.source, before.kernels) != _host_text(after.source, after.kernels):
        added = _added_lines(_host_text(before.source, before.kernels), _host_text(after.source, after.kernels))
        if any(not _is_device_text(line) for line in added):
            return Failure("refused", "the edit changes host code; edit device code only")
    return None


def _host_text(source: SourceFile, kernels: Iterable[Kernel]) -> list[bytes]:
    text = bytearray(source.data)
    for kernel in sorted(kernels, key=lambda k: -k.range.start_byte):
        del text[kernel.range.start_byte : kernel.range.end_byte]
    return [line.strip() for line in bytes(text).splitlines() if line.strip() and not line.strip().startswith(b"//")]


def _added_lines(before: list[bytes], after: list[bytes]) -> list[bytes]:
    import difflib

    changed = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [line for tag, _, _, low, high in changed if tag in ("insert", "replace") for line in after[low:high]] + [
        line for tag, low, high, _, _ in changed if tag in ("delete", "replace") for line in before[low:high]
    ]


def _is_device_text(line: bytes) -> bool:
    """Lines that may be added outside a kernel: device functions, constants, macros, template heads, braces."""
    host = (b"main", b"cuda", b"<<<", b"std::", b"printf", b"malloc", b"system", b"exec", b"popen", b"fopen")
    return not any(word in line for word in host)

"""Launch sites: ``kernel<<<grid, block, shared, stream>>>(arguments)`` and ``cudaLaunchKernel``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optiml_core.records import LaunchSite, SourceRange
from optiml_core.source.declarations import squeeze
from optiml_core.source.function_ranges import function_ranges, range_around
from optiml_core.source.lexical import LexicalScan, name_before, split_at_commas
from optiml_core.source.source_file import SourceFile

Functions = Sequence[tuple[int, int]]
_CHEVRONS = re.compile(rb"<<<")
_API = re.compile(rb"cudaLaunch(?:Cooperative)?Kernel\s*(?:<[^;{}()]*>\s*)?\(")
_CAST = re.compile(
    r"\(\s*(?:const\s+)?void\s*\*\s*\)"
    r"|(?:reinterpret_cast|static_cast)\s*<\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*>"
)
_BRACED = re.compile(r"\{(.*)\}", re.DOTALL)


def read_launch_sites(
    source: SourceFile, scan: LexicalScan, skeleton: bytes, plain: bytes, start: int, end: int
) -> tuple[LaunchSite, ...]:
    """The launches whose ``<<<`` (or call) stands between two offsets of the file, in order. Launches
    inside a macro's body are not among them. ``skeleton``: the code only; ``plain``: without comments."""
    chevrons, calls = [*_CHEVRONS.finditer(skeleton, start, end)], [*_API.finditer(skeleton, start, end)]
    if not chevrons and not calls:
        return ()
    functions = function_ranges(scan, skeleton)
    found: list[LaunchSite] = []
    for match in chevrons:
        site = _chevron_site(source, skeleton, plain, functions, match.start())
        if site is not None:
            found.append(site)
    for match in calls:
        site = _api_site(source, skeleton, plain, functions, match)
        if site is not None:
            found.append(site)
    return tuple(sorted(found, key=lambda s: s.range.start_byte))


def _text(plain: bytes, part: tuple[int, int]) -> str:
    return squeeze(plain[part[0] : part[1]].decode("utf-8", "replace"))


def _trimmed(plain: bytes, part: tuple[int, int]) -> tuple[int, int]:
    start, end = part
    while start < end and plain[start : start + 1].isspace():
        start += 1
    while end > start and plain[end - 1 : end].isspace():
        end -= 1
    return start, end


def _range(source: SourceFile, plain: bytes, part: tuple[int, int]) -> SourceRange:
    return source.range(*_trimmed(plain, part))


def _end_of_configuration(skeleton: bytes, at: int) -> int | None:
    """Offset of the ``>>>`` that ends the configuration beginning behind ``<<<``; brackets are skipped."""
    depth = 0
    while at < len(skeleton):
        byte = skeleton[at]
        if byte in b"([{":
            depth += 1
        elif byte in b")]}":
            depth -= 1
            if depth < 0:
                return None
        elif byte == 0x3B:
            return None
        elif depth == 0 and byte == 0x3E and skeleton[at : at + 3] == b">>>":
            return at
        at += 1
    return None


_STATEMENT_SIGNS = re.compile(rb"[(){};]")


def _closing_in_statement(skeleton: bytes, opening: int) -> int | None:
    """The ``)`` that closes the ``(`` at ``opening``, or None if its statement ends before. The braces
    of an initialiser or a lambda among the arguments may hold statements of their own."""
    parentheses = braces = 0
    for match in _STATEMENT_SIGNS.finditer(skeleton, opening):
        sign = match[0]
        if sign == b"{":
            braces += 1
        elif sign == b"}":
            braces -= 1
        elif braces == 0 and sign != b";":
            parentheses += 1 if sign == b"(" else -1
            if parentheses == 0:
                return match.start()
        if braces < 0 or (braces == 0 and sign == b";"):
            return None
    return None


def _chevron_site(
    source: SourceFile, skeleton: bytes, plain: bytes, functions: Functions, at: int
) -> LaunchSite | None:
    end = _end_of_configuration(skeleton, at + 3)
    if end is None:
        return None
    opening = end + 3
    while skeleton[opening : opening + 1].isspace():
        opening += 1
    if skeleton[opening : opening + 1] != b"(":
        return None
    closing = _closing_in_statement(skeleton, opening)
    head = _head(skeleton, plain, at)
    if closing is None or head is None:
        return None
    start, name, template_arguments = head
    configuration = split_at_commas(skeleton, at + 3, end)
    if not configuration:
        return None
    if len(configuration) == 1:
        configuration = [*configuration, (end, end)]
    return _site(source, plain, functions, (start, closing + 1), name, template_arguments, configuration,
                 _arguments(skeleton, plain, opening, closing))  # fmt: skip


def _arguments(skeleton: bytes, plain: bytes, opening: int, closing: int) -> tuple[str, ...]:
    return tuple(_text(plain, part) for part in split_at_commas(skeleton, opening + 1, closing))


def _site(
    source: SourceFile,
    plain: bytes,
    functions: Functions,
    whole: tuple[int, int],
    name: str,
    template_arguments: tuple[str, ...],
    configuration: Sequence[tuple[int, int]],
    arguments: tuple[str, ...],
) -> LaunchSite:
    around = range_around(functions, whole[0])
    shared = configuration[2] if len(configuration) > 2 else None
    return LaunchSite(
        kernel=name,
        range=source.range(*whole),
        grid=_text(plain, configuration[0]),
        block=_text(plain, configuration[1]),
        shared=_text(plain, shared) if shared else None,
        stream=_text(plain, configuration[3]) if len(configuration) > 3 else None,
        arguments=arguments,
        template_arguments=template_arguments,
        function_range=source.range(*around) if around is not None else None,
        grid_range=_range(source, plain, configuration[0]),
        block_range=_range(source, plain, configuration[1]),
        shared_range=_range(source, plain, shared) if shared else None,
    )


def _head(skeleton: bytes, plain: bytes, at: int) -> tuple[int, str, tuple[str, ...]] | None:
    """Start, name and template arguments of what stands before ``<<<``."""
    end = at
    while end > 0 and skeleton[end - 1 : end].isspace():
        end -= 1
    template_arguments: tuple[str, ...] = ()
    if skeleton[end - 1 : end] == b">":
        opening = _opening_angle(skeleton, end - 1)
        if opening is None:
            return None
        parts = split_at_commas(skeleton, opening + 1, end - 1)
        template_arguments = tuple(_text(plain, part) for part in parts)
        end = opening
    name = name_before(skeleton, end)
    if name is not None:
        return name[0], _text(skeleton, name).replace(" ", ""), template_arguments
    # A function pointer or a macro call: ``(*kernel)<<<...>>>``, ``kernels[i]<<<...>>>``, ``NAME(x)<<<...>>>``.
    start = _start_of_expression(skeleton, end)
    return (start, _text(plain, (start, end)), template_arguments) if start < end else None


def _opening_angle(skeleton: bytes, closing: int) -> int | None:
    depth = 0
    parens = 0
    for at in range(closing, max(-1, closing - 4096), -1):
        byte = skeleton[at]
        if byte in b")]":
            parens += 1
        elif byte in b"([":
            parens -= 1
            if parens < 0:
                return None
        elif parens > 0:
            continue
        elif byte == 0x3E and skeleton[at - 1] != 0x2D:
            depth += 1
        elif byte == 0x3C:
            depth -= 1
            if depth == 0:
                return at
        elif byte in b";{}":
            return None
    return None


def _start_of_expression(skeleton: bytes, end: int) -> int:
    at = end
    while at > 0:
        byte = skeleton[at - 1]
        if byte in b")]":
            opening, depth = at - 1, 0
            while opening >= 0 and skeleton[opening] not in b";{}":
                depth += (skeleton[opening] in b")]") - (skeleton[opening] in b"([")
                if depth == 0:
                    break
                opening -= 1
            if depth != 0:
                break
            at = opening
        elif (
            skeleton[at - 1 : at].isalnum()
            or byte in b"_.:"
            or (byte == 0x3E and skeleton[at - 2 : at - 1] == b"-")
            or (byte == 0x2D and skeleton[at : at + 1] == b">")
        ):
            at -= 1
        else:
            break
    return max(at, 0)


def _api_site(
    source: SourceFile, skeleton: bytes, plain: bytes, functions: Functions, match: re.Match[bytes]
) -> LaunchSite | None:
    """``cudaLaunchKernel((void*)kernel, grid, block, arguments, shared, stream)``; the arguments are read
    where they are a braced list or a local array of addresses, else there are none."""
    closing = _closing_in_statement(skeleton, match.end() - 1)
    if closing is None:
        return None
    parts = split_at_commas(skeleton, match.end(), closing)
    if len(parts) < 4:
        return None
    function = _CAST.sub("", _text(plain, parts[0])).strip().strip("()&").strip()
    named = re.fullmatch(r"((?:\w+\s*::\s*|::)*\w+)\s*(?:<(.*)>)?", function, re.DOTALL)
    if named is None:
        return None
    values = _text(plain, parts[3])
    if re.fullmatch(r"\w+", values):
        before = plain[max(0, match.start() - 8192) : match.start()]
        array = re.search(rb"\b" + values.encode() + rb"\s*\[\s*\d*\s*\]\s*=\s*(\{[^;]*\})\s*;", before)
        values = array[1].decode("utf-8", "replace") if array else ""
    braced = _BRACED.search(values)
    arguments: tuple[str, ...] = ()
    if braced is not None:
        inner = b"(" + braced[1].encode("utf-8", "replace") + b")"
        arguments = tuple(
            re.sub(r"^&\s*", "", _CAST.sub("", a)).strip() for a in _arguments(inner, inner, 0, len(inner) - 1) if a
        )
    template_arguments: tuple[str, ...] = ()
    if named[2]:
        angle = b"<" + named[2].encode("utf-8", "replace") + b">"
        template_arguments = _arguments(angle, angle, 0, len(angle) - 1)
    configuration = [parts[1], parts[2], *parts[4:6]]
    return _site(source, plain, functions, (match.start(), closing + 1), named[1].replace(" ", ""), template_arguments,
                 configuration, arguments)  # fmt: skip

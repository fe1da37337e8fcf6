"""The first fence, over a candidate's text: what device code needs is let through, everything else is refused.

Two passes: over the text as written (:func:`check_source`), and over its tokens after macro expansion
(:func:`check_preprocessed`), so that nothing can hide behind macros, token pasting or line splices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from optiml_core.records import Failure


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ATTRIBUTES = _words(
    """
    aligned always_inline noinline inline const pure unused used maybe_unused nodiscard deprecated fallthrough likely
    unlikely noreturn packed may_alias vector_size hot cold flatten nothrow no_unique_address warn_unused_result nonnull
    returns_nonnull unroll assume_aligned leaf malloc visibility default hidden host device global shared constant
    managed launch_bounds device_builtin cudart_builtin
    """
)
"""Attributes that change neither where code lies, nor whether it is watched, nor when it runs."""

PRAGMAS = _words("unroll nounroll once pack omp region endregion mark message ivdep")
GCC_PRAGMAS = _words("unroll ivdep diagnostic")

BUILTINS = re.compile(
    r"__builtin_(?:"
    r"mem(?:cpy|set|move|cmp)|expect|assume|assume_aligned|unreachable|trap|constant_p|offsetof|types_compatible_p|choose_expr|"
    r"bit_cast|is_constant_evaluated|addressof|launder|convertvector|shuffle|shufflevector|bswap(?:16|32|64)|"
    r"(?:popcount|clz|ctz|ffs|parity|clrsb)l{0,2}|(?:[su]?(?:add|sub|mul)l{0,2}_overflow(?:_p)?)|"
    r"(?:nan|nans|inf|huge_val)(?:f|l|f16)?|is(?:nan|inf|inf_sign|finite|normal|less|lessequal|greater|greaterequal|lessgreater|unordered)|"
    r"fpclassify|signbit[fl]?|"
    r"(?:fabs|sqrt|floor|ceil|trunc|round|rint|nearbyint|fma|fmax|fmin|copysign|sin|cos|tan|exp|exp2|log|log2|log10|pow|powi|"
    r"fmod|ldexp|frexp|scalbn|lrint|llrint|lround|llround|abs|labs|llabs|hypot|cbrt|erf|tanh|atan2|atan)(?:f|l|f16)?"
    r")"
)
"""Compiler built-ins that touch no memory behind the hooks' back, or whose accesses are hooked."""

_RESERVED = re.compile(
    r"(?:__tsan_|__ubsan_|__asan_|__sanitizer_|__interceptor_|__wrap_|__real_|optiml_emulator_|optiml_entry|optiml_switch)\w*"
)
_OWN_PREFIX = re.compile(r"(?i)optiml_\w*|Optiml[A-Z]\w*")

_TOKEN = re.compile(
    r"""(?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")"""
    r"""|(?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<character>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')"""
    r"""|(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)"""
    r"""|(?P<name>[^\W\d]\w*)"""
    r"""|(?P<newline>\n)"""
    r"""|(?P<double>\[\[)"""
    r"""|(?P<other>\S)""",
    re.DOTALL,
)
_MARKER = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"([^"]*)"')
_SLICE_INCLUDE = re.compile(r'^#include "optiml_\d+_[\w.]+"$', re.MULTILINE)  # how a slice names its headers
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(\w*)(.*)$", re.MULTILINE)


def _refused(message: str, line: int | None) -> Failure:
    return Failure("refused", message, line=line)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check_source(text: str) -> Failure | None:
    """Refuses, in the text as written, names of the emulator's own and lines that pretend to be other lines."""
    for match in _OWN_PREFIX.finditer(_SLICE_INCLUDE.sub("", text)):
        start = match.start()
        if start and (text[start - 1].isalnum() or text[start - 1] == "_"):
            continue
        return _refused(f"`{match.group()}` is a name of the emulator's own", _line_of(text, start))
    for match in _DIRECTIVE.finditer(text):
        word = match[1]
        line = _line_of(text, match.start())
        if word == "line" or word.isdigit():
            return _refused("#line is not allowed: a message would point at a wrong place", line)
    return None


def _pragma_allowed(words: list[str]) -> bool:
    if not words:
        return True
    if words[0] == "GCC":
        return len(words) > 1 and words[1] in GCC_PRAGMAS
    return words[0] in PRAGMAS or words[0].startswith(("nv_", "hd_"))


def _closing(tokens: list[tuple[str, str, int]], start: int) -> int:
    """Index of the bracket that closes the one at ``start``."""
    depth = 0
    for index in range(start, len(tokens)):
        text = tokens[index][1]
        depth += text.count("(") + text.count("[") if tokens[index][0] in ("other", "double") else 0
        depth -= (text in (")", "]")) if tokens[index][0] == "other" else 0
        if depth <= 0:
            return index
    return len(tokens)


def _check_attribute(tokens: list[tuple[str, str, int]], start: int, end: int) -> Failure | None:
    """Names inside an attribute list: each name that is not an argument must be on the list."""
    base = None
    depth = 0
    for kind, text, line in tokens[start:end]:
        if kind == "double":
            depth += 2
        elif kind == "other" and text in "([":
            depth += 1
        elif kind == "other" and text in ")]":
            depth -= 1
        elif kind == "name":
            base = depth if base is None else base
            if depth == base and text.strip("_") not in ATTRIBUTES and text not in ("gnu", "nv", "clang", "using"):
                return _refused(f"the attribute `{text}` is not on the emulator's list", line)
    return None


def _check_name(text: str, line: int) -> Failure | None:
    if text in ("asm", "__asm", "__asm__"):
        return Failure("unsupported", "the emulator cannot run inline assembly", line=line)
    if text in ("thread_local", "__thread", "__declspec"):
        return _refused(f"`{text}` is not allowed in device code", line)
    if text.startswith("__builtin_") and not BUILTINS.fullmatch(text):
        return _refused(f"the compiler built-in `{text}` is not on the emulator's list", line)
    if _RESERVED.fullmatch(text):
        return _refused(f"`{text}` belongs to the emulator itself", line)
    return None


def check_preprocessed(text: str, shim: str, own_files: Mapping[str, str]) -> str | Failure:
    """Checks the output of ``g++ -E -fpch-preprocess`` token by token.

    ``own_files``: name -> path for the report ("" for the candidate) of the files it may come from.
    Returns the text to compile: line markers shortened to those names, the shim's precompiled header
    named once at the top, unknown pragmas left out. Or a Failure naming the line.
    """
    kept: list[str] = []
    tokens: list[tuple[str, str, int]] = []
    line, header = 1, ""
    position = 0
    while position < len(text):
        if text[position] == "#" and (position == 0 or text[position - 1] == "\n"):
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            directive = text[position:end]
            marker = _MARKER.match(directive)
            if marker:
                file = marker[2].rsplit("/", 1)[-1]
                own = file in own_files
                if not own and not marker[2].startswith("<") and marker[2] != shim and header:
                    return _refused(f"the kernel's text includes {file}", line)
                line = int(marker[1])
                kept.append(f'# {line} "{file}"\n')
                position = end + 1
                continue
            words = directive[1:].split()
            if words[:3] == ["pragma", "GCC", "pch_preprocess"] and not header:
                if directive != f'#pragma GCC pch_preprocess "{shim}.gch"':
                    return _refused("another precompiled header", line)
                header = directive
                kept.append(directive + "\n")
            elif words[:1] == ["pragma"] and _pragma_allowed(words[1:]):
                kept.append(directive + "\n")
            elif words[:1] == ["pragma"]:
                kept.append("\n")  # nvcc ignores an unknown pragma too
            else:
                return _refused(f"the directive `{directive[:60]}` is not allowed", line)
            line += 1
            position = end + 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:  # blanks
            kept.append(text[position])
            position += 1
            continue
        kind, spelling = match.lastgroup or "other", match.group()
        kind = "raw" if kind == "delimiter" else kind
        kept.append(spelling)
        position = match.end()
        if kind == "newline":
            line += 1
            continue
        if kind in ("name", "other", "double"):
            tokens.append((kind, spelling, line))
        line += spelling.count("\n")
    if not header:
        return _refused("the emulator's shim is missing from the text", None)
    problem = _check_tokens(tokens)
    return problem or "".join(kept)


def _check_tokens(tokens: list[tuple[str, str, int]]) -> Failure | None:
    for index, (kind, text, line) in enumerate(tokens):
        if text == "goto" and index + 1 < len(tokens) and tokens[index + 1][1] == "*":
            return _refused("a jump to a computed label is not allowed", line)
        if kind == "name":
            if text in ("__attribute__", "__attribute"):
                problem = _check_attribute(tokens, index + 1, _closing(tokens, index + 1) + 1)
            else:
                problem = _check_name(text, line)
        elif kind == "double":
            problem = _check_attribute(tokens, index, _closing(tokens, index) + 1)
        else:
            continue
        if problem is not None:
            return problem
    return None

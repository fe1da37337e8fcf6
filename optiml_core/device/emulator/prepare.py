"""Turns the device slice of a CUDA file into C++ that g++ compiles with the shim in front, line for line."""

from __future__ import annotations

import re

from optiml_core.device.emulator.meeting_points import meeting_points
from optiml_core.device.emulator.tokens import Token, closing, replaced, tokens, without_directives
from optiml_core.device.emulator.unsupported import find_unsupported
from optiml_core.device.emulator.widening import widen
from optiml_core.records import Failure

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b(?! "optiml_\d+_[\w.]+"$).*$', re.MULTILINE)
_ATTRIBUTES_WITH_ARGUMENTS = ("__align__", "alignas", "__attribute__", "__builtin_align__")


def prepare_body(text: str, widened: bool = False) -> str | Failure:
    """The slice alone, line for line, made ready for g++ with the shim in front: no entry point, no #line.

    ``widened``: every floating type becomes a wider one (widening.py). Returns a Failure("unsupported",
    line=...) for what the emulator cannot run, or cannot widen.
    """
    text = _INCLUDE.sub("", text)  # the shim has what the known headers declare
    found = tokens(text)
    # A macro matters only where it is used; the fence after preprocessing sees those uses.
    problem = find_unsupported(text, without_directives(text, found))
    if problem is not None:
        return problem
    if widened:
        wide = widen(text)
        if isinstance(wide, Failure):
            return wide
        text, found = wide, tokens(wide)
    found = without_directives(text, found)
    scopes = _namespace_scope(found)
    changes: list[tuple[int, int, str]] = []
    for index, token in enumerate(found):
        if token.is_name("__device__") and scopes[index] and _declares_variable(found, index):
            # With internal linkage g++ would take what only the host sets for constant; __managed__ keeps it in memory.
            changes.append((token.start, token.end, "__managed__"))
        elif token.is_name("__shared__") and not scopes[index]:
            changes += _extern_shared(text, found, index)
    changes += meeting_points(text, found, scopes)
    return replaced(text, changes)


def _namespace_scope(found: list[Token]) -> list[bool]:
    """For each token: is it outside of every function, class and enumeration?"""
    result = []
    stack: list[bool] = []
    for index, token in enumerate(found):
        result.append(all(stack))
        if token.spelling == "{":
            stack.append(_opens_namespace(found, index))
        elif token.spelling == "}" and stack:
            stack.pop()
    return result


def _opens_namespace(found: list[Token], index: int) -> bool:
    """``namespace a::b {`` and ``extern "C" {``."""
    if index and found[index - 1].kind == "string":
        return True
    back = index - 1
    while back >= 0 and (found[back].kind == "name" or found[back].spelling == "::"):
        if found[back].spelling == "namespace":
            return True
        back -= 1
    return False


def _declares_variable(found: list[Token], index: int) -> bool:
    """Whether the declaration around the token at ``index`` is of a variable: no parameter list before it ends."""
    position = index + 1
    depth = 0
    while position < len(found):
        token = found[position]
        if token.is_name(*_ATTRIBUTES_WITH_ARGUMENTS):
            following = found[position + 1].spelling if position + 1 < len(found) else ""
            position = closing(found, position + 1) + 1 if following == "(" else position + 1
            continue
        if token.is_name("struct", "class", "enum", "union", "operator", "using", "typedef", "template"):
            return False
        depth += (token.spelling == "<") - (token.spelling == ">")
        if depth <= 0 and token.spelling == "(":
            return False
        if token.spelling in (";", "=", "[", "{"):
            return True
        position += 1
    return False


def _opening(found: list[Token], end: int) -> int:
    """Index of the parenthesis that the one at ``end`` closes; 0 where there is none."""
    depth = 0
    for index in range(end, 0, -1):
        depth += (found[index].spelling == ")") - (found[index].spelling == "(")
        if depth == 0:
            return index
    return 0


def _statement(found: list[Token], index: int) -> tuple[int, int]:
    """Indexes of the first token of the declaration around ``index`` and of its semicolon."""
    start = index
    while start and found[start - 1].spelling not in (";", "{", "}", ":"):
        if found[start - 1].spelling == ")":
            opening = _opening(found, start - 1)
            if not opening or not found[opening - 1].is_name(*_ATTRIBUTES_WITH_ARGUMENTS):
                break
            start = opening
        start -= 1
    end = index
    while end < len(found) and found[end].spelling != ";":
        end += 1
    return start, end


def _extern_shared(text: str, found: list[Token], index: int) -> list[tuple[int, int, str]]:
    """Inside a function, ``extern __shared__ T x[];`` becomes a pointer to the block's dynamic memory.

    g++ drops the assembler name that the build gives to others (build.py) inside templates. What is not
    understood here is left to that.
    """
    start, end = _statement(found, index)
    words = found[start:end]
    if end >= len(found) or not any(w.is_name("extern") for w in words):
        return []
    kept: list[Token] = []
    position = 0
    while position < len(words):
        word = words[position]
        if word.is_name(*_ATTRIBUTES_WITH_ARGUMENTS) and position + 1 < len(words):
            position = closing(words, position + 1) + 1
            continue
        if not word.is_name("extern", "__shared__"):
            kept.append(word)
        position += 1
    bracket = next((i for i, w in enumerate(kept) if w.spelling == "["), -1)
    if bracket < 2 or kept[bracket - 1].kind != "name" or kept[bracket + 1].spelling != "]":
        return []
    rest = kept[bracket + 2 :]
    if rest and rest[0].spelling != "[":
        return []
    element, name = " ".join(w.spelling for w in kept[: bracket - 1]), kept[bracket - 1].spelling
    dimensions = " ".join(w.spelling for w in rest)
    declarator = f"(*{name}){dimensions}" if dimensions else f"*{name}"
    cast = f"{element} (*){dimensions}" if dimensions else f"{element} *"
    return [(found[start].start, found[end].end, f"{element} {declarator} = ({cast})optiml_device_dynamic_shared();")]

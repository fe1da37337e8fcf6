"""Parameters, template parameters and types, read from the text of a declaration.

By text and not by tree, because the text also reads where the grammar has lost its way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from attrs import evolve

from optiml_core.records import ElementType, Parameter, SourceRange, TemplateParameter
from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.lexical import closing_bracket, split_at_commas
from optiml_core.source.source_file import SourceFile

_TYPE_WORDS = frozenset(
    {
        "void", "bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "const", "volatile",
        "auto", "struct", "size_t", "__restrict__", "__restrict", "__grid_constant__",
    }
)  # fmt: skip
_TYPE_PREFIX = re.compile(r"\s*(?:const|struct|typename|volatile|\s)+")
_IN_PARENTHESES = re.compile(r"\(\s*([*&]+)\s*(?:const\s+|__restrict__\s+|__restrict\s+)*([A-Za-z_]\w*)?\s*\)")
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)\Z")
_RESTRICT = re.compile(r"\b(?:__restrict__|__restrict|restrict)\b")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_SPACES = re.compile(r"\s+")
_STAR = re.compile(r"\s+([*&]+)")
_AFTER_STAR = re.compile(r"([*&])(?=[A-Za-z_])")
_CONST = re.compile(r"\bconst\b")
_ALIAS_TYPE = re.compile(r"[A-Za-z_][\w: ]*\*?")


def squeeze(text: str) -> str:
    """White space collapsed to single blanks, none at the ends."""
    return _SPACES.sub(" ", text).strip()


def tidy_type(text: str) -> str:
    """A type's text in one manner of spacing: ``"const float * const *"`` becomes ``"const float* const*"``."""
    return squeeze(_STAR.sub(r"\1", _AFTER_STAR.sub(r"\1 ", text)))


def read_parameters(
    source: SourceFile, plain: bytes, opening: int, closing: int, aliases: Mapping[str, str]
) -> tuple[Parameter, ...]:
    """The parameters between two parentheses. ``plain`` is the data with comments blanked;
    ``aliases`` maps a type's name to what it stands for (see ``resolve_alias``)."""
    parts = split_at_commas(plain, opening + 1, closing, declarations=True)
    if len(parts) == 1 and plain[parts[0][0] : parts[0][1]].strip() in (b"", b"void"):
        return ()
    return tuple(_read_parameter(source, plain, start, end, aliases) for start, end in parts)


def _read_parameter(source: SourceFile, plain: bytes, start: int, end: int, aliases: Mapping[str, str]) -> Parameter:
    while start < end and plain[start : start + 1].isspace():
        start += 1
    while end > start and plain[end - 1 : end].isspace():
        end -= 1
    text = plain[start:end].decode("utf-8", "replace")
    used = tuple((w, aliases[w]) for w in _IDENTIFIER.findall(text) if w in aliases) if aliases else ()
    if used:
        # What an alias stands for may name further aliases.
        used = tuple((w, resolve_alias(target, aliases)) for w, target in used)
    return evolve(describe_parameter(text, used), range=source.range(start, end))


_NOWHERE = SourceRange("", 0, 0, 0, 0, 0, 0)


@lru_cache(maxsize=4096)
def describe_parameter(text: str, aliases: tuple[tuple[str, str], ...]) -> Parameter:
    """A parameter from its text alone, without its place. ``aliases`` are those that the text names."""
    known = dict(aliases)
    declaration, default = _split_default(text)
    name, type_text, is_array = split_declarator(declaration)
    shape = resolve_alias(_RESTRICT.sub(" ", type_text.replace("__grid_constant__", " ")), known)
    outer = _outside_angles(shape)
    is_reference = "&" in outer
    stars = outer.count("*") + (1 if is_array and not is_reference else 0)
    pointee = shape[: shape.index("*")] if "*" in outer and "<" not in shape else shape
    if "*" in outer and "<" in shape:
        pointee = shape[: shape.rindex("*")] if outer.count("*") == 1 else ""
    element = None
    if stars <= 1 and "(*" not in shape:
        element = element_of(re.sub(r"\[[^\]]*\]|&|\(|\)", " ", pointee), known)
    return Parameter(
        name=name,
        type=tidy_type(type_text.replace("__grid_constant__", " ")),
        range=_NOWHERE,
        is_pointer=stars > 0,
        is_const=_CONST.search(_before_last_star(shape) if "*" in outer else shape) is not None,
        is_restrict=_RESTRICT.search(type_text) is not None,
        element=element,
        is_reference=is_reference,
        default=default,
    )


def _before_last_star(shape: str) -> str:
    return shape[: shape.rindex("*")]


def _outside_angles(text: str) -> str:
    out: list[str] = []
    depth = 0
    for character in text:
        if character == "<":
            depth += 1
        elif character == ">":
            depth = max(0, depth - 1)
        elif depth == 0:
            out.append(character)
    return "".join(out)


def _split_default(text: str) -> tuple[str, str | None]:
    depth = 0
    for at, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "=" and depth == 0 and text[at : at + 2] != "==":
            return text[:at].rstrip(), squeeze(text[at + 1 :])
    return text, None


def split_declarator(declaration: str) -> tuple[str, str, bool]:
    """``"const float (&x)[3]"`` becomes its name, its type without the name, and whether it is an array."""
    inner = _IN_PARENTHESES.search(declaration)
    if inner is not None:
        name = inner[2] or ""
        without = declaration[: inner.start()] + " (" + inner[1] + ")" + declaration[inner.end() :]
        return name, squeeze(without), "[" in declaration[inner.end() :] and "&" not in inner[1]
    last = _LAST_NAME.search(declaration)
    if last is None or last[1] in _TYPE_WORDS:
        return "", squeeze(declaration), declaration.rstrip().endswith("]")
    before = declaration[: last.start()]
    if not before.strip() or before.rstrip().endswith("::") or _TYPE_PREFIX.fullmatch(before):
        return "", squeeze(declaration), False  # a type alone
    return last[1], squeeze(before + " " + squeeze(last[2])), bool(last[2].strip())


def resolve_alias(type_text: str, aliases: Mapping[str, str]) -> str:
    """Replaces names of typedefs and type macros by what they stand for, some levels deep."""
    if not aliases:
        return type_text
    for _ in range(6):
        replaced = re.sub(r"(?<!:)\b[A-Za-z_]\w*\b(?!\s*(?:<|::))", lambda m: aliases.get(m[0], m[0]), type_text)
        if replaced == type_text:
            break
        type_text = replaced
    return type_text


def element_of(type_text: str, aliases: Mapping[str, str]) -> ElementType | None:
    """The element type of a type's text without pointers, through the file's own typedefs."""
    return element_type_of(squeeze(resolve_alias(_RESTRICT.sub(" ", type_text), aliases)))


def read_template_parameters(plain: bytes, opening: int, closing: int) -> tuple[TemplateParameter, ...]:
    """The parameters between ``<`` and ``>`` of a template header."""
    found: list[TemplateParameter] = []
    for start, end in split_at_commas(plain, opening + 1, closing, declarations=True):
        text = squeeze(plain[start:end].decode("utf-8", "replace"))
        if not text:
            continue
        declaration, default = _split_default(text)
        match = re.match(r"(typename|class)\b\s*(\.\.\.)?\s*(\w*)\Z", declaration.strip())
        if match is not None:
            found.append(TemplateParameter(match[3], "typename" + (match[2] or ""), default))
            continue
        name, kind, _ = split_declarator(declaration)
        found.append(TemplateParameter(name, kind, default))
    return tuple(found)


_TEMPLATE = re.compile(rb"\btemplate\s*<")


def template_header(skeleton: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Offsets of the last ``<`` and ``>`` of a template header between ``start`` and ``end``, or None."""
    header = None
    for match in _TEMPLATE.finditer(skeleton, start, end):
        closing = _closing_angle(skeleton, match.end() - 1, end)
        if closing is not None:
            header = (match.end() - 1, closing)
    return header


def _closing_angle(skeleton: bytes, opening: int, end: int) -> int | None:
    depth = 0
    at = opening
    while at < end:
        byte = skeleton[at]
        if byte == 0x28:
            closing = closing_bracket(skeleton, at, end)
            if closing is None:
                return None
            at = closing
        elif byte == 0x3C:
            depth += 1
        elif byte == 0x3E:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None

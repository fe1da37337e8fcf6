"""A file cut into the items of its namespaces: what each declares, what it needs, whether it is device code.

By tokens and braces alone, with no grammar: it must work where a parser gives up, and a wrong cut costs a failed
compilation, never a wrong result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from attrs import frozen

from optiml_core.source.lexical import Brace, LexicalScan, closing_bracket, scan
from optiml_core.source.source_file import UTF8_BOM

ItemKind = Literal["function", "type", "variable", "alias", "using", "open", "close", "macro", "assert", "explicit"]


@frozen
class Item:
    """One declaration or definition at namespace scope, or the beginning or end of a namespace.

    ``start`` and ``end``: byte range. ``names``: what it declares. ``words``: every identifier in it. ``head_words``:
    those outside braces and parentheses, where qualifiers stand. ``body``: the range between a type's braces.
    """

    kind: ItemKind
    start: int
    end: int
    names: frozenset[str]
    words: frozenset[str]
    head_words: frozenset[str]
    body: tuple[int, int] | None = None
    is_operator: bool = False


@frozen
class MacroText:
    """A ``#define``: its body and the identifiers in it."""

    body: str
    words: frozenset[str]
    is_function: bool


@frozen
class CutFile:
    """One file, cut: its bytes, its lexical scan, its items and its macros (all definitions of a name)."""

    data: bytes
    scan: LexicalScan
    items: tuple[Item, ...]
    macros: Mapping[str, tuple[MacroText, ...]]


WORD = re.compile(r"[A-Za-z_]\w*")
_WORD_BYTES = re.compile(rb"[A-Za-z_]\w*")
_STOP = re.compile(rb"[;{}()\[]")
_DEFINE = re.compile(r"([A-Za-z_]\w*)(\([^)]*\))?\s*(.*)", re.DOTALL)
_CONTAINER = re.compile(rb'\s*(?:(?:inline\s+)?namespace\b[^=;(]*|extern\s*"[^"]*"\s*)\Z')
_TYPE_HEAD = re.compile(rb"\b(?:struct|class|union|enum)\b")
_ASSIGNMENT = re.compile(rb"(?<![=!<>+\-*/%&|^])=(?!=)")
_TEMPLATE = re.compile(rb"\s*template\s*<")
_ACCESS_LABEL = re.compile(rb"\b(?:public|private|protected)\s*:(?!:)")
# Angle brackets of template headers: comparisons with "=" and what stands in parentheses are none.
_ANGLE = re.compile(rb"\([^()]*(?:\([^()]*\)[^()]*)*\)|<=|>=|->|<|>")
_OPERATOR = re.compile(rb"\boperator\b")
_ATTRIBUTES = frozenset(
    b"__launch_bounds__ __attribute__ __align__ alignas __declspec decltype noexcept __cluster_dims__ __maxnreg__ "
    b"__block_size__ sizeof alignof explicit requires throw".split()
)
_QUALIFIERS_BEFORE_TYPE_NAME = frozenset(b"struct class union enum final typedef".split()) | _ATTRIBUTES


@lru_cache(maxsize=128)
def cut(data: bytes) -> CutFile:
    """Cuts a file; never raises, whatever the bytes are. Remembered, since a search asks for the same headers often."""
    scanned = scan(data)
    macros: dict[str, tuple[MacroText, ...]] = {}
    for directive in scanned.directives:
        found = _DEFINE.match(directive.text) if directive.word == "define" else None
        if found:
            words = frozenset(WORD.findall(found[3]))
            macros[found[1]] = (*macros.get(found[1], ()), MacroText(found[3], words, found[2] is not None))
    code = scanned.skeleton
    if code.startswith(UTF8_BOM):
        code = b" " * len(UTF8_BOM) + code[len(UTF8_BOM) :]
    return CutFile(data, scanned, tuple(_items(code, scanned.events, macros)), macros)


def cut_members(file: CutFile, body: tuple[int, int]) -> tuple[Item, ...]:
    """The members of a type whose braces enclose the range ``body``, cut like a namespace's items."""
    skeleton = _ACCESS_LABEL.sub(lambda found: b" " * len(found[0]), file.scan.skeleton[: body[1]])
    return tuple(_items(skeleton, file.scan.events, file.macros, body[0]))


def _items(
    code: bytes, events: Sequence[Brace], macros: Mapping[str, Sequence[MacroText]], begin: int = 0
) -> list[Item]:
    closing_of = _matching_braces(events)
    items: list[Item] = []
    start = at = _skip_space(code, begin)
    while start < len(code):
        stop = _STOP.search(code, at)
        if stop is None:
            if code[start:].strip():
                items.append(_item(code, start, len(code), None))
            break
        at = stop.start()
        character = code[at : at + 1]
        if character in b"([":
            closing = closing_bracket(code, at)
            at = len(code) if closing is None else closing + 1
            if character == b"(" and closing is not None and _ends_macro_call(code, start, stop.start(), at, macros):
                items.append(_item(code, start, at, None, "macro"))
                start = at = _skip_space(code, at)
            continue
        if character == b";":
            items.append(_item(code, start, at + 1, None))
        elif character == b"}":
            if code[start:at].strip():
                items.append(_item(code, start, at, None))
            items.append(Item("close", at, at + 1, frozenset(), frozenset(), frozenset()))
        elif _CONTAINER.match(code, start, at):
            words = _words(code, start, at)
            items.append(Item("open", start, at + 1, words - {"namespace", "inline", "extern"}, frozenset(), words))
        else:
            body_end = closing_of.get(at, len(code) - 1) + 1
            if not _is_function_body(code, start, at):
                body = body_end
                # A type's or an initialiser's braces: the item goes on to its semicolon.
                at = body
                following = _STOP.search(code, at)
                while following is not None and following.group() in (b"(", b"[", b"{"):
                    if following.group() == b"{":
                        at = closing_of.get(following.start(), len(code) - 1) + 1
                    else:
                        closing = closing_bracket(code, following.start())
                        at = len(code) if closing is None else closing + 1
                    following = _STOP.search(code, at)
                at = following.end() if following is not None and following.group() == b";" else at
                items.append(_item(code, start, at, (stop.start(), body)))
                start = at = _skip_space(code, at)
                continue
            items.append(_item(code, start, body_end, (at, body_end)))
            at = body_end - 1
        start = at = _skip_space(code, at + 1)
    return items


def _matching_braces(events: Sequence[Brace]) -> dict[int, int]:
    """Offset of each ``{`` -> offset of its ``}``, counted along the first branch of every conditional."""
    found: dict[int, int] = {}
    stack: list[int] = []
    branches: list[tuple[list[int], list[int] | None]] = []  # the stack at the #if; the stack after the first branch
    for event in events:
        if event.kind == "if":
            branches.append((list(stack), None))
        elif event.kind == "else" and branches:
            before, after_first = branches[-1]
            branches[-1] = (before, list(stack) if after_first is None else after_first)
            stack = list(before)
        elif event.kind == "endif" and branches:
            _, after_first = branches.pop()
            stack = stack if after_first is None else list(after_first)
        elif event.kind == "{":
            stack.append(event.at)
        elif event.kind == "}" and stack:
            # The last branch that closes a brace wins: the body then covers all of them.
            opened = stack.pop()
            found[opened] = max(event.at, found.get(opened, 0))
    return found


def _is_function_body(code: bytes, start: int, brace: int) -> bool:
    head = _without_template_header(code[start:brace])
    outside, has_parameters = _outside_parentheses(head)
    if not has_parameters:
        return False
    assignment = _ASSIGNMENT.search(outside)
    if assignment is not None and not _OPERATOR.search(outside):
        return False
    # ``T::T() : a{1} {``: a brace right behind a member's name is not the body yet.
    initialisers = re.search(rb"\)\s*:(?!:)", head)
    return not (initialisers and re.search(rb"[\w>]\s*\Z", head) and not re.search(rb"[)}]\s*\Z", head))


def _without_template_header(head: bytes) -> bytes:
    while (found := _TEMPLATE.match(head)) is not None:
        depth, at = 1, found.end()
        for angle in _ANGLE.finditer(head, found.end()):
            depth += {b"<": 1, b">": -1}.get(angle.group(), 0)
            at = angle.end()
            if depth == 0:
                break
        head = head[at:]
    return head


def _outside_parentheses(head: bytes) -> tuple[bytes, bool]:
    """The text outside parentheses, and whether a parameter list was among them."""
    pieces: list[bytes] = []
    at, depth, parameters = 0, 0, False
    for found in re.finditer(rb"[()]", head):
        if found.group() == b"(":
            if depth == 0:
                piece = head[at : found.start()]
                pieces.append(piece)
                word = re.search(rb"([\w~]+|operator\s*\W+|>)\s*\Z", piece)
                parameters |= word is not None and word[1] not in _ATTRIBUTES
            depth += 1
        else:
            depth -= 1
            at = found.end()
    pieces.append(head[at:] if depth <= 0 else b"")
    return b" ".join(pieces), parameters


def _ends_macro_call(
    code: bytes, start: int, opening: int, end: int, macros: Mapping[str, Sequence[MacroText]]
) -> bool:
    """Whether ``start..end`` is a whole ``MACRO(...)`` with no semicolon, before something that begins a line."""
    name = code[start:opening].strip().decode("latin-1")
    if WORD.fullmatch(name) is None:
        return False
    behind = re.compile(rb"[ \t]*(?:\r?\n\s*([A-Za-z_#}\[]|\Z)|\Z)").match(code, end)
    if behind is None:
        return False
    known = macros.get(name)
    if known:
        return any(macro.is_function and re.search(r"[{};]", macro.body) for macro in known)
    return name.isupper() and not re.match(rb"\s*[{]", code[end : end + 64])


def _item(code: bytes, start: int, end: int, braces: tuple[int, int] | None, kind: ItemKind | None = None) -> Item:
    head_end = braces[0] if braces else end
    head = _without_template_header(code[start:head_end])
    outside, has_parameters = _outside_parentheses(head)
    head_words = frozenset(word.decode() for word in _WORD_BYTES.findall(outside))
    words = _words(code, start, end)
    operator = "operator" in head_words and (braces is None or has_parameters)
    if kind is None:
        kind = _kind_of(code, start, end, head, outside, has_parameters, head_words, braces)
    names = _names_of(kind, code[start:end], head, outside, braces and code[braces[0] : braces[1]], code[:end], braces)
    body = (braces[0] + 1, braces[1] - 1) if kind == "type" and braces else None
    return Item(kind, start, end, names, words, head_words, body, operator)


def _kind_of(
    code: bytes,
    start: int,
    end: int,
    head: bytes,
    outside: bytes,
    has_parameters: bool,
    head_words: frozenset[str],
    braces: tuple[int, int] | None,
) -> ItemKind:
    first = (_WORD_BYTES.findall(head[:64]) or [b""])[0]
    if first == b"static_assert":
        return "assert"
    if first in (b"using", b"concept") or (first == b"namespace" and b"=" in head):
        return "using" if re.match(rb"\s*using\s+namespace\b", head) else "alias"
    if "typedef" in head_words and braces is None:
        return "alias"
    explicit = re.match(rb"\s*(?:extern\s+)?template\s+(?!<)[A-Za-z_]", code[start:end])
    if explicit:
        return "explicit"
    if braces is not None and _is_function_body(code, start, braces[0]):
        return "function"
    if _TYPE_HEAD.search(outside) and (
        braces is not None or re.fullmatch(rb"\s*(?:struct|class|union|enum)\b[^=(]*;", head)
    ):
        return "type" if not _ASSIGNMENT.search(outside) or b"enum" in outside else "variable"
    if has_parameters and not _ASSIGNMENT.search(outside):
        call = re.fullmatch(rb"\s*([A-Za-z_]\w*)\s*;?\s*", outside)
        return "macro" if call else "function"
    return "variable"


def _names_of(
    kind: ItemKind,
    text: bytes,
    head: bytes,
    outside: bytes,
    body: bytes | None,
    before_end: bytes,
    braces: tuple[int, int] | None,
) -> frozenset[str]:
    if kind == "function":
        found = [m[1] for m in re.finditer(rb"([A-Za-z_]\w*(?:\s*::\s*~?\w+)*)\s*(?:<[^;{}()]*>)?\s*\(", head)]
        return _split_names(name for name in found if name not in _ATTRIBUTES)
    if kind == "type":
        ending = re.split(rb"(?<!:):(?!:)|<", outside, maxsplit=1)[0]
        names = [word for word in _WORD_BYTES.findall(ending) if word not in _QUALIFIERS_BEFORE_TYPE_NAME]
        if braces is not None:
            names += _WORD_BYTES.findall(before_end[braces[1] :])
            if b"enum" in outside or not names:
                names += _WORD_BYTES.findall(body or b"")
        return _decoded(names)
    if kind == "alias":
        using = re.match(rb"\s*(?:using|namespace|concept)\s+([A-Za-z_]\w*)\s*=", head)
        if using:
            return _decoded([using[1]])
        pointers = re.findall(rb"\(\s*(?:[\w:]+\s*::\s*)?[*&]+\s*([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?\)", head)
        if pointers:
            return _decoded(pointers)
        return _decoded(re.findall(rb"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?=[,;])", head))
    if kind == "variable":
        declared = re.findall(
            rb"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?=[=,;({\[])", head if braces is None else head + b"{"
        )
        return _split_names(declared)
    if kind in ("macro", "explicit"):
        return _decoded(_WORD_BYTES.findall(text))
    return frozenset()


def _split_names(names: Iterable[bytes]) -> frozenset[str]:
    return _decoded(word for name in names for word in _WORD_BYTES.findall(name))


def _decoded(names: Iterable[bytes]) -> frozenset[str]:
    return frozenset(name.decode("latin-1") for name in names)


def _words(code: bytes, start: int, end: int) -> frozenset[str]:
    return frozenset(word.decode("latin-1") for word in _WORD_BYTES.findall(code, start, end))


_SPACE = re.compile(rb"\s*")


def _skip_space(code: bytes, at: int) -> int:
    found = _SPACE.match(code, at)
    return found.end() if found else at

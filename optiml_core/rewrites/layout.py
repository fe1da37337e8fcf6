"""The look of the user's file: indentation, line ends, and text that is put into it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.source import TranslationUnit


@frozen
class Layout:
    """``step``: one level of indentation. ``newline``: what ends a line in this file."""

    step: str
    newline: str


def layout_of(unit: TranslationUnit, body: Node) -> Layout:
    """The indentation step of a function's body, as most of its lines show it."""
    data = unit.source.data
    lines = data[body.start_byte : body.end_byte].decode("utf-8", "surrogateescape").split("\n")[1:]
    indents = [re.match(r"[ \t]*", line)[0] for line in lines if line.strip()]  # type: ignore[index]
    outer = indent_at(unit, body.start_byte)
    if any(indent.startswith("\t") for indent in indents):
        step = "\t"
    else:
        widths = Counter(
            abs(len(second) - len(first))
            for first, second in zip([outer, *indents], indents, strict=False)
            if 1 < abs(len(second) - len(first)) <= 8
        )
        # Of equally frequent widths the smaller: the larger ones come from continued lines.
        step = " " * (min(widths, key=lambda width: (-widths[width], width)) if widths else 4)
    return Layout(step, unit.source.newline.decode("ascii"))


def indent_at(unit: TranslationUnit, byte: int) -> str:
    """The blanks at the start of the line that holds ``byte``."""
    data = unit.source.data
    start = data.rfind(b"\n", 0, byte) + 1
    match = re.match(rb"[ \t]*", data[start:])
    return "" if match is None else match[0].decode("ascii")


def source_text(unit: TranslationUnit, start: int, end: int) -> str:
    """The file's own text (a node's text may have blanks in place of attributes), with plain line ends."""
    return unit.source.data[start:end].decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def code_of(unit: TranslationUnit, node: Node) -> str:
    """The file's own text of a node, with plain line ends."""
    return source_text(unit, node.start_byte, node.end_byte)


def comments_before(unit: TranslationUnit, node: Node) -> list[str]:
    """The comments directly in front of a statement, each with plain line ends."""
    found: list[str] = []
    previous = node.prev_named_sibling
    while previous is not None and previous.type == "comment":
        if previous.prev_named_sibling is not None and _on_one_line(unit, previous.prev_named_sibling, previous):
            break  # it belongs to the statement before
        found.insert(0, code_of(unit, previous))
        previous = previous.prev_named_sibling
    return found


def _on_one_line(unit: TranslationUnit, first: Node, second: Node) -> bool:
    return b"\n" not in unit.source.data[first.end_byte : second.start_byte]


def with_comments(unit: TranslationUnit, nodes: Iterable[Node]) -> list[str]:
    """Statements as the file has them, each behind the comments that stand in front of it."""
    return [text for node in nodes for text in (*comments_before(unit, node), code_of(unit, node))]


def reindented(text: str, old: str, new: str) -> str:
    """Lines after the first that begin with the indentation ``old`` begin with ``new`` instead."""
    first, *others = text.split("\n")
    moved = [new + line[len(old) :] if line.startswith(old) else line for line in others]
    return "\n".join([first, *moved])


def lines_of_code(lines: Iterable[str], layout: Layout, indent: str) -> str:
    """Joins lines written with one tab per level below ``indent``; empty lines stay empty.

    A line may itself hold several lines (a copied statement); those are expected to be indented already.
    """
    finished = []
    for line in lines:
        stripped = line.lstrip("\t")
        depth = len(line) - len(stripped)
        finished.append(indent + layout.step * depth + stripped if stripped else "")
    return "\n".join(finished)


def split_lines(text: str, indent: str, step: str) -> list[str]:
    """A statement's lines with one tab per level below its own ``indent``, as ``lines_of_code`` takes them."""
    first, *others = text.split("\n")
    lines = [first]
    for line in others:
        rest = line[len(indent) :] if line.startswith(indent) else line.lstrip()
        stripped = rest.lstrip()
        blanks = rest[: len(rest) - len(stripped)]
        depth = blanks.count("\t") if "\t" in step else len(blanks) // max(1, len(step))
        left = "" if "\t" in step else " " * (len(blanks) - depth * len(step))
        # Leading spaces that are no whole level (continued lines) stay; a line must not begin with them and a tab.
        lines.append("\t" * depth + left + stripped if stripped else "")
    return lines


def edit(unit: TranslationUnit, start: int, end: int, text: str) -> Edit:
    """Replaces bytes of the file by ``text``, whose line ends become the file's."""
    newline = unit.source.newline.decode("ascii")
    plain = text.replace("\r\n", "\n")
    if newline != "\n":
        plain = plain.replace("\n", newline)
    return Edit(unit.source.path, start, end, plain.encode("utf-8", "surrogateescape"))


def replace(unit: TranslationUnit, node: Node, text: str) -> Edit:
    return edit(unit, node.start_byte, node.end_byte, text)


def line_start(unit: TranslationUnit, byte: int) -> int:
    """The offset at which the line of ``byte`` begins."""
    return unit.source.data.rfind(b"\n", 0, byte) + 1


def substituted(unit: TranslationUnit, node: Node, replacements: Iterable[tuple[Node, str]]) -> str:
    """The text of ``node`` with some nodes inside it replaced; the outermost of nested ones counts."""
    pieces = []
    at = node.start_byte
    for inner, text in sorted(replacements, key=lambda pair: (pair[0].start_byte, -pair[0].end_byte)):
        if inner.start_byte < at or inner.end_byte > node.end_byte:
            continue
        pieces.append(source_text(unit, at, inner.start_byte))
        pieces.append(text)
        at = inner.end_byte
    pieces.append(source_text(unit, at, node.end_byte))
    return "".join(pieces)


def unused_name(wanted: str, taken: Iterable[str]) -> str:
    """``wanted``, or ``wanted_2`` and so on if that name is taken."""
    names = frozenset(taken)
    if wanted not in names:
        return wanted
    return next(name for name in (f"{wanted}_{number}" for number in range(2, 1000)) if name not in names)


def all_names(unit: TranslationUnit) -> frozenset[str]:
    """Every identifier-like word of the file: a new name that is none of them clashes with nothing in it."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", unit.source.data.decode("utf-8", "surrogateescape")))

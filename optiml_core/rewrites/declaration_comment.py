"""The workload comment above a kernel: its grid, block and shared items follow a changed launch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from optiml_core.records import Edit, Kernel, LaunchChange
from optiml_core.rewrites.context import Refusal
from optiml_core.rewrites.launch_text import LaunchPlan, compose, launch_change, read
from optiml_core.rewrites.layout import edit
from optiml_core.source import TranslationUnit
from optiml_core.workload.expression import write_expression

_LINE = re.compile(r"^[ \t]*//[ \t]*optiml\b[ \t]*(launch)?[ \t]*:(.*)$")
_ITEM = re.compile(r"\s*(grid|block|shared)\s*=\s*")


@frozen
class _Item:
    """``name = value`` with the byte range of its value."""

    name: str
    value: str
    start: int
    end: int


@frozen
class _Line:
    is_launch: bool
    items: tuple[_Item, ...]
    end: int  # byte offset of the end of the text
    is_empty: bool


def _lines_above(unit: TranslationUnit, kernel: Kernel) -> Iterator[_Line]:
    """The workload lines directly above the kernel, from the bottom up."""
    number = kernel.range.start_line - 1
    while number >= 1:
        text = unit.source.line_bytes(number).decode("utf-8", "surrogateescape")
        if not text.strip().startswith("//"):
            return
        match = _LINE.match(text)
        if match is not None:
            start = unit.source.line_starts[number - 1] + len(text[: match.start(2)].encode("utf-8", "surrogateescape"))
            items = tuple(_items(match[2], start))
            yield _Line(
                match[1] is not None,
                items,
                start + len(match[2].rstrip().encode("utf-8", "surrogateescape")),
                not match[2].strip(),
            )
        number -= 1


def _items(text: str, start: int) -> Iterator[_Item]:
    """The grid, block and shared items of one line. Commas inside brackets do not separate."""
    at = depth = 0
    for index, character in enumerate(text + ","):
        depth += (character in "([{") - (character in ")]}")
        if character != "," or depth > 0:
            continue
        piece = text[at:index]
        match = _ITEM.match(piece)
        if match is not None:
            value = piece[match.end() :].rstrip()
            first = start + len(text[: at + match.end()].encode("utf-8", "surrogateescape"))
            yield _Item(match[1], value, first, first + len(value.encode("utf-8", "surrogateescape")))
        at = index + 1


def declared_grid(unit: TranslationUnit, kernel: Kernel) -> str:
    """The width of the grid as the workload comment above the kernel says it; empty if it does not."""
    for line in _lines_above(unit, kernel):
        for item in line.items:
            if item.name == "grid" and not line.is_launch:
                return _tuple_parts(item.value)[0].strip()
    return ""


def edit_declaration(
    unit: TranslationUnit, kernel: Kernel, plan: LaunchPlan, complete: bool
) -> tuple[Edit, ...] | Refusal:
    """Edits of the workload comment. ``complete``: no launch site says the rest, so missing items are added."""
    lines = list(_lines_above(unit, kernel))
    if not lines:
        return ()
    later = launch_change(plan)
    defaults = LaunchChange()
    for line in lines:
        if not line.is_launch:
            found = _change_of(line)
            if isinstance(found, Refusal):
                return found
            defaults = LaunchChange(
                found.grid or defaults.grid, found.block or defaults.block, found.shared or defaults.shared
            )
    edits: list[Edit] = []
    declared = {item.name for line in lines if not line.is_launch for item in line.items}
    for line in lines:
        own = _change_of(line)
        if isinstance(own, Refusal):
            return own
        before = LaunchChange(own.grid or defaults.grid, own.block or defaults.block, own.shared or defaults.shared)
        after = compose(before, later)
        for item in line.items:
            if {"grid": later.grid, "block": later.block, "shared": later.shared}[item.name] is None:
                continue
            text = _text(after, item.name)
            if _mentions_launch(text):
                return Refusal("the workload comment does not say enough of the launch to follow the change")
            edits.append(edit(unit, item.start, item.end, text))
    first = next((line for line in lines if not line.is_launch), None)
    if complete and first is not None:
        after = compose(defaults, later)
        missing = [
            (name, _text(after, name))
            for name, value in (("block", later.block), ("grid", later.grid), ("shared", later.shared))
            if value is not None and name not in declared
        ]
        if any(_mentions_launch(text) for _, text in missing):
            return Refusal("the workload comment does not say enough of the launch to follow the change")
        if missing:
            added = ", ".join(f"{name} = {text}" for name, text in missing)
            edits.append(edit(unit, first.end, first.end, f" {added}" if first.is_empty else f", {added}"))
    return tuple(edits)


def _mentions_launch(text: str) -> bool:
    return re.search(r"\b(grid|block)\.[xyz]\b", text) is not None


def _text(change: LaunchChange, name: str) -> str:
    if name == "shared":
        return change.shared or "0"
    x, y, z = (change.grid if name == "grid" else change.block) or ("1", "1", "1")
    if z != "1":
        return f"({x}, {y}, {z})"
    return f"({x}, {y})" if y != "1" else x


def _change_of(line: _Line) -> LaunchChange | Refusal:
    """What one line says of the launch."""
    found: dict[str, tuple[str, str, str] | str] = {}
    for item in line.items:
        if item.name == "shared":
            found["shared"] = item.value
            continue
        parts = _tuple_parts(item.value)
        texts = []
        for part in parts:
            parsed = read(part)
            if isinstance(parsed, Refusal):
                return Refusal(f"the workload comment's `{item.name}` is not understood")
            texts.append(write_expression(parsed))
        texts += ["1"] * (3 - len(texts))
        found[item.name] = (texts[0], texts[1], texts[2])
    grid, block, shared = found.get("grid"), found.get("block"), found.get("shared")
    return LaunchChange(
        grid if isinstance(grid, tuple) else None,
        block if isinstance(block, tuple) else None,
        shared if isinstance(shared, str) else None,
    )


def _tuple_parts(value: str) -> list[str]:
    """``(a, b)`` gives ``a`` and ``b``; ``a`` and ``(a + b) * c`` give themselves."""
    value = value.strip()
    if not (value.startswith("(") and value.endswith(")")):
        return [value]
    parts, depth, at = [], 0, 1
    for index, character in enumerate(value):
        depth += (character == "(") - (character == ")")
        if depth == 0 and index < len(value) - 1:
            return [value]
        if (character == "," and depth == 1) or (depth == 0 and index == len(value) - 1):
            parts.append(value[at:index])
            at = index + 1
    return parts[:3]

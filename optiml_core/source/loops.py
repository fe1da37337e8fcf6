"""The loops of a kernel, with the texts of their heads and their trip counts."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Kernel, SourceRange
from optiml_core.source.constant_expressions import evaluate_text
from optiml_core.source.kernel_contents import integer_constants
from optiml_core.source.loop_heads import LoopHead, read_head
from optiml_core.source.memory import remembered
from optiml_core.source.polynomials import INTEGER_OPERATIONS
from optiml_core.source.translation_unit import TranslationUnit
from optiml_core.source.tree_queries import LOOP_KINDS

_LONGEST = 1 << 20  # iterations that are counted one by one
_KINDS = {"for_statement": "for", "while_statement": "while", "do_statement": "do", "for_range_loop": "range"}


@frozen
class Loop:
    """One loop. Texts are as written; ``comparison`` has the variable on its left.

    ``step`` is signed (``"1"``, ``"-1"``, ``"blockDim.x"``), or the update as written (``">>= 1"``).
    ``trip_count`` is an expression of the workload language (``ceil_div`` included), None where the
    head does not say it; ``trip_count_value`` its number where that is constant.
    ``unroll`` is the text behind ``#pragma unroll`` directly above (``""`` for none given), else None.
    ``parent`` is the loop around it.
    """

    kind: str  # "for", "while", "do", "range"
    range: SourceRange
    body_range: SourceRange
    variable: str | None
    start: str | None
    comparison: str | None
    bound: str | None
    step: str | None
    trip_count: str | None
    trip_count_value: int | None
    unroll: str | None
    parent: Loop | None

    @property
    def depth(self) -> int:
        """0 for an outermost loop."""
        return 0 if self.parent is None else self.parent.depth + 1


def loops(unit: TranslationUnit, kernel: Kernel) -> tuple[Loop, ...]:
    """Every loop of a kernel in the order of the text; empty if no tree has the kernel."""
    return remembered(unit, ("loops", kernel.range.start_byte), lambda: _loops(unit, kernel))


def _loops(unit: TranslationUnit, kernel: Kernel) -> tuple[Loop, ...]:
    node = unit.node(kernel)
    body = node.child_by_field_name("body") if node is not None else None
    found: list[Loop] = []
    if body is not None:
        _visit(unit, body, None, found)
    return tuple(found)


def _visit(unit: TranslationUnit, node: Node, parent: Loop | None, found: list[Loop]) -> None:
    stack: list[tuple[Node, Loop | None]] = [(node, parent)]
    while stack:
        current, around = stack.pop()
        if current.type in LOOP_KINDS:
            loop = _loop(unit, current, around)
            found.append(loop)
            around = loop
        stack.extend((child, around) for child in reversed(current.named_children))


def _loop(unit: TranslationUnit, node: Node, parent: Loop | None) -> Loop:
    head = read_head(node)
    body = node.child_by_field_name("body")
    constants = integer_constants(unit)
    count = trip_count(head)
    value = _count_value(head, constants)
    if value is None and count is not None:
        value = evaluate_text(count, constants)
        value = max(value, 0) if value is not None else None
    return Loop(
        kind=_KINDS[node.type],
        range=unit.source.range(node.start_byte, node.end_byte),
        body_range=unit.source.range(*((body.start_byte, body.end_byte) if body else (node.end_byte, node.end_byte))),
        variable=head.variable,
        start=head.start,
        comparison=head.comparison,
        bound=head.bound,
        step=head.step,
        trip_count=count if value is None else str(value),
        trip_count_value=value,
        unroll=_unroll(unit, node.start_byte),
        parent=parent,
    )


def _unroll(unit: TranslationUnit, at: int) -> str | None:
    directives = unit.scan.directives
    index = bisect_left(directives, at, key=lambda d: d.start) - 1
    while index >= 0 and directives[index].word == "pragma":
        directive = directives[index]
        if unit.scan.skeleton[directive.end : at].strip():
            return None
        match = re.match(r"(?:GCC\s+|clang\s+loop\s+)?unroll\b\s*\(?([^)]*)\)?", directive.text)
        if match is not None:
            return match[1].strip()
        index -= 1
    return None


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def trip_count(head: LoopHead) -> str | None:
    """How often a loop runs, as an expression, from a head that counts up or down by a fixed step."""
    if head.start is None or head.bound is None or head.step is None or head.comparison is None:
        return None
    step = head.step.strip()
    down = step.startswith("-")
    size = step[1:].strip() if down else step
    if not size or re.match(r"[<>*/%|&^]?[<>]?=", size) or re.match(r"[<>*/%|&^]", size):
        return None  # a geometric step
    if head.comparison == "!=":
        upward = not down
    elif head.comparison in ("<", "<="):
        upward = True
    elif head.comparison in (">", ">="):
        upward = False
    else:
        return None
    if upward == down:
        return None
    high, low = (head.bound, head.start) if upward else (head.start, head.bound)
    span = high if low == "0" else f"{high} - {_bracketed(low)}"
    if head.comparison in ("<=", ">="):
        span = f"{span} + 1"
    return span if size == "1" else f"ceil_div({span}, {size})"


def _count_value(head: LoopHead, constants: Mapping[str, int]) -> int | None:
    """The trip count of a loop whose numbers are all known, also with a geometric step, by counting."""
    if head.variable is None or head.start is None or head.bound is None or head.step is None:
        return None
    value, bound = evaluate_text(head.start, constants), evaluate_text(head.bound, constants)
    update = re.fullmatch(r"(<<|>>|[*/])=\s*(.+)", head.step)
    operator = update[1] if update else "+"
    amount = evaluate_text(update[2] if update else head.step, constants)
    compare, operation = INTEGER_OPERATIONS.get(head.comparison or ""), INTEGER_OPERATIONS[operator]
    if value is None or bound is None or amount is None or compare is None:
        return None
    count = 0
    while compare(value, bound):
        following = operation(value, amount)
        if following is None or following == value or count >= _LONGEST:
            return None
        value = following
        count += 1
    return count

"""Counted loops: ``for (int j = start; j < limit; j += step)``."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.syntax import (
    LOOPS,
    assigned_names,
    assignment_of,
    declared_variables,
    field,
    names_in,
    operator_of,
    squeeze,
    text_of,
    unwrap,
    walk_types,
)


@frozen
class CountedLoop:
    """A for loop that counts one integer variable up to a limit that the loop does not change.

    ``declares``: the variable is declared in the loop's head. ``start``, ``limit``: expression nodes.
    ``inclusive``: the comparison is ``<=``. ``step``: the increment's expression, None for one.
    """

    node: Node
    variable: str
    type: str | None
    declares: bool
    start: Node
    limit: Node
    inclusive: bool
    step: Node | None
    update: Node
    body: Node

    @property
    def header(self) -> str:
        """Start, limit and step without the variable's name: equal for loops that run over the same numbers."""
        step = "1" if self.step is None else squeeze(text_of(self.step))
        comparison = "<=" if self.inclusive else "<"
        return f"{squeeze(text_of(self.start))}{comparison}{squeeze(text_of(self.limit))}+{step}"

    @property
    def limit_text(self) -> str:
        """The exclusive limit."""
        return f"{text_of(self.limit)} + 1" if self.inclusive else text_of(self.limit)


def counted_loop(node: Node) -> CountedLoop | None:
    """A for statement as a counted loop, or None if it is none."""
    if node.type != "for_statement":
        return None
    initializer, condition = node.child_by_field_name("initializer"), node.child_by_field_name("condition")
    update, inner = node.child_by_field_name("update"), node.child_by_field_name("body")
    if initializer is None or condition is None or update is None or inner is None:
        return None
    head = _head(initializer)
    if head is None:
        return None
    variable, start, kind = head
    condition = unwrap(condition)
    if condition.type != "binary_expression":
        return None
    left, right = unwrap(field(condition, "left")), unwrap(field(condition, "right"))
    operator = operator_of(condition)
    if operator in (">", ">="):
        left, right, operator = right, left, operator.replace(">", "<")
    if operator not in ("<", "<=") or left.type != "identifier" or text_of(left) != variable:
        return None
    made = assignment_of(update)
    if made is None or made.operator != "+=" or text_of(made.left) != variable:
        return None
    changed = assigned_names(inner)
    if variable in changed or changed & names_in(right) or (made.right is not None and changed & names_in(made.right)):
        return None
    if variable in names_in(right):
        return None
    step = None if made.right is None or squeeze(text_of(made.right)) == "1" else made.right
    return CountedLoop(node, variable, kind, kind is not None, start, right, operator == "<=", step, update, inner)


def _head(initializer: Node) -> tuple[str, Node, str | None] | None:
    """Name, start and declared type (None for an assignment) of a loop's head."""
    if initializer.type == "declaration":
        variables = declared_variables(initializer)
        if len(variables) != 1 or variables[0].value is None or variables[0].is_pointer:
            return None
        return variables[0].name, variables[0].value, variables[0].type
    made = assignment_of(initializer)
    if made is None or made.operator != "=" or made.left.type != "identifier" or made.right is None:
        return None
    return text_of(made.left), made.right, None


def loops_in(node: Node) -> tuple[Node, ...]:
    """Every loop statement at or below ``node``, in source order."""
    return tuple(walk_types(node, *LOOPS))


def innermost_loops(node: Node) -> tuple[Node, ...]:
    return tuple(loop for loop in loops_in(node) if not any(inner.id != loop.id for inner in loops_in(loop)))


def literal_trips(body: KernelBody, loop: CountedLoop) -> int | None:
    """The number of rounds where start, limit and step are numbers (also through macros), else None."""
    start, limit = body.polynomial(loop.start).constant, body.polynomial(loop.limit).constant
    step = 1 if loop.step is None else body.polynomial(loop.step).constant
    if start is None or limit is None or not step or step < 0:
        return None
    return max(0, -(-(limit + (1 if loop.inclusive else 0) - start) // step))

"""Writes ``0.5f`` for ``0.5`` where the result is provably the same bits, so that no double arithmetic is left.

The product, sum, difference or quotient of two floats computed in double and rounded to float is the
correctly rounded float result (double has more than twice the digits plus two: S. Figueroa, "When is
double rounding innocuous?", 1995). So one operation between a float and a literal that a float holds
exactly, converted to float at once, may be done in float (as with any float code, the compiler may then
fuse it with a following addition). Anything longer is left alone.
"""

from __future__ import annotations

import numpy as np
from tree_sitter import Node

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, read_kernel
from optiml_core.rewrites.layout import code_of, edit
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.syntax import (
    assignment_of,
    declared_variables,
    field,
    operator_of,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.rewrites.type_names import resolved_type

_OPERATIONS = ("+", "-", "*", "/")
_COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")


def _is_float(body: KernelBody, node: Node) -> bool:
    """Whether an expression certainly has the type float."""
    node = unwrap(node)
    match node.type:
        case "identifier":
            name = text_of(node)
            variable = body.locals.get(name)
            if variable is not None:
                plain = not variable.is_pointer and not variable.is_array
                return plain and resolved_type(body.unit, variable.type) == "float"
            return any(
                p.name == name and not p.is_pointer and resolved_type(body.unit, p.type) == "float"
                for p in body.kernel.parameters
            )
        case "subscript_expression":
            found = [access for access in accesses_in(body, node) if access.node == node]
            return len(found) == 1 and _element_is_float(body, found[0].array)
        case "number_literal":
            return text_of(node)[-1] in "fF" and "x" not in text_of(node).lower()
        case "binary_expression" if operator_of(node) in _OPERATIONS:
            return _is_float(body, field(node, "left")) and _is_float(body, field(node, "right"))
        case "unary_expression" if operator_of(node) in "+-":
            return _is_float(body, field(node, "argument"))
        case "cast_expression":
            return resolved_type(body.unit, text_of(field(node, "type"))) == "float"
        case "call_expression":
            name = text_of(field(node, "function"))
            return name in (
                "expf",
                "sqrtf",
                "fmaxf",
                "fminf",
                "fabsf",
                "logf",
                "powf",
                "tanhf",
                "sinf",
                "cosf",
                "rsqrtf",
            )
    return False


def _element_is_float(body: KernelBody, array: str) -> bool:
    for parameter in body.kernel.parameters:
        if parameter.name == array:
            return resolved_type(body.unit, parameter.type) == "float"
    variable = body.locals.get(array)
    return variable is not None and resolved_type(body.unit, variable.type) == "float"


def _is_exact(node: Node) -> bool:
    """A double literal whose value a float holds."""
    text = text_of(node)
    if node.type != "number_literal" or not any(c in text for c in ".eE") or text[-1] in "fFlL" or "x" in text.lower():
        return False
    try:
        value = float(text.replace("'", ""))
    except ValueError:
        return False
    return float(np.float32(value)) == value and (value == 0 or abs(value) >= 1.2e-38)


def _literals(body: KernelBody) -> list[Node]:
    """Literals of single operations whose double result is turned into a float at once, or only compared."""
    found = []
    for node in walk_types(body.body, "binary_expression"):
        left, right = unwrap(field(node, "left")), unwrap(field(node, "right"))
        for literal, other in ((left, right), (right, left)):
            if not _is_exact(literal) or not _is_float(body, other):
                continue
            compared = operator_of(node) in _COMPARISONS
            if compared or (operator_of(node) in _OPERATIONS and _becomes_float(body, node)):
                found.append(literal)
    return found


def _becomes_float(body: KernelBody, node: Node) -> bool:
    """Whether the value of an expression is stored into a float, and nothing else is done with it first."""
    current = node
    while current.parent is not None and current.parent.type == "parenthesized_expression":
        current = current.parent
    parent = current.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        made = assignment_of(parent)
        return made is not None and made.operator == "=" and made.right == current and _is_float(body, made.left)
    if parent.type == "init_declarator" and parent.parent is not None:
        names = [v for v in declared_variables(parent.parent) if v.value == current]
        return len(names) == 1 and not names[0].is_pointer and resolved_type(body.unit, names[0].type) == "float"
    if parent.type == "cast_expression":
        return resolved_type(body.unit, text_of(field(parent, "type"))) == "float"
    return False


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if not _literals(body):
        return Refusal("no double literal can become a float without changing a result")
    return (Option({}, "float literals in float arithmetic"),)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _literals(body)
    if not found:
        return Refusal("no double literal can become a float without changing a result")
    edits = [edit(context.unit, node.start_byte, node.end_byte, f"{code_of(context.unit, node)}f") for node in found]
    rationale = f"{len(found)} literals turn float arithmetic into double arithmetic for a result that is the same."
    return finish(context, body, edits, rationale)


REWRITE = Rewrite("float-literals", ("accidental-double",), options, apply)

"""Integer expressions as texts: evaluated for given values of their names, as C++ would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tree_sitter import Node, Parser

from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.grammar import cuda_language
from optiml_core.source.polynomials import INTEGER_OPERATIONS

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)([uUlLzZ]*)")


def integer_literal(text: str) -> int | None:
    """The value of an integer literal's text (any base, suffixes, digit separators), or None."""
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        return None
    # The grammar reads ``-1`` as one literal.
    sign, digits = -1 if match[1] == "-" else 1, match[2].replace("'", "")
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbB":
        return sign * int(digits, 8) if all(d in "01234567" for d in digits) else None
    return sign * int(digits, 0)


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Node | None:
    """The tree of one expression given as text, or None if it is none. The node's ``text`` has its source."""
    root = Parser(cuda_language()).parse(f"auto x = {text};".encode()).root_node
    if root.has_error or root.named_child_count != 1:
        return None
    declaration = root.named_children[0]
    declarator = declaration.child_by_field_name("declarator")
    if declaration.type != "declaration" or declarator is None or declarator.type != "init_declarator":
        return None
    return declarator.child_by_field_name("value")


def evaluate_text(text: str, values: Mapping[str, int]) -> int | None:
    """The integer value of an expression's text; None if it needs a name that ``values`` lacks, or is no integer."""
    if len(text) > 2000:
        return None
    node = parse_expression(text)
    return evaluate_node(node, values) if node is not None else None


def operator_of(node: Node) -> str:
    """The operator of a binary, unary, assignment or update expression."""
    operator = node.child_by_field_name("operator")
    return operator.type if operator is not None else ""


def evaluate_node(node: Node, values: Mapping[str, int], depth: int = 0) -> int | None:
    """As ``evaluate_text``, of a node."""
    if depth > 60:
        return None
    kind = node.type
    text = (node.text or b"").decode("utf-8", "replace")
    if kind == "number_literal":
        return integer_literal(text)
    if kind in ("true", "false"):
        return int(kind == "true")
    if kind in ("identifier", "field_expression", "qualified_identifier"):
        return values.get(text.replace(" ", ""))
    if kind == "sizeof_expression":
        described = node.child_by_field_name("type")
        element = element_type_of((described.text or b"").decode("utf-8", "replace")) if described else None
        return element.size if element is not None else None
    if kind == "parenthesized_expression" and node.named_child_count == 1:
        return evaluate_node(node.named_children[0], values, depth + 1)
    if kind == "cast_expression":
        inner = node.child_by_field_name("value")
        return evaluate_node(inner, values, depth + 1) if inner is not None else None
    if kind == "unary_expression":
        argument = node.child_by_field_name("argument")
        value = evaluate_node(argument, values, depth + 1) if argument is not None else None
        if value is None:
            return None
        return {"-": -value, "+": value, "!": int(not value), "~": ~value}.get(operator_of(node))
    if kind == "binary_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        a = evaluate_node(left, values, depth + 1) if left is not None else None
        b = evaluate_node(right, values, depth + 1) if right is not None else None
        operation = INTEGER_OPERATIONS.get(operator_of(node))
        return operation(a, b) if operation is not None and a is not None and b is not None else None
    if kind == "conditional_expression":
        return _conditional(node, values, depth)
    if kind == "call_expression":
        return _call(node, values, depth)
    return None


def _conditional(node: Node, values: Mapping[str, int], depth: int) -> int | None:
    condition = node.child_by_field_name("condition")
    value = evaluate_node(condition, values, depth + 1) if condition is not None else None
    if value is None:
        return None
    branch = node.child_by_field_name("consequence" if value else "alternative")
    return evaluate_node(branch, values, depth + 1) if branch is not None else None


def _call(node: Node, values: Mapping[str, int], depth: int) -> int | None:
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or arguments is None:
        return None
    name = (function.text or b"").decode("utf-8", "replace").removeprefix("::").removeprefix("std::")
    numbers = [evaluate_node(a, values, depth + 1) for a in arguments.named_children]
    known = [n for n in numbers if n is not None]
    if len(known) != len(numbers) or not known:
        return None
    if name in ("min", "max") and len(known) == 2:
        return min(known) if name == "min" else max(known)
    if name == "ceil_div" and len(known) == 2 and known[1] > 0:
        return -(-known[0] // known[1])
    if len(known) == 1 and (function.type == "primitive_type" or name.startswith("static_cast<")):
        return known[0]
    return None

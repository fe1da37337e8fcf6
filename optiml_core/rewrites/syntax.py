"""Small questions about tree-sitter nodes of C++ code: texts, names, statements, assignments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen
from tree_sitter import Node

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")

THREAD_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize")


def text_of(node: Node) -> str:
    """The source text of ``node``; bytes that are not UTF-8 survive as surrogates."""
    raw = node.text
    return "" if raw is None else raw.decode("utf-8", "surrogateescape")


def walk(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def walk_types(node: Node, *types: str) -> Iterator[Node]:
    """Nodes of the given types at or below ``node``, in source order."""
    return (current for current in walk(node) if current.type in types)


def ancestors(node: Node, until: Node | None = None) -> Iterator[Node]:
    """The nodes around ``node`` from the inside out, ending before ``until``."""
    current = node.parent
    while current is not None and (until is None or current.id != until.id):
        yield current
        current = current.parent


def contains(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def unwrap(node: Node) -> Node:
    """``node`` without parentheses and condition clauses around it."""
    while node.type in ("parenthesized_expression", "condition_clause"):
        inner = [child for child in node.named_children if child.type != "comment"]
        if len(inner) != 1:
            return node
        node = inner[0]
    return node


def field(node: Node, name: str) -> Node:
    """A field that the grammar promises; ``node`` itself where broken code left it out."""
    return node.child_by_field_name(name) or node


def operator_of(node: Node) -> str:
    """``+`` of a binary, ``+=`` of an assignment, ``++`` of an update expression; else empty."""
    operator = node.child_by_field_name("operator")
    return "" if operator is None else text_of(operator)


def names_in(node: Node) -> frozenset[str]:
    """Identifiers used in ``node`` (not field names, not type names)."""
    return frozenset(text_of(current) for current in walk_types(node, "identifier"))


def names_in_text(text: str) -> frozenset[str]:
    return frozenset(IDENTIFIER.findall(text))


def statements_of(node: Node) -> tuple[Node, ...]:
    """The statements of a block, or the one statement that stands in a block's place; no comments."""
    if node.type == "else_clause":
        inner = [child for child in node.named_children if child.type != "comment"]
        return statements_of(inner[0]) if len(inner) == 1 else tuple(inner)
    if node.type != "compound_statement":
        return (node,)
    return tuple(child for child in node.named_children if child.type != "comment")


def called_name(node: Node) -> str | None:
    """``atomicAdd`` of ``atomicAdd(...)``, also with template arguments and namespaces; else None."""
    if node.type != "call_expression":
        return None
    function = field(node, "function")
    if function.type == "template_function":
        function = field(function, "name")
    if function.type in ("identifier", "qualified_identifier", "field_identifier", "primitive_type"):
        return text_of(function)
    return None


def arguments_of(node: Node) -> tuple[Node, ...]:
    """The argument nodes of a call."""
    arguments = node.child_by_field_name("arguments")
    if arguments is None:
        return ()
    return tuple(child for child in arguments.named_children if child.type != "comment")


def declared_identifier(declarator: Node) -> Node | None:
    """The identifier inside ``*x``, ``x[4]``, ``x = 1``, ``&x``."""
    current: Node | None = declarator
    while current is not None and current.type != "identifier":
        following = current.child_by_field_name("declarator")
        if following is None:
            following = next((c for c in current.named_children if c.type.endswith(("declarator", "identifier"))), None)
        current = following
    return current


@frozen
class DeclaredVariable:
    """One variable of a declaration. ``value`` is its initialiser or None."""

    name: str
    type: str  # with const and storage words, without stars
    is_pointer: bool
    is_array: bool
    value: Node | None
    declarator: Node
    declaration: Node


def declared_variables(declaration: Node) -> tuple[DeclaredVariable, ...]:
    """The variables of a ``declaration`` node, in order. A vexing ``dim3 grid(n)`` counts as a variable."""
    if declaration.type != "declaration":
        return ()
    found = []
    for declarator in declaration.children_by_field_name("declarator"):
        value = declarator.child_by_field_name("value")
        inner = field(declarator, "declarator") if declarator.type == "init_declarator" else declarator
        identifier = declared_identifier(inner)
        if identifier is None:
            continue
        if inner.type == "function_declarator":
            value = inner.child_by_field_name("parameters")
        first = declaration.children_by_field_name("declarator")[0]
        kind = _between(declaration, declaration.start_byte, first.start_byte).strip()
        layers = [inner, *(n for n in walk(inner))]
        found.append(
            DeclaredVariable(
                text_of(identifier),
                kind,
                any(n.type in ("pointer_declarator", "reference_declarator") for n in layers),
                any(n.type == "array_declarator" for n in layers),
                value,
                declarator,
                declaration,
            )
        )
    return tuple(found)


def _between(node: Node, start: int, end: int) -> str:
    raw = node.text or b""
    return raw[start - node.start_byte : end - node.start_byte].decode("utf-8", "surrogateescape")


@frozen
class Assignment:
    """``left operator right`` with ``++``/``--`` as ``+= 1`` and ``-= 1`` (``right`` None)."""

    left: Node
    operator: str
    right: Node | None
    node: Node


def assignment_of(node: Node) -> Assignment | None:
    """The assignment that a statement or expression node makes at its top level, if it is one."""
    if node.type == "expression_statement":
        inner = [child for child in node.named_children if child.type != "comment"]
        if len(inner) != 1:
            return None
        node = inner[0]
    node = unwrap(node)
    if node.type == "assignment_expression":
        return Assignment(unwrap(field(node, "left")), operator_of(node), field(node, "right"), node)
    if node.type == "update_expression":
        return Assignment(unwrap(field(node, "argument")), "+=" if operator_of(node) == "++" else "-=", None, node)
    return None


def assignments_in(node: Node) -> Iterator[Assignment]:
    """Every assignment and increment at or below ``node``."""
    for current in walk_types(node, "assignment_expression", "update_expression"):
        made = assignment_of(current)
        if made is not None:
            yield made


def assigned_names(node: Node) -> frozenset[str]:
    """Names of variables that code at or below ``node`` assigns (not through subscripts or pointers)."""
    return frozenset(text_of(made.left) for made in assignments_in(node) if made.left.type == "identifier")


def same_text(first: Node, second: Node) -> bool:
    """Whether two nodes are the same code but for spaces."""
    return squeeze(text_of(first)) == squeeze(text_of(second))


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def conjuncts(condition: Node) -> tuple[Node, ...]:
    """The operands of ``a && b && c``, parentheses removed."""
    condition = unwrap(condition)
    if condition.type == "binary_expression" and operator_of(condition) in ("&&", "and"):
        return conjuncts(field(condition, "left")) + conjuncts(field(condition, "right"))
    return (condition,)


def disjuncts(condition: Node) -> tuple[Node, ...]:
    """The operands of ``a || b || c``, parentheses removed."""
    condition = unwrap(condition)
    if condition.type == "binary_expression" and operator_of(condition) in ("||", "or"):
        return disjuncts(field(condition, "left")) + disjuncts(field(condition, "right"))
    return (condition,)


def has_syntax_error(node: Node) -> bool:
    return node.has_error

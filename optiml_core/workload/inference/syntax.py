"""Syntax nodes of C++ with their text, and what can be read from one node alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import tree_sitter_cuda
from attrs import field, frozen
from tree_sitter import Language, Node, Parser

from optiml_core.source import Macro


@frozen(eq=False)
class Fragment:
    """A syntax node with the bytes that its offsets count in: the file's, or those of a snippet."""

    node: Node = field(repr=False)
    data: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return self.data[self.node.start_byte : self.node.end_byte].decode("utf-8", "replace")

    def child(self, name: str) -> Fragment | None:
        node = self.node.child_by_field_name(name)
        return None if node is None else Fragment(node, self.data)

    def named(self) -> list[Fragment]:
        return [Fragment(node, self.data) for node in self.node.named_children if node.type != "comment"]


# ------------------------------------------------------------------------------------- snippets


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


@lru_cache(maxsize=4096)
def expression_fragment(text: str) -> Fragment | None:
    """The syntax of an expression's text; None if it is none."""
    if len(text) > 4000:
        return None
    data = b"auto x = " + text.encode() + b";"
    root = _parser().parse(data).root_node
    declaration = root.named_children[0] if root.named_children else None
    if declaration is None or declaration.type != "declaration" or root.has_error:
        return None
    declarator = declaration.child_by_field_name("declarator")
    value = None if declarator is None else declarator.child_by_field_name("value")
    return None if value is None else Fragment(value, data)


@lru_cache(maxsize=1024)
def statements_fragment(text: str) -> Fragment | None:
    """The syntax of statements, as the body of a function."""
    if len(text) > 4000:
        return None
    data = b"void f() { " + text.encode() + b"; }"
    root = _parser().parse(data).root_node
    function = root.named_children[0] if root.named_children else None
    body = None if function is None else function.child_by_field_name("body")
    return None if body is None else Fragment(body, data)


# ------------------------------------------------------------------------------------- reading


def called_name(call: Fragment) -> str:
    """The plain name of what a call calls; for a method the method's name."""
    function = call.child("function")
    if function is None:
        return ""
    if function.node.type == "field_expression":
        member = function.child("field")
        return plain_name(member.text) if member else ""
    return plain_name(function.text)


def arguments_of(call: Fragment) -> list[Fragment]:
    listed = call.child("arguments")
    return listed.named() if listed else []


def without_casts(fragment: Fragment) -> Fragment:
    """What is inside parentheses and casts of all styles."""
    while True:
        node = fragment.node
        inner: Fragment | None = None
        if node.type == "parenthesized_expression":
            inner = next(iter(fragment.named()), None)
        elif node.type == "cast_expression":
            inner = fragment.child("value")
        elif node.type == "call_expression" and re.match(r"(static|reinterpret|const)_cast\b", fragment.text):
            inner = next(iter(arguments_of(fragment)), None)
        if inner is None:
            return fragment
        fragment = inner


def path_of(fragment: Fragment) -> str | None:
    """`n`, `grid.x` (also for `->`), `p[]` for an element of an array of pointers; None for anything else."""
    fragment = without_casts(fragment)
    node = fragment.node
    if node.type in ("identifier", "qualified_identifier"):
        return plain_name(fragment.text)
    if node.type == "this":
        return ""
    if node.type == "field_expression":
        owner, member = fragment.child("argument"), fragment.child("field")
        path = path_of(owner) if owner else None
        if path is None or member is None:
            return None
        return f"{path}.{member.text}".lstrip(".")
    if node.type == "subscript_expression":
        owner = fragment.child("argument")
        path = path_of(owner) if owner else None
        return None if path is None else path + "[]"
    if node.type == "pointer_expression" and fragment.text.startswith("*"):
        target = fragment.child("argument")
        return path_of(target) if target else None
    return None


def expanded(macro: Macro, arguments: Sequence[str]) -> str:
    """The body of a function-like macro with its parameters replaced."""
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    if macro.parameters and macro.parameters[-1] == "...":
        values["__VA_ARGS__"] = ", ".join(arguments[len(macro.parameters) - 1 :])
    body = re.sub(r"\\\r?\n", " ", macro.body)
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda match: values.get(match[0], match[0]), body)


def plain_name(text: str) -> str:
    """`ns::Class::run<int>` -> `run`."""
    return re.sub(r"<.*", "", text, flags=re.DOTALL).rsplit("::", 1)[-1].strip()


def declared_name(declarator: Fragment) -> str:
    """The name inside `*name`, `&name`, `name[3]` and so on."""
    node = declarator
    while node.node.type not in ("identifier", "field_identifier", "type_identifier", "qualified_identifier"):
        inner = node.child("declarator")
        if inner is None:
            inner = next(iter(node.named()), None)
        if inner is None:
            return ""
        node = inner
    return plain_name(node.text)

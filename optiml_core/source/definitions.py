"""Where the local variables of one function get their values."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from tree_sitter import Node

from optiml_core.source.tree_queries import (
    LOOP_KINDS,
    called_name,
    declarators_of,
    operator_of,
    text_of,
    without_parentheses,
)


@frozen(eq=False)
class Definition:
    """One place that gives a variable a value.

    ``operator``: ``=`` (also a declaration with a value), ``+=``, ``-=``, ``++`` ..., or ``?`` where
    the value cannot be read off (address taken, reference argument, inline assembly, no value).
    ``block``: the byte range of the innermost block or unbraced branch around it: the definition is
    certain for every later byte in that range. ``loops``: the loops whose repeated part holds it.
    """

    name: str
    at: int
    end: int
    operator: str
    value: Node | None
    block: tuple[int, int]
    loops: tuple[int, ...]  # start bytes
    declaration: int  # start byte of the declarator that it belongs to


@frozen(eq=False)
class LocalVariable:
    """A declaration inside a function. ``scope`` is the byte range in which the name means it."""

    name: str
    at: int
    scope: tuple[int, int]
    type: str  # with pointer and reference marks, without array extents
    extents: tuple[Node | None, ...]  # of an array; None for empty brackets
    is_reference: bool
    is_static_shared: bool
    is_extern: bool
    node: Node
    declarator: Node


@frozen(eq=False)
class LoopNode:
    """A loop's node with the range of the part that repeats: condition, step and body."""

    node: Node
    repeated: tuple[int, int]


@define(eq=False)
class FunctionDefinitions:
    """All local variables, their definitions and the loops of one function, in the order of the text.

    ``takes_value`` answers for a function's name and the number of an argument whether that argument
    is surely passed by value.
    """

    takes_value: Callable[[str, int], bool]
    variables: list[LocalVariable] = field(factory=list)
    definitions: dict[int, list[Definition]] = field(factory=dict)  # by the variable's ``at``
    loops: dict[int, LoopNode] = field(factory=dict)  # by start byte
    by_name: dict[str, list[LocalVariable]] = field(factory=dict)
    counted: int = 0  # how many of the variables ``by_name`` has
    parameters: dict[str, LocalVariable] = field(factory=dict)  # those that the function itself changes

    def variable(self, name: str, byte: int) -> LocalVariable | None:
        """The local variable that ``name`` means at a byte: the innermost declaration before it."""
        found = None
        if len(self.by_name) == 0 or self.counted != len(self.variables):
            self.by_name.clear()
            for variable in self.variables:
                self.by_name.setdefault(variable.name, []).append(variable)
            self.counted = len(self.variables)
        for variable in self.by_name.get(name, ()):
            if variable.at <= byte and variable.scope[0] <= byte < variable.scope[1]:
                found = variable
        return found

    def definitions_of(self, variable: LocalVariable) -> list[Definition]:
        return self.definitions.get(variable.at, [])

    def loops_around(self, byte: int) -> list[LoopNode]:
        """The loops whose repeated part holds a byte, outermost first."""
        return [x for x in self.loops.values() if x.repeated[0] <= byte < x.repeated[1]]


_SCOPES = frozenset(
    {"compound_statement", "for_statement", "for_range_loop", "if_statement", "while_statement", "lambda_expression",
     "function_definition", "switch_statement"}
)  # fmt: skip
_BRANCH_FIELDS = ("consequence", "alternative", "body")


def read_definitions(function: Node, takes_value: Callable[[str, int], bool]) -> FunctionDefinitions:
    """One pass over a function's node."""
    found = FunctionDefinitions(takes_value)
    body = function.child_by_field_name("body")
    if body is not None:
        _visit(body, (body.start_byte, body.end_byte), (body.start_byte, body.end_byte), (), found, 0)
    return found


def _visit(
    node: Node,
    scope: tuple[int, int],
    block: tuple[int, int],
    loops: tuple[int, ...],
    found: FunctionDefinitions,
    depth: int,
    in_block: bool = False,
) -> None:
    if depth > 400:
        return
    kind = node.type
    here = (node.start_byte, node.end_byte)
    if kind in _SCOPES:
        scope = here
    if kind == "compound_statement" and not in_block:
        block = here  # a block inside a block is as certain as the outer one
    if kind == "declaration":
        _declaration(node, scope, block, loops, found)
    elif kind == "assignment_expression" or kind == "update_expression":
        _write(node, block, loops, found)
    elif kind == "pointer_expression" and operator_of(node) == "&":
        _unknown(node.child_by_field_name("argument"), node, block, loops, found)
    elif kind == "call_expression":
        _arguments(node, block, loops, found)
    elif kind == "gnu_asm_expression":
        outputs = node.child_by_field_name("output_operands")
        for operand in outputs.named_children if outputs is not None else []:
            _unknown(operand.child_by_field_name("value"), node, block, loops, found)
    elif kind == "conditional_expression" or (kind == "binary_expression" and operator_of(node) in ("&&", "||")):
        block = here  # what is written in one branch of an expression is not certain behind it
    elif kind in LOOP_KINDS:
        _visit_loop(node, scope, block, loops, found, depth)
        return
    for child in node.named_children:
        inner = block
        if child.type != "compound_statement" and kind in ("if_statement", "else_clause", "case_statement"):
            condition = node.child_by_field_name("condition")
            if condition is None or child.start_byte != condition.start_byte:
                inner = (child.start_byte, child.end_byte)
        _visit(child, scope, inner, loops, found, depth + 1, kind == "compound_statement")


def _visit_loop(
    node: Node,
    scope: tuple[int, int],
    block: tuple[int, int],
    loops: tuple[int, ...],
    found: FunctionDefinitions,
    depth: int,
) -> None:
    initializer = node.child_by_field_name("initializer")
    repeated = (initializer.end_byte if initializer is not None else node.start_byte, node.end_byte)
    if node.type == "for_range_loop":
        for name, declarator in declarators_of(node):
            whole, kind = (node.start_byte, node.end_byte), text_of(node.child_by_field_name("type"))
            is_reference = "&" in text_of(declarator)
            variable = LocalVariable(
                name, declarator.start_byte, whole, kind, (), is_reference, False, False, node, declarator
            )  # fmt: skip
            found.variables.append(variable)
            _define(found, variable, declarator.start_byte, declarator.end_byte, "?", None, repeated, loops)
    found.loops[node.start_byte] = LoopNode(node, repeated)
    inside = (*loops, node.start_byte)
    whole = (node.start_byte, node.end_byte)
    for child in node.named_children:
        if initializer is not None and child.start_byte == initializer.start_byte:
            # Certain for the whole loop and for what follows it, unlike what the body does.
            _visit(child, whole, block, loops, found, depth + 1)
        else:
            inner = block if child.type == "compound_statement" else (child.start_byte, child.end_byte)
            update = node.child_by_field_name("update")
            if update is not None and child.start_byte == update.start_byte:
                inner = whole
            _visit(child, whole, inner, inside, found, depth + 1)


def _declaration(
    node: Node, scope: tuple[int, int], block: tuple[int, int], loops: tuple[int, ...], found: FunctionDefinitions
) -> None:
    words = {c.type if not c.is_named else text_of(c) for c in node.children}
    kind = text_of(node.child_by_field_name("type"))
    if "const" in words or "constexpr" in words:
        kind = f"const {kind}"
    for name, declarator in declarators_of(node):
        marks, value, initialised = "", None, False
        extents: list[Node | None] = []
        inner: Node | None = declarator
        while inner is not None and inner.type != "identifier":
            if inner.type == "init_declarator":
                value = inner.child_by_field_name("value")
                initialised = True
            elif inner.type == "array_declarator":
                extents.insert(0, inner.child_by_field_name("size"))
            elif inner.type == "pointer_declarator":
                marks = "*" + marks
            elif inner.type == "reference_declarator":
                marks = "&" + marks
            elif inner.type == "function_declarator":
                break  # ``dim3 grid(x);`` may read as a function: its value is not known
            following = inner.child_by_field_name("declarator")
            if following is None:
                following = inner.named_children[-1] if inner.named_children else None
            inner = following
        variable = LocalVariable(
            name, declarator.start_byte, (node.start_byte, scope[1]), f"{kind}{marks}", tuple(extents), "&" in marks,
            "__shared__" in words, "extern" in words, node, declarator,
        )  # fmt: skip
        found.variables.append(variable)
        if value is not None and value.type in ("argument_list", "initializer_list"):
            value = value.named_children[0] if value.named_child_count == 1 else None
        operator = "=" if value is not None else "?"
        if not initialised and not extents:
            operator = "none"
        _define(found, variable, declarator.start_byte, declarator.end_byte, operator, value, block, loops)


def _define(
    found: FunctionDefinitions,
    variable: LocalVariable,
    at: int,
    end: int,
    operator: str,
    value: Node | None,
    block: tuple[int, int],
    loops: tuple[int, ...],
) -> None:
    definition = Definition(variable.name, at, end, operator, value, block, loops, variable.at)
    found.definitions.setdefault(variable.at, []).append(definition)


def _write(node: Node, block: tuple[int, int], loops: tuple[int, ...], found: FunctionDefinitions) -> None:
    target = node.child_by_field_name("left" if node.type == "assignment_expression" else "argument")
    if target is None:
        return
    target = without_parentheses(target)
    operator = operator_of(node)
    value = node.child_by_field_name("right") if node.type == "assignment_expression" else None
    while target.type == "field_expression" and operator_of(target) != "->":
        argument = target.child_by_field_name("argument")
        if argument is None:
            return
        target, operator, value = without_parentheses(argument), "?", None  # one member of a struct
    if target.type != "identifier":
        return
    name = text_of(target)
    variable = found.variable(name, node.start_byte)
    if variable is None:
        variable = _parameter_variable(found, name, target)
    _define(found, variable, node.start_byte, node.end_byte, operator, value, block, loops)


def _arguments(node: Node, block: tuple[int, int], loops: tuple[int, ...], found: FunctionDefinitions) -> None:
    """A variable that stands alone as an argument may be changed through a reference."""
    arguments, function = node.child_by_field_name("arguments"), node.child_by_field_name("function")
    if arguments is None or function is None:
        return
    for index, argument in enumerate(arguments.named_children):
        if argument.type == "identifier" and not found.takes_value(called_name(function), index):
            _unknown(argument, node, block, loops, found)


def _parameter_variable(found: FunctionDefinitions, name: str, node: Node) -> LocalVariable:
    """What stands for a parameter (or global) that the function writes: declared before everything."""
    known = found.parameters.get(name)
    if known is None:
        at = -1 - len(found.parameters)
        known = LocalVariable(name, at, (0, node.end_byte), "", (), False, False, False, node, node)
        found.parameters[name] = known
    return known


def _unknown(
    target: Node | None, node: Node, block: tuple[int, int], loops: tuple[int, ...], found: FunctionDefinitions
) -> None:
    """The variable's address is taken or handed out: its value is unknown from here on."""
    if target is None:
        return
    target = without_parentheses(target)
    if target.type != "identifier":
        return
    name = text_of(target)
    variable = found.variable(name, node.start_byte)
    if variable is None:
        variable = _parameter_variable(found, name, target)
    if not variable.extents:
        _define(found, variable, node.start_byte, node.end_byte, "?", None, block, loops)

"""The host code of one or more files, indexed: functions, and for every variable where it gets a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from attrs import field, frozen
from tree_sitter import Node

from optiml_core.source import Macro, TranslationUnit
from optiml_core.workload.inference.conditions import Dropped, dropped_parts
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
    declared_name,
    expanded,
    expression_fragment,
    path_of,
    plain_name,
    statements_fragment,
    without_casts,
)

EventKind = Literal["declared", "constructed", "value", "compound", "step", "element", "address"]


@frozen(eq=False)
class Event:
    """A place that gives a variable (``path``: `n`, `grid.x`, `p.count`) a value.

    ``start``: its byte offset in the file. ``node``: for its surroundings (scope, conditions). ``value``: what is
    assigned. ``operator``: of a compound assignment or step. ``call`` and ``argument``: the call that takes the
    variable's address.
    """

    path: str
    kind: EventKind
    start: int
    node: Node = field(repr=False)
    value: Fragment | None = None
    operator: str = ""
    type: str = ""
    call: Fragment | None = None
    argument: int = 0
    is_array: bool = False
    is_pointer: bool = False  # declared with a star


@frozen(eq=False)
class HostParameter:
    """``type``: its text with stars and ampersands, without the name."""

    name: str
    default: Fragment | None
    type: str = ""


@frozen(eq=False)
class Function:
    """A host function with its body, its calls and the events of its variables in the order of the text."""

    name: str
    unit: TranslationUnit = field(repr=False)
    node: Node = field(repr=False)
    parameters: tuple[HostParameter, ...] = ()
    template_parameters: tuple[str, ...] = ()
    events: dict[str, list[Event]] = field(factory=dict, repr=False)
    calls: list[Fragment] = field(factory=list, repr=False)
    returns: list[Fragment] = field(factory=list, repr=False)

    @property
    def data(self) -> bytes:
        return self.unit.plain


@frozen(eq=False)
class Program:
    """All host code there is to read. ``globals``: the events of variables outside of functions, per name."""

    functions: dict[str, list[Function]]
    globals: dict[str, list[Event]]
    macros: dict[str, Macro]
    enumerators: dict[str, tuple[Fragment | None, str | None]]  # value, or the enumerator before it
    global_data: dict[str, TranslationUnit]
    files: dict[int, str]  # id of a unit's bytes -> its path
    dropped: Dropped
    calls: dict[str, list[tuple[Function, Fragment]]] = field(factory=dict)  # by the name that is called

    def all_functions(self) -> Iterator[Function]:
        for functions in self.functions.values():
            yield from functions


# ------------------------------------------------------------------------------------- indexing


def _calculated(text: str) -> float | None:
    """The value of a preprocessor expression in which no name is left."""
    # The evaluation of expressions needs a program, and this is what makes one: an empty one will do.
    from optiml_core.workload.inference.context import Context
    from optiml_core.workload.inference.evaluation import evaluate
    from optiml_core.workload.inference.values import Quantity

    fragment = expression_fragment(text)
    empty = Program({}, {}, {}, {}, {}, {}, Dropped())
    value = evaluate(Context(empty), fragment, None, 0) if fragment is not None else None
    return value.value if isinstance(value, Quantity) else None


def index_program(units: Sequence[TranslationUnit]) -> Program:
    """Indexes the host code of the units; kernels are left out."""
    return _indexed(tuple(units))


# Every kernel of a file asks for the same units: a program is read-only once it is indexed.
@lru_cache(maxsize=16)
def _indexed(units: tuple[TranslationUnit, ...]) -> Program:
    files = {id(unit.plain): unit.source.path for unit in units}
    program = Program({}, {}, {}, {}, {}, files, dropped_parts(units, _calculated))
    for unit in units:
        for macro in unit.macros:
            if not program.dropped.holds(unit, macro.range.start_byte):
                program.macros.setdefault(macro.name, macro)
    for unit in units:
        kernels = {kernel.body_range.start_byte for kernel in unit.kernels}
        _index_scope(program, unit, unit.tree.root_node, kernels)
    for function in program.all_functions():
        _index_references(program, function)
        for call in function.calls:
            program.calls.setdefault(called_name(call), []).append((function, call))
    return program


def _index_references(program: Program, function: Function) -> None:
    """A variable that is passed by reference to a function of the files may get its value there."""
    for call in function.calls:
        callees = program.functions.get(called_name(call), ())
        arguments = arguments_of(call)
        callee = next((one for one in callees if len(one.parameters) == len(arguments)), None)
        if callee is None or callee is function:
            continue
        for position, (argument, parameter) in enumerate(zip(arguments, callee.parameters, strict=True)):
            path = path_of(argument) if "&" in parameter.type and "const" not in parameter.type.split("&")[0] else None
            if path:
                event = Event(path, "address", call.node.start_byte, call.node, call=call, argument=position)
                function.events.setdefault(path, []).append(event)
                function.events[path].sort(key=lambda one: one.start)


_CONTAINERS = {
    "translation_unit",
    "namespace_definition",
    "linkage_specification",
    "declaration_list",
    "preproc_ifdef",
    "preproc_if",
    "preproc_else",
    "preproc_elif",
    "class_specifier",
    "struct_specifier",
    "field_declaration_list",
    "template_declaration",
    "ERROR",
}


def _index_scope(program: Program, unit: TranslationUnit, node: Node, kernels: set[int]) -> None:
    for child in node.named_children:
        if program.dropped.holds(unit, child.start_byte) and child.type not in _CONTAINERS:
            continue
        if child.type == "function_definition":
            body = child.child_by_field_name("body")
            if body is not None and body.start_byte not in kernels:
                function = index_function(program, unit, child)
                if function is not None:
                    program.functions.setdefault(function.name, []).append(function)
        elif child.type == "declaration" or (child.type == "field_declaration" and node.type != "translation_unit"):
            for event in _declaration_events(Fragment(child, unit.plain)):
                program.globals.setdefault(event.path, []).append(event)
                program.global_data[event.path] = unit
        elif child.type in ("enum_specifier", "type_definition"):
            named = child.child_by_field_name("type") if child.type == "type_definition" else child
            if named is not None and named.type == "enum_specifier":
                _index_enumerators(program, Fragment(named, unit.plain))
        if child.type in _CONTAINERS:
            _index_scope(program, unit, child, kernels)


def _index_enumerators(program: Program, specifier: Fragment) -> None:
    body = specifier.child("body")
    previous: str | None = None
    for enumerator in body.named() if body else []:
        name = enumerator.child("name")
        if name is not None:
            program.enumerators[name.text] = (enumerator.child("value"), previous)
            previous = name.text


def index_function(program: Program, unit: TranslationUnit, node: Node) -> Function | None:
    """The index of one `function_definition`; None if it has no name or body."""
    body = node.child_by_field_name("body")
    if body is None:
        return None
    whole = Fragment(node, unit.plain)
    declarator = _function_declarator(whole.child("declarator"))
    name = None if declarator is None else declarator.child("declarator")
    if declarator is None or name is None:
        return None
    listed = declarator.child("parameters")
    parameters = tuple(_parameters(listed)) if listed else ()
    function = Function(plain_name(name.text), unit, node, parameters, _template_parameters(whole))
    _index_body(program, function, Fragment(body, unit.plain))
    for events in function.events.values():
        events.sort(key=lambda event: event.start)
    return function


def _function_declarator(declarator: Fragment | None) -> Fragment | None:
    while declarator is not None and declarator.node.type != "function_declarator":
        inner = declarator.child("declarator")
        if inner is None:
            inner = next((one for one in declarator.named() if one.node.type.endswith("declarator")), None)
        declarator = inner
    return declarator


def _parameters(listed: Fragment) -> Iterator[HostParameter]:
    for parameter in listed.named():
        if parameter.node.type in ("parameter_declaration", "optional_parameter_declaration"):
            declarator = parameter.child("declarator")
            name = declared_name(declarator) if declarator else ""
            type_text = re.sub(rf"\b{re.escape(name)}\b", "", parameter.text.split("=")[0]) if name else parameter.text
            yield HostParameter(name, parameter.child("default_value"), " ".join(type_text.split()))


def _template_parameters(function: Fragment) -> tuple[str, ...]:
    parent = function.node.parent
    if parent is None or parent.type != "template_declaration":
        return ()
    listed = Fragment(parent, function.data).child("parameters")
    names = []
    for parameter in listed.named() if listed else []:
        words = re.findall(r"\w+", parameter.text.split("=")[0])
        names.append(words[-1] if words else "")
    return tuple(names)


# --------------------------------------------------------------------------------------- bodies


def _index_body(program: Program, function: Function, body: Fragment) -> None:
    waiting = [body.node]
    while waiting:
        node = waiting.pop()
        if program.dropped.holds(function.unit, node.start_byte) and not node.type.startswith("preproc"):
            continue
        fragment = Fragment(node, body.data)
        for event in events_of(fragment, program):
            function.events.setdefault(event.path, []).append(event)
        if node.type == "enum_specifier":
            _index_enumerators(program, fragment)
        elif node.type == "call_expression":
            function.calls.append(fragment)
        elif node.type == "return_statement":
            function.returns.append(fragment)
        waiting.extend(reversed(node.named_children))


def events_of(fragment: Fragment, program: Program) -> Iterator[Event]:
    """The events that one node makes itself, not those of its children."""
    node = fragment.node
    if node.type == "declaration":
        yield from _declaration_events(fragment)
    elif node.type == "for_range_loop":
        declarator, over = fragment.child("declarator"), fragment.child("right")
        if declarator is not None:
            yield Event(declared_name(declarator), "element", node.start_byte, node, over)
    elif node.type == "assignment_expression":
        target, value, operator = fragment.child("left"), fragment.child("right"), fragment.child("operator")
        path = path_of(target) if target else None
        if path is not None and value is not None:
            sign = operator.text if operator else _sign(fragment)
            kind: EventKind = "value" if sign == "=" else "compound"
            yield Event(path, kind, node.start_byte, node, value, sign.rstrip("="))
    elif node.type == "update_expression":
        target = fragment.child("argument")
        path = path_of(target) if target else None
        if path is not None:
            yield Event(path, "step", node.start_byte, node, None, "+" if "++" in fragment.text else "-")
    elif node.type == "call_expression":
        yield from _call_events(fragment, program)


def _sign(assignment: Fragment) -> str:
    left = assignment.child("left")
    right = assignment.child("right")
    if left is None or right is None:
        return "="
    return assignment.data[left.node.end_byte : right.node.start_byte].decode("utf-8", "replace").strip() or "="


def _declaration_events(declaration: Fragment) -> Iterator[Event]:
    kind = declaration.child("type")
    type_text = kind.text if kind else ""
    node = declaration.node
    for declarator in (Fragment(one, declaration.data) for one in node.children_by_field_name("declarator")):
        name = declared_name(declarator)
        start = declarator.node.start_byte
        starred = "*" in declarator.text.split("=")[0].split("(")[0]
        if declarator.node.type == "init_declarator":
            value, target = declarator.child("value"), declarator.child("declarator")
            if value is None or target is None:
                continue
            constructed = value.node.type == "argument_list"
            yield Event(
                name, "constructed" if constructed else "value", start, node, value, type=type_text,
                is_array=target.node.type == "array_declarator", is_pointer=starred,
            )  # fmt: skip
        elif declarator.node.type == "function_declarator":
            # `dim3 grid(n, m);` reads like the declaration of a function that takes an n and an m.
            listed = declarator.child("parameters")
            arguments = None if listed is None else expression_fragment("f" + listed.text)
            value = None if arguments is None else arguments.child("arguments")
            yield Event(name, "constructed", start, node, value, type=type_text)
        elif declarator.node.type == "array_declarator":
            yield Event(name, "declared", start, node, declarator, type=type_text, is_array=True, is_pointer=starred)
        else:
            yield Event(name, "declared", start, node, None, type=type_text, is_pointer=starred)


def _call_events(call: Fragment, program: Program) -> Iterator[Event]:
    """A call that takes a variable's address may give it a value; macros that allocate are expanded."""
    name = called_name(call)
    macro = program.macros.get(name)
    if macro is not None and macro.parameters is not None and "alloc" in macro.body.lower():
        body = statements_fragment(expanded(macro, [one.text for one in arguments_of(call)]))
        for inner in _descendants(body.node) if body else []:
            if body is not None and inner.type == "call_expression":
                yield from _address_events(Fragment(inner, body.data), call.node)
        return
    yield from _address_events(call, call.node)


# They return the memory; their first argument is a size.
RETURNING_MEMORY = {"malloc", "calloc", "realloc", "aligned_alloc", "_mm_malloc", "alloca"}


def _address_events(call: Fragment, at: Node) -> Iterator[Event]:
    name = called_name(call)
    if name.endswith("_cast"):
        return
    for position, argument in enumerate(arguments_of(call)):
        inner = without_casts(argument)
        path = None
        if inner.node.type == "pointer_expression" and inner.text.startswith("&"):
            target = inner.child("argument")
            path = path_of(target) if target else None
        elif position == 0 and "alloc" in name.lower() and name not in RETURNING_MEMORY:
            path = path_of(inner)
        if path is not None:
            yield Event(path, "address", at.start_byte, at, call=call, argument=position)


def _descendants(node: Node) -> Iterator[Node]:
    yield node
    for child in node.named_children:
        yield from _descendants(child)

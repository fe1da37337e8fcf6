"""A kernel's body with what most rewrites ask of it: definitions, macros, polynomials of indexes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import tree_sitter_cuda
from attrs import field as attribute
from attrs import frozen
from tree_sitter import Language, Node, Parser

from optiml_core.records import Kernel
from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.polynomials import Polynomial, read_polynomial
from optiml_core.rewrites.syntax import (
    DeclaredVariable,
    arguments_of,
    assigned_names,
    called_name,
    declared_variables,
    field,
    names_in,
    squeeze,
    text_of,
    walk_types,
)
from optiml_core.source import TranslationUnit

BARRIERS = frozenset({"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp"})
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@frozen
class KernelBody:
    """A kernel definition taken apart.

    ``locals``: every variable declared in the body, by name (the last one of a name wins).
    ``definitions``: those that have one value for the whole run of a thread: initialised where they
    are declared, declared once, never assigned, address never taken. ``repeated``: those that are declared in
    several places, initialised in each and never assigned. ``assigned``: names assigned anywhere.
    """

    unit: TranslationUnit
    kernel: Kernel
    node: Node
    body: Node
    locals: Mapping[str, DeclaredVariable]
    definitions: Mapping[str, Node]
    assigned: frozenset[str]
    repeated: Mapping[str, tuple[DeclaredVariable, ...]] = attribute(factory=dict)
    macros: Mapping[str, str] = attribute(factory=dict)

    @property
    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.kernel.parameters)

    def meaning(self, name: str) -> Polynomial | None:
        """What a name stands for in an index: its definition or its macro, else None."""
        return self._meaning(name, frozenset(), frozenset())

    def _meaning(self, name: str, kept: frozenset[str], seen: frozenset[str], at: int = 0) -> Polynomial | None:
        if name in seen or name in kept:
            return None
        node = self.definitions.get(name) or self._repeated_definition(name, at)
        if node is None and name in self.macros:
            node = parse_expression_text(self.macros[name])
        if node is None:
            return None
        start = node.start_byte if name not in self.macros else at
        return read_polynomial(node, lambda inner: self._meaning(inner, kept, seen | {name}, start))

    def _repeated_definition(self, name: str, at: int) -> Node | None:
        """The value of the declaration that a use at byte ``at`` sees: the innermost block's."""
        visible = [
            variable
            for variable in self.repeated.get(name, ())
            if (block := variable.declaration.parent) is not None
            and block.start_byte <= at < block.end_byte
            and variable.declaration.end_byte <= at
        ]
        return visible[-1].value if visible else None

    def polynomial(self, node: Node, keep: frozenset[str] = frozenset()) -> Polynomial:
        """The polynomial of an index expression, definitions and macros written out except for ``keep``."""
        return read_polynomial(node, lambda name: self._meaning(name, keep, frozenset(), node.start_byte))


def read_kernel(context: RewriteContext) -> KernelBody | Refusal:
    """The kernel of a context taken apart; a Refusal where its text is broken or split by the preprocessor."""
    node = context.unit.node(context.kernel)
    body = None if node is None else node.child_by_field_name("body")
    if node is None or body is None:
        return Refusal("the kernel's text is not a whole definition")
    if context.kernel.has_syntax_error or body.has_error:
        return Refusal("the kernel's text has something in it that the parser does not understand")
    if next(walk_types(body, "preproc_if", "preproc_ifdef", "preproc_elif", "preproc_else", "preproc_def"), None):
        return Refusal("the kernel's text depends on preprocessor conditions")
    if next(walk_types(body, "goto_statement", "asm_statement", "gnu_asm_expression", "lambda_expression"), None):
        return Refusal("the kernel has a goto, inline assembly or a lambda in it")
    return _take_apart(context.unit, context.kernel, node, body)


def _take_apart(unit: TranslationUnit, kernel: Kernel, node: Node, body: Node) -> KernelBody:
    variables: dict[str, DeclaredVariable] = {}
    all_of: dict[str, list[DeclaredVariable]] = {}
    for declaration in walk_types(body, "declaration"):
        for variable in declared_variables(declaration):
            variables[variable.name] = variable
            all_of.setdefault(variable.name, []).append(variable)
    assigned = assigned_names(body) | _addressed(body) | names_given_to_writers(unit, body)
    parameters = frozenset(parameter.name for parameter in kernel.parameters)
    constant = {
        name: tuple(own)
        for name, own in all_of.items()
        if name not in assigned and name not in parameters and all(_has_plain_value(one) for one in own)
    }
    definitions = {name: own[0].value for name, own in constant.items() if len(own) == 1 and own[0].value is not None}
    repeated = {name: own for name, own in constant.items() if len(own) > 1}
    return KernelBody(unit, kernel, node, body, variables, definitions, assigned, repeated, object_macros(unit))


def _has_plain_value(variable: DeclaredVariable) -> bool:
    value = variable.value
    return value is not None and not variable.is_array and value.type not in ("initializer_list", "parameter_list")


def _addressed(body: Node) -> frozenset[str]:
    """Names whose address is taken, or that a reference may be bound to by a call that is no builtin."""
    found = set()
    for pointer in walk_types(body, "pointer_expression"):
        operand = field(pointer, "argument")
        if text_of(pointer).startswith("&") and operand.type == "identifier":
            found.add(text_of(operand))
    return frozenset(found)


# What a macro's text does with an argument that it may write: assign, count, or take its address.
WRITES = re.compile(r"(?<![=!<>])=(?!=)|\+\+|--|(?<!&)&(?!&)|_cast\b|\batomic")


def names_given_to_writers(unit: TranslationUnit, node: Node) -> frozenset[str]:
    """Variables that a call at or below ``node`` may change: given to a reference, or to a macro that assigns."""
    found = set()
    writers = {m.name for m in unit.macros if m.parameters is not None and WRITES.search(m.body)}
    functions = {f.name: f.parameters for f in unit.device_functions}
    for call in walk_types(node, "call_expression"):
        name = called_name(call) or ""
        for index, argument in enumerate(arguments_of(call)):
            parameters = functions.get(name, ())
            by_reference = index < len(parameters) and parameters[index].is_reference and not parameters[index].is_const
            if argument.type == "identifier" and (name in writers or by_reference):
                found.add(text_of(argument))
    return frozenset(found)


def object_macros(unit: TranslationUnit) -> dict[str, str]:
    """What names of the file stand for an expression: macros without parameters, constants at file scope."""
    constants = {
        variable.name: text_of(variable.value)
        for declaration in unit.tree.root_node.named_children
        for variable in declared_variables(declaration)
        if variable.value is not None
        and re.search(r"\bconst(expr)?\b", variable.type)
        and not variable.is_array
        and not variable.is_pointer
        and variable.value.type != "argument_list"
    }
    macros = {macro.name: macro.body for macro in unit.macros if macro.parameters is None and macro.body.strip()}
    return constants | macros


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_cuda.language())


@lru_cache(maxsize=4096)
def parse_expression_text(text: str) -> Node | None:
    """The node of an expression that is not in the file (a macro's body); None if it is no expression."""
    tree = Parser(_language()).parse(f"int value = ({text});".encode("utf-8", "surrogateescape"))
    if tree.root_node.has_error:
        return None
    declarator = next(walk_types(tree.root_node, "init_declarator"), None)
    return None if declarator is None else field(declarator, "value")


def barriers_in(node: Node) -> tuple[Node, ...]:
    """Calls of barriers at or below ``node``."""
    return tuple(call for call in walk_types(node, "call_expression") if (called_name(call) or "") in BARRIERS)


def returns_in(node: Node) -> tuple[Node, ...]:
    return tuple(walk_types(node, "return_statement"))


_THREAD_WORDS = re.compile(
    r"\b(threadIdx|blockIdx|blockDim|gridDim|warpSize|__sync\w+|__shfl\w*|__(?:all|any|ballot|activemask|match|reduce)\w*"
    r"|this_thread_block|this_thread|tiled_partition|coalesced_threads|this_grid|cooperative_groups|__shared__|cub|wmma)\b"
)


def builtins_in(body: KernelBody, node: Node) -> frozenset[str]:
    """``threadIdx.x``, ``blockDim.y`` ... that code at or below ``node`` uses, also through macros and functions.

    Warp intrinsics, cooperative groups and calls of the file's device functions that use any of these are in
    the result by their own names: code that has none of them does not know which thread runs it.
    """
    found = set()
    for expression in walk_types(node, "field_expression"):
        text = squeeze(text_of(expression))
        if text.split(".")[0] in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            found.add(text)
    for name in names_in(node):
        macro = body.macros.get(name)
        expanded = None if macro is None else parse_expression_text(macro)
        if expanded is not None:
            found |= builtins_in(body, expanded)
        elif macro is not None and _THREAD_WORDS.search(macro):
            found.add(name)
        if _THREAD_WORDS.fullmatch(name) and name not in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            found.add(name)
    called = {called_name(call) or "" for call in walk_types(node, "call_expression")}
    for function in body.unit.device_functions:
        if function.name in called and _THREAD_WORDS.search(body.unit.source.slice(function.body_range)):
            found.add(function.name)
    for function_macro in body.unit.macros:
        is_called = function_macro.parameters is not None and function_macro.name in called
        if is_called and _THREAD_WORDS.search(function_macro.body):
            found.add(function_macro.name)
    return frozenset(found)

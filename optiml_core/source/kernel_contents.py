"""What is inside a kernel: loops, memory accesses, barriers, arrays and calls."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Kernel, SourceRange
from optiml_core.source.affine_form import AffineForm, PointerValue, constant_form
from optiml_core.source.constant_expressions import evaluate_text
from optiml_core.source.declarations import resolve_alias
from optiml_core.source.definitions import FunctionDefinitions, LocalVariable, read_definitions
from optiml_core.source.index_forms import IndexContext, InlineFunction
from optiml_core.source.memory import remembered
from optiml_core.source.polynomials import ZERO, Polynomial, number, symbol
from optiml_core.source.translation_unit import TranslationUnit
from optiml_core.source.tree_queries import takes_values_only, text_of, walk
from optiml_core.source.type_aliases import alias_map


@frozen
class KernelArray:
    """An array (or scalar) in shared or local memory that a kernel declares.

    ``extents``: texts, one per dimension; ``extent_values``: their numbers where they are constant.
    ``bytes`` None: dynamic (``extern``), or of a size or type that is not known here.
    """

    name: str
    type: str
    space: str  # "shared" or "local"
    extents: tuple[str, ...]
    extent_values: tuple[int | None, ...]
    bytes: int | None
    is_dynamic: bool
    range: SourceRange


def integer_constants(unit: TranslationUnit) -> dict[str, int]:
    """Names at file scope with an integer value: macros, ``const`` and ``constexpr`` integers, enumerators."""
    return remembered(unit, "integer_constants", lambda: _integer_constants(unit))


def _integer_constants(unit: TranslationUnit) -> dict[str, int]:
    from optiml_core.source.file_scope import file_scope_nodes

    texts: dict[str, str] = {}
    doubtful: set[str] = set()
    for macro in unit.blanked.macros:
        if macro.parameters is None and macro.body:
            if macro.name in texts and texts[macro.name] != macro.body:
                doubtful.add(macro.name)  # defined twice: which one holds is not known here
            texts[macro.name] = macro.body
    known: dict[str, int] = {}
    for name, body in texts.items():
        if name not in doubtful:
            _resolve(name, body, texts, known, doubtful, 0)
    for node in file_scope_nodes(unit.tree.root_node):
        if node.type == "declaration":
            qualifiers = {text_of(c) for c in node.children if c.type == "type_qualifier"}
            if qualifiers & {"const", "constexpr", "__constant__"} and "__constant__" not in qualifiers:
                for declarator in node.children_by_field_name("declarator"):
                    _constant(declarator, known)
        elif node.type == "enum_specifier":
            _enumerators(node, known)
    return known


def _resolve(
    name: str, body: str, texts: dict[str, str], known: dict[str, int], doubtful: set[str], depth: int
) -> None:
    if depth > 8 or name in known:
        return
    for word in re.findall(r"[A-Za-z_]\w*", body):
        if word in texts and word not in known and word not in doubtful and word != name:
            _resolve(word, texts[word], texts, known, doubtful, depth + 1)
    value = evaluate_text(body, known)
    if value is not None:
        known[name] = value


def _constant(declarator: Node, known: dict[str, int]) -> None:
    if declarator.type != "init_declarator":
        return
    name, value = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("value")
    if name is None or value is None or name.type != "identifier":
        return
    if value.type in ("initializer_list", "argument_list"):
        if value.named_child_count != 1:
            return
        value = value.named_children[0]
    number_ = evaluate_text(text_of(value), known)
    if number_ is not None:
        known[text_of(name)] = number_


def _enumerators(node: Node, known: dict[str, int]) -> None:
    following: int | None = 0
    for entry in walk(node):
        if entry.type != "enumerator":
            continue
        value = entry.child_by_field_name("value")
        if value is not None:
            following = evaluate_text(text_of(value), known)
        if following is not None:
            known[text_of(entry.child_by_field_name("name"))] = following
            following += 1


def value_taking(unit: TranslationUnit) -> Callable[[str, int], bool]:
    """Answers whether an argument of a function is surely passed by value."""
    by_name = {f.name: f for f in unit.device_functions}
    macros = {m.name for m in unit.blanked.macros if m.parameters is not None}

    def takes_value(name: str, index: int) -> bool:
        known = by_name.get(name.rsplit("::", 1)[-1])
        if known is not None:
            return index < len(known.parameters) and not known.parameters[index].is_reference
        # A macro of the file could assign, but one that computes does not; ALL_CAPITALS checks do not either.
        return name in macros or takes_values_only(name)

    return takes_value


def definitions_in(unit: TranslationUnit, kernel: Kernel) -> FunctionDefinitions | None:
    """The kernel's local variables, their definitions and its loops; None if no tree has the kernel."""
    node = unit.node(kernel)
    if node is None:
        return None
    key = ("definitions", kernel.range.start_byte)
    return remembered(unit, key, lambda: read_definitions(node, value_taking(unit)))


def index_context(unit: TranslationUnit, kernel: Kernel) -> IndexContext | None:
    """What evaluates the kernel's index expressions; None if no tree has the kernel."""
    definitions = definitions_in(unit, kernel)
    if definitions is None:
        return None
    return remembered(unit, ("context", kernel.range.start_byte), lambda: _context(unit, kernel, definitions))


def _context(unit: TranslationUnit, kernel: Kernel, definitions: FunctionDefinitions) -> IndexContext:
    aliases = alias_map(unit.blanked)
    arrays: dict[str, PointerValue] = {}
    scalars = {t.name for t in kernel.template_parameters}
    for parameter in kernel.parameters:
        if parameter.is_pointer:
            shape = resolve_alias(parameter.type, aliases)
            arrays[parameter.name] = PointerValue(parameter.name, constant_form(ZERO), _pointee(shape), "global")
        else:
            scalars.add(parameter.name)
            _members(unit, parameter.name, parameter.type, arrays)
    constants = integer_constants(unit)
    extents: dict[str, tuple[Polynomial | None, ...]] = {}
    for variable in unit.globals:
        space = {"constant": "constant", "shared": "shared"}.get(variable.space, "global")
        if variable.extents or "*" in variable.type:
            element = _pointee(variable.type + "*") if variable.extents else _pointee(variable.type)
            arrays[variable.name] = PointerValue(variable.name, constant_form(ZERO), element, space)
        extents[variable.name] = tuple(_extent(e, constants) for e in variable.extents)
    hidden = {p.name for p in kernel.parameters} | {t.name for t in kernel.template_parameters}
    return IndexContext(
        definitions,
        {n: v for n, v in constants.items() if n not in hidden},
        arrays,
        frozenset(scalars),
        {m.name: m for m in unit.macros},
        inline_functions(unit),
        aliases,
        extents,
    )


def _extent(text: str, constants: dict[str, int]) -> Polynomial | None:
    if not text:
        return None
    value = evaluate_text(text, constants)
    return number(value) if value is not None else symbol(text if text.isidentifier() else f"({text})")


def _pointee(shape: str) -> str:
    """``"const float* __restrict__"`` becomes ``"float"``."""
    text = shape.split("[", 1)[0]
    if "*" in text:
        text = text[: text.rindex("*")]
    words = text.replace("&", " ").replace("(", " ").replace(")", " ").split()
    return " ".join(w for w in words if w not in ("const", "volatile", "__restrict__", "__restrict", "restrict"))


def _members(unit: TranslationUnit, name: str, type_text: str, arrays: dict[str, PointerValue]) -> None:
    """Pointer members of a struct that is passed by value: arrays named ``parameter.member``."""
    wanted = type_text.replace("const ", "").replace("struct ", "").replace("&", "").strip()
    for definition in unit.structs:
        if definition.name == wanted:
            for member in definition.members:
                if "*" in member.type:
                    full = f"{name}.{member.name}"
                    arrays[full] = PointerValue(full, constant_form(ZERO), _pointee(member.type), "global")


def inline_functions(unit: TranslationUnit) -> dict[str, InlineFunction]:
    """Device functions whose body is a single ``return``: their calls in an index can be looked through."""
    return remembered(unit, "inline_functions", lambda: _inline_functions(unit))


def _inline_functions(unit: TranslationUnit) -> dict[str, InlineFunction]:
    found: dict[str, InlineFunction] = {}
    counts: dict[str, int] = {}
    for function in unit.device_functions:
        counts[function.name] = counts.get(function.name, 0) + 1
        body = unit.tree.root_node.descendant_for_byte_range(
            function.body_range.start_byte, function.body_range.end_byte
        )
        if body is None or body.type != "compound_statement":
            continue
        statements = [c for c in body.named_children if c.type != "comment"]
        if len(statements) == 1 and statements[0].type == "return_statement" and statements[0].named_child_count == 1:
            names = tuple(p.name for p in function.parameters)
            found[function.name] = InlineFunction(names, statements[0].named_children[0])
    return {name: f for name, f in found.items() if counts[name] == 1}


def arrays_in(unit: TranslationUnit, kernel: Kernel) -> tuple[KernelArray, ...]:
    """The shared variables and the local arrays that a kernel declares, in order."""
    context = index_context(unit, kernel)
    if context is None:
        return ()
    variables = context.definitions.variables
    return tuple(_array(unit, context, v) for v in variables if v.is_static_shared or v.extents)


def shared_arrays(unit: TranslationUnit, kernel: Kernel) -> tuple[KernelArray, ...]:
    """The shared variables that a kernel declares, static and dynamic."""
    return tuple(a for a in arrays_in(unit, kernel) if a.space == "shared")


def _array(unit: TranslationUnit, context: IndexContext, variable: LocalVariable) -> KernelArray:
    from optiml_core.source.pointer_values import extents_of, size_of

    values = tuple(p.value if p is not None else None for p in extents_of(context, variable.name, variable.at + 1))
    element = variable.type.replace("const ", "").replace("volatile ", "").strip()
    size = 8 if "*" in element else size_of(context, element)
    dynamic = variable.is_static_shared and variable.is_extern
    total = None if dynamic else size
    for value in values:
        total = total * value if total is not None and value is not None else None
    return KernelArray(
        name=variable.name,
        type=element,
        space="shared" if variable.is_static_shared else "local",
        extents=tuple(text_of(e) for e in variable.extents),
        extent_values=values,
        bytes=total,
        is_dynamic=dynamic,
        range=unit.source.range(variable.node.start_byte, variable.node.end_byte),
    )


def form_of(unit: TranslationUnit, kernel: Kernel, node: Node) -> AffineForm | None:
    """The affine form of any integer expression node of the kernel's tree; None without a tree."""
    context = index_context(unit, kernel)
    return context.integer(node, node.start_byte) if context is not None else None

"""What stands at file scope besides kernels: includes, device functions, globals, structs, aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node, Tree

from optiml_core.source.declarations import (
    read_parameters,
    read_template_parameters,
    split_declarator,
    squeeze,
    template_header,
)
from optiml_core.source.grammar import path_to
from optiml_core.source.source_file import SourceFile
from optiml_core.source.translation_unit import (
    DeviceFunction,
    GlobalVariable,
    Include,
    StructDefinition,
    StructMember,
    TranslationUnit,
    TypeAlias,
)
from optiml_core.source.type_aliases import alias_map

_INCLUDE = re.compile(r'(?:"([^"\n]*)"|<([^>\n]*)>)')
_SPACES = {
    b"__constant__": "constant",
    b"__device__": "device",
    b"__shared__": "shared",
    b"__managed__": "managed",
}
# Scopes whose declarations are still at file scope.
_TRANSPARENT = frozenset(
    {
        "translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "preproc_if",
        "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef", "template_declaration", "ERROR",
    }
)  # fmt: skip


def read_includes(unit: TranslationUnit) -> tuple[Include, ...]:
    """Every ``#include`` that names a file, in order."""
    found: list[Include] = []
    for directive in unit.scan.directives:
        if directive.word != "include":
            continue
        match = _INCLUDE.match(directive.text)
        if match is not None:
            quoted = match[1] is not None
            whole = unit.source.range(directive.start, directive.end)
            found.append(Include(match[1] if quoted else match[2], quoted, whole))
    return tuple(found)


def file_scope_nodes(node: Node) -> Iterator[Node]:
    """The declarations at file scope (also inside namespaces and conditionals), in order."""
    for child in node.named_children:
        yield child
        if child.type in _TRANSPARENT:
            yield from file_scope_nodes(child)


def _text(unit: TranslationUnit, node: Node) -> str:
    return squeeze(unit.plain[node.start_byte : node.end_byte].decode("utf-8", "replace"))


def _words(unit: TranslationUnit, start: int, end: int) -> list[bytes]:
    return re.findall(rb"[A-Za-z_]\w*", unit.scan.skeleton[start:end])


def _declarator(node: Node, kind: str) -> Node | None:
    """The nearest ``kind`` down the chain of declarators."""
    found: Node | None = node
    while found is not None and found.type != kind:
        inner = found.child_by_field_name("declarator")
        if inner is None and found.type in ("reference_declarator", "parenthesized_declarator"):
            inner = found.named_children[0] if found.named_children else None
        found = inner
    return found


def namespaces_around(tree: Tree, source: SourceFile, at: int) -> tuple[str, ...]:
    """The names of the namespaces (and classes) that enclose a byte, outermost first."""
    names: list[str] = []
    for node in path_to(tree.root_node, at):
        if node.type in ("namespace_definition", "struct_specifier", "class_specifier"):
            name = node.child_by_field_name("name")
            if name is not None and name.end_byte <= at:
                names.append(squeeze(source.data[name.start_byte : name.end_byte].decode("utf-8", "replace")))
    return tuple(part.strip() for name in names for part in name.split("::"))


def read_device_functions(unit: TranslationUnit) -> tuple[DeviceFunction, ...]:
    """Functions defined with ``__device__``, at file scope or as members of a class."""
    aliases = alias_map(unit.blanked)
    found: list[DeviceFunction] = []
    for match in re.finditer(rb"\b__device__\b", unit.blanked.skeleton):
        node: Node | None = unit.tree.root_node.descendant_for_byte_range(match.start(), match.end())
        while node is not None and node.type not in ("function_definition", "compound_statement"):
            node = node.parent
        if node is None or node.type != "function_definition":
            continue
        body = node.child_by_field_name("body")
        declarator = node.child_by_field_name("declarator")
        function = _declarator(declarator, "function_declarator") if declarator is not None else None
        if body is None or function is None or match.start() > function.start_byte:
            continue
        if found and found[-1].body_range.start_byte == body.start_byte:
            continue
        name = function.child_by_field_name("declarator")
        parameters = function.child_by_field_name("parameters")
        if name is None or parameters is None:
            continue
        parent = node.parent
        outer = parent if parent is not None and parent.type == "template_declaration" else node
        header = template_header(unit.blanked.skeleton, outer.start_byte, function.start_byte)
        written = _text(unit, name)
        plain_name = written.split("<", 1)[0].rsplit("::", 1)[-1]
        spaces = namespaces_around(unit.tree, unit.source, function.start_byte)
        kind = node.child_by_field_name("type")
        stars = unit.plain[kind.end_byte : function.start_byte] if kind is not None else b""
        found.append(
            DeviceFunction(
                name=plain_name,
                qualified="::".join((*spaces, written.replace(" ", ""))),
                range=unit.source.range(outer.start_byte, node.end_byte),
                body_range=unit.source.range(body.start_byte, body.end_byte),
                return_type=squeeze(f"{_text(unit, kind) if kind is not None else ''} {'*' * stars.count(b'*')}"),
                parameters=read_parameters(
                    unit.source, unit.plain, parameters.start_byte, parameters.end_byte - 1, aliases
                ),
                template_parameters=read_template_parameters(unit.plain, *header) if header else (),
                is_host_too=b"__host__" in _words(unit, node.start_byte, function.start_byte),
            )
        )
    return tuple(found)


def read_globals(unit: TranslationUnit) -> tuple[GlobalVariable, ...]:
    """Variables at file scope that live in constant, device, shared or managed memory."""
    found: list[GlobalVariable] = []
    for node in file_scope_nodes(unit.tree.root_node):
        if node.type != "declaration":
            continue
        declarators = node.children_by_field_name("declarator")
        if not declarators:
            continue
        words = _words(unit, node.start_byte, declarators[0].start_byte)
        space = next((_SPACES[w] for w in _SPACES if w in words), None)
        kind = node.child_by_field_name("type")
        if space is None or kind is None:
            continue
        if b"__managed__" in words:
            space = "managed"
        const = "const " if b"const" in words else ""
        for declarator in declarators:
            if _declarator(declarator, "function_declarator") is not None:
                continue
            found.append(_global(unit, node, declarator, space, const + _text(unit, kind)))
    return tuple(found)


def _global(unit: TranslationUnit, node: Node, declarator: Node, space: str, kind: str) -> GlobalVariable:
    initialiser = None
    if declarator.type == "init_declarator":
        value = declarator.child_by_field_name("value")
        initialiser = _text(unit, value) if value is not None else None
        declarator = declarator.child_by_field_name("declarator") or declarator
    name, suffix, extents = _name_and_extents(_text(unit, declarator))
    spaces = namespaces_around(unit.tree, unit.source, node.start_byte)
    return GlobalVariable(
        name=name,
        qualified="::".join((*spaces, name)),
        space=space,
        type=squeeze(f"{kind} {suffix}"),
        extents=extents,
        initialiser=initialiser,
        range=unit.source.range(node.start_byte, node.end_byte),
    )


def _name_and_extents(declarator: str) -> tuple[str, str, tuple[str, ...]]:
    """``"*table[4][N]"`` becomes its name, the pointer part, and the texts of its extents."""
    extents = tuple(squeeze(e) for e in re.findall(r"\[([^\]]*)\]", declarator))
    head = declarator.split("[", 1)[0]
    match = re.search(r"([A-Za-z_]\w*)\s*\Z", head)
    if match is None:
        return declarator, "", extents
    return match[1], squeeze(head[: match.start()]), extents


def read_structs(unit: TranslationUnit) -> tuple[StructDefinition, ...]:
    """Structs, classes and unions at file scope that have a body."""
    found: list[StructDefinition] = []
    for node in file_scope_nodes(unit.tree.root_node):
        holder = node
        if node.type in ("type_definition", "declaration"):
            holder = node.child_by_field_name("type") or node
        if holder.type not in ("struct_specifier", "class_specifier", "union_specifier"):
            continue
        body = holder.child_by_field_name("body")
        if body is None:
            continue
        name = holder.child_by_field_name("name")
        written = _text(unit, name) if name is not None else ""
        if not written and node.type == "type_definition":
            declarator = node.child_by_field_name("declarator")
            written = _text(unit, declarator) if declarator is not None else ""
        parent = node.parent
        outer = parent if parent is not None and parent.type == "template_declaration" else node
        header = template_header(unit.blanked.skeleton, outer.start_byte, body.start_byte)
        found.append(
            StructDefinition(
                name=written,
                keyword=holder.type.removesuffix("_specifier"),
                members=tuple(_members(unit, body)),
                range=unit.source.range(outer.start_byte, node.end_byte),
                template_parameters=read_template_parameters(unit.plain, *header) if header else (),
            )
        )
    return tuple(found)


def _members(unit: TranslationUnit, body: Node) -> Iterator[StructMember]:
    for field in body.named_children:
        if field.type != "field_declaration":
            continue
        kind = field.child_by_field_name("type")
        if kind is None or "static" in [_text(unit, c) for c in field.children if c.type == "storage_class_specifier"]:
            continue
        for declarator in field.children_by_field_name("declarator"):
            if _declarator(declarator, "function_declarator") is not None:
                continue
            name, suffix, extents = _name_and_extents(_text(unit, declarator))
            yield StructMember(name, squeeze(f"{_text(unit, kind)} {suffix}"), extents)


def read_type_aliases(unit: TranslationUnit) -> tuple[TypeAlias, ...]:
    """``typedef`` and ``using`` at file scope; a typedef of a struct with a body counts as its struct."""
    found: list[TypeAlias] = []
    for node in file_scope_nodes(unit.tree.root_node):
        whole = unit.source.range(node.start_byte, node.end_byte)
        if node.type == "alias_declaration":
            name, target = node.child_by_field_name("name"), node.child_by_field_name("type")
            if name is not None and target is not None:
                found.append(TypeAlias(_text(unit, name), _text(unit, target), whole))
        elif node.type == "type_definition":
            kind = node.child_by_field_name("type")
            if kind is None or kind.child_by_field_name("body") is not None:
                continue
            for declarator in node.children_by_field_name("declarator"):
                start = kind.start_byte
                text = squeeze(unit.plain[start : declarator.end_byte].decode("utf-8", "replace"))
                name_text, target_text, _ = split_declarator(text)
                found.append(TypeAlias(name_text, target_text, whole))
    return tuple(found)

"""Who launches a kernel: whether every caller is known, so that its launch may be changed."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from optiml_core.records import Kernel, LaunchSite
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext
from optiml_core.rewrites.syntax import ancestors, called_name, text_of, walk_types
from optiml_core.source import TranslationUnit

# Calls that take a kernel without launching it, and whose effect does not hang on the launch's shape.
_HARMLESS_USES = frozenset(
    {"cudaFuncSetAttribute", "cudaFuncSetCacheConfig", "cudaFuncGetAttributes", "cudaFuncSetSharedMemConfig"}
)


def launches_elsewhere(context: RewriteContext) -> tuple[OutsideLaunch, ...]:
    """The launches in other files that mean this kernel; a file with a kernel of that name launches its own."""
    return tuple(
        outside
        for outside in context.other_launch_sites or ()
        if not any(own.name == context.kernel.name for own in outside.unit.kernels)
    )


def unknown_callers(context: RewriteContext) -> Refusal | None:
    """Why not every caller of the kernel is known, or None."""
    kernel = context.kernel
    here = context.unit.launches_of(kernel)
    other_use = _other_use(context.unit, kernel, here)
    if other_use is not None:
        line = context.unit.source.line_of(other_use.start_byte)
        return Refusal(f"{kernel.name} is used other than in a launch in line {line}: the launch cannot be followed")
    if not here and not launches_elsewhere(context):
        return Refusal(f"no launch of {kernel.name} is known, so its launch cannot be changed (allow `launch`)")
    if context.other_launch_sites is None and not is_private(context.unit, kernel):
        return Refusal("other files may launch the kernel and were not searched (allow `launch`)")
    return None


def is_private(unit: TranslationUnit, kernel: Kernel) -> bool:
    """Whether no other file can name the kernel: it is static, or in a namespace without a name."""
    node = unit.node(kernel)
    if node is None:
        return False
    words = [text_of(child) for child in node.children if child.type == "storage_class_specifier"]
    unnamed = any(
        around.type == "namespace_definition" and around.child_by_field_name("name") is None
        for around in ancestors(node)
    )
    return "static" in words or unnamed


def _other_use(unit: TranslationUnit, kernel: Kernel, sites: Iterable[LaunchSite]) -> Node | None:
    """A place where the kernel's name stands that is no definition, declaration, launch or harmless call."""
    for identifier in walk_types(unit.tree.root_node, "identifier"):
        if text_of(identifier) != kernel.name:
            continue
        if kernel.range.start_byte <= identifier.start_byte < kernel.range.end_byte:
            continue
        if any(site.range.start_byte <= identifier.start_byte < site.range.end_byte for site in sites):
            continue
        if _is_declarator(identifier) or _is_harmless(identifier):
            continue
        return identifier
    return None


def _is_declarator(identifier: Node) -> bool:
    """``void f(...)``: also another overload or a forward declaration; and a local variable of that name."""
    parent = identifier.parent
    return parent is not None and parent.type.endswith("declarator") and _holds(parent, "declarator", identifier)


def _holds(parent: Node, name: str, child: Node) -> bool:
    held = parent.child_by_field_name(name)
    return held is not None and held.id == child.id


def _is_harmless(identifier: Node) -> bool:
    call = next((around for around in ancestors(identifier) if around.type == "call_expression"), None)
    return call is not None and called_name(call) in _HARMLESS_USES


def macro_call_around(unit: TranslationUnit, node: Node) -> str | None:
    """The name of the function-like macro in whose call ``node`` stands, or None."""
    macros = {macro.name for macro in unit.macros if macro.parameters is not None}
    for around in ancestors(node):
        name = called_name(around)
        if name is not None and around.type == "call_expression" and (name in macros or _looks_like_macro(name)):
            return name
    return None


def _looks_like_macro(name: str) -> bool:
    return len(name) > 3 and name.upper() == name and any(letter.isalpha() for letter in name)

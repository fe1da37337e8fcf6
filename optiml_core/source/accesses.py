"""The memory accesses of a kernel, with their index as an affine form where it is one."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

from attrs import evolve, frozen
from tree_sitter import Node

from optiml_core.records import Kernel, SourceRange
from optiml_core.source.affine_form import AffineForm, PointerValue
from optiml_core.source.guards import Leaving, conditions_around
from optiml_core.source.index_forms import IndexContext
from optiml_core.source.kernel_contents import index_context
from optiml_core.source.loops import Loop, loops
from optiml_core.source.memory import remembered
from optiml_core.source.pointer_values import address_of, extents_of, size_of, subscripts
from optiml_core.source.translation_unit import TranslationUnit
from optiml_core.source.tree_queries import (
    base_identifier,
    called_name,
    operator_of,
    text_of,
    without_parentheses,
)

AccessKind = Literal["load", "store", "atomic"]
Space = Literal["global", "shared", "constant", "local"]


@frozen
class MemoryAccess:
    """One read or write of memory in a kernel's text. ``a[i] += x`` is two: a load and a store.

    ``array``: the parameter (``"p.data"`` for a member of a struct parameter), shared, constant,
    global or local array that is accessed, also through local pointers and casts. ``index``: as
    written. ``affine``: the offset from the array's start in elements of ``element``, None where the
    pointer cannot be followed; what is not affine in it is opaque (see ``AffineForm``).
    ``element``: the type of what is accessed (``"float4"`` behind a cast), ``size`` its bytes where known.
    ``loops`` from the outermost; ``guards`` are the conditions that hold here (``if`` around, or an
    early return before), as texts.
    """

    range: SourceRange
    array: str
    kind: AccessKind
    space: Space
    index: str
    affine: AffineForm | None
    loops: tuple[Loop, ...]
    element: str
    size: int | None
    member: str = ""
    function: str = ""  # the intrinsic that accesses: "atomicAdd", "__ldg" ...
    guards: tuple[str, ...] = ()


_LOAD_FUNCTIONS = frozenset({"__ldg", "__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv", "load128", "load128cs"})
_STORE_FUNCTIONS = frozenset({"__stcs", "__stcg", "__stwb", "__stwt", "store128", "store128cs", "store128cg"})
_NO_ACCESS_AROUND = frozenset({"sizeof_expression", "decltype", "alignof_expression"})


def accesses(unit: TranslationUnit, kernel: Kernel) -> tuple[MemoryAccess, ...]:
    """Every memory access of a kernel in the order of the text; empty if no tree has the kernel.

    Accesses inside called functions are not among them, apart from the load, store and atomic
    functions of CUDA itself.
    """
    return remembered(unit, ("accesses", kernel.range.start_byte), lambda: _accesses(unit, kernel))


def _accesses(unit: TranslationUnit, kernel: Kernel) -> tuple[MemoryAccess, ...]:
    node, context = unit.node(kernel), index_context(unit, kernel)
    body = node.child_by_field_name("body") if node is not None else None
    if body is None or context is None:
        return ()
    reader = _Reader(unit, context, loops(unit, kernel), body)
    reader.visit(body, "load")
    return tuple(reader.found)


class _Reader:
    """Walks a body once; ``role`` says what the parent does with the value of a node."""

    def __init__(self, unit: TranslationUnit, context: IndexContext, all_loops: tuple[Loop, ...], body: Node) -> None:
        self.unit = unit
        self.context = context
        self.loops = all_loops
        self.starts = [loop.range.start_byte for loop in all_loops]
        self.body = body
        self.leaving: Leaving = {}
        self.found: list[MemoryAccess] = []

    def visit(self, node: Node, role: str, depth: int = 0) -> None:
        kind = node.type
        if depth > 500 or kind in _NO_ACCESS_AROUND:
            return
        if kind == "assignment_expression":
            self._assignment(node, depth)
        elif kind == "update_expression":
            self._children(node, "update", depth)
        elif kind == "subscript_expression":
            self._subscript(node, role, depth)
        elif kind == "pointer_expression":
            self._pointer_expression(node, role, depth)
        elif kind == "field_expression":
            self._member(node, role, depth)
        elif kind == "call_expression":
            self._call(node, role, depth)
        elif kind == "parenthesized_expression":
            self._children(node, role, depth)
        elif kind == "declaration":
            for declarator in node.children_by_field_name("declarator"):
                self._declarator(declarator, depth)
        else:
            self._children(node, "load", depth)

    def _children(self, node: Node, role: str, depth: int) -> None:
        for child in node.named_children:
            self.visit(child, role, depth + 1)

    def _declarator(self, declarator: Node, depth: int) -> None:
        value = declarator.child_by_field_name("value")
        if value is not None:
            inner = declarator.child_by_field_name("declarator")
            # A reference or pointer to an element is no access by itself.
            is_reference = inner is not None and inner.type == "reference_declarator"
            self.visit(value, "address" if is_reference else "load", depth + 1)

    def _assignment(self, node: Node, depth: int) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if right is not None:
            self.visit(right, "load", depth + 1)
        if left is not None:
            self.visit(left, "store" if operator_of(node) == "=" else "update", depth + 1)

    def _subscript(self, node: Node, role: str, depth: int) -> None:
        base, indices = subscripts(node)
        if not indices:  # ``x[i, j]`` or ``x[]``: an object's own operator
            self._children(node, "load", depth)
            return
        for index in indices:
            self.visit(index, "load", depth + 1)
        if base.type not in ("identifier", "qualified_identifier"):
            # The base is computed: an access of its own where it loads a pointer.
            self.visit(base, "address" if base.type != "subscript_expression" else "load", depth + 1)
        name = text_of(base)
        extents = extents_of(self.context, name, node.start_byte) if base.type == "identifier" else ()
        if 0 < len(indices) < len(extents):
            return  # a row of an array, used as a pointer
        self._add(node, role, ", ".join(text_of(i) for i in indices), "")

    def _pointer_expression(self, node: Node, role: str, depth: int) -> None:
        argument = node.child_by_field_name("argument")
        if argument is None:
            return
        if operator_of(node) == "&":
            self.visit(argument, "address", depth + 1)
            return
        self.visit(
            argument, "address" if without_parentheses(argument).type != "update_expression" else "load", depth + 1
        )
        self._add(node, role, "0", "")

    def _member(self, node: Node, role: str, depth: int) -> None:
        argument = node.child_by_field_name("argument")
        member = text_of(node.child_by_field_name("field"))
        if argument is None:
            return
        inner = without_parentheses(argument)
        if operator_of(node) == "->":
            self.visit(argument, "address", depth + 1)
            if text_of(argument) != "this":
                self._add(node, role, "0", member)
        elif inner.type in ("subscript_expression", "pointer_expression"):
            before = len(self.found)
            self.visit(inner, role, depth + 1)
            self.found[before:] = [
                evolve(a, member=member) if a.range.start_byte == inner.start_byte else a for a in self.found[before:]
            ]
        else:
            self.visit(argument, role, depth + 1)

    def _call(self, node: Node, role: str, depth: int) -> None:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if arguments is None or function is None:
            return
        name = called_name(function)
        values = arguments.named_children
        if name.startswith("atomic") and values:
            self._through_pointer(node, values[0], "atomic", name, depth)
            values = values[1:]
        elif name in _LOAD_FUNCTIONS and values:
            self._through_pointer(node, values[0], "load", name, depth)
            values = values[1:]
        elif name in _STORE_FUNCTIONS and values:
            self._through_pointer(node, values[0], "store", name, depth)
            values = values[1:]
        elif function.type == "field_expression":
            receiver = function.child_by_field_name("argument")
            if receiver is not None:
                self.visit(receiver, "load", depth + 1)
        role = role if function.type == "template_function" and name.endswith("_cast") else "load"
        for value in values:
            self.visit(value, role, depth + 1)

    def _through_pointer(self, node: Node, pointer: Node, kind: AccessKind, name: str, depth: int) -> None:
        self.visit(pointer, "address", depth + 1)
        value = self.context.pointer(pointer, node.start_byte)
        array = value.base if value is not None else base_identifier(pointer)
        self._record(node, kind, array, value, text_of(pointer), "", name)

    def _add(self, node: Node, role: str, index: str, member: str) -> None:
        if role == "address":
            return
        value = address_of(self.context, node, node.start_byte, 0)
        array = value.base if value is not None else base_identifier(node)
        if value is None and not self._is_memory(array, node.start_byte):
            return
        kinds: tuple[AccessKind, ...] = {
            "store": ("store",),
            "update": ("load", "store"),
        }.get(role, ("load",))  # type: ignore[assignment]
        for kind in kinds:
            self._record(node, kind, array, value, index, member, "")

    def _is_memory(self, name: str, at: int) -> bool:
        """Whether a name that could not be followed is a pointer or array, not an object with ``[]``."""
        if name in self.context.arrays:
            return True
        variable = self.context.definitions.variable(name, at)
        return variable is not None and (bool(variable.extents) or "*" in variable.type)

    def _record(
        self, node: Node, kind: AccessKind, array: str, value: PointerValue | None, index: str, member: str, name: str
    ) -> None:
        element = value.element if value is not None else ""
        space = value.space if value is not None else self._space(array, node.start_byte)
        self.found.append(
            MemoryAccess(
                range=self.unit.source.range(node.start_byte, node.end_byte),
                array=array,
                kind=kind,
                space=space,  # type: ignore[arg-type]
                index=index,
                affine=value.offset if value is not None else None,
                loops=self._loops_at(node.start_byte),
                element=element,
                size=size_of(self.context, element) if element else None,
                member=member,
                function=name,
                guards=conditions_around(self.body, node.start_byte, self.leaving),
            )
        )

    def _space(self, array: str, at: int) -> str:
        known = self.context.arrays.get(array)
        if known is not None:
            return known.space
        variable = self.context.definitions.variable(array, at)
        if variable is not None and variable.extents:
            return "shared" if variable.is_static_shared else "local"
        return "global"

    def _loops_at(self, at: int) -> tuple[Loop, ...]:
        index = bisect_right(self.starts, at) - 1
        current: Loop | None = self.loops[index] if index >= 0 else None
        while current is not None and not current.range.start_byte <= at < current.range.end_byte:
            current = current.parent if current.parent is not None else None
        chain: list[Loop] = []
        while current is not None:
            chain.insert(0, current)
            current = current.parent
        return tuple(chain)

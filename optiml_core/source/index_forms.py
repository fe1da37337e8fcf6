"""Evaluates integer and pointer expressions of a kernel to affine forms, following local variables.

What is not affine is opaque: known by its text and by what it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field, frozen
from tree_sitter import Node

from optiml_core.source.affine_form import (
    MEMORY,
    AffineForm,
    PointerValue,
    constant_form,
    opaque_form,
    variable_form,
)
from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.constant_expressions import evaluate_node, integer_literal, parse_expression
from optiml_core.source.definitions import FunctionDefinitions, LocalVariable, LoopNode
from optiml_core.source.index_operations import (
    bit_and,
    product,
    quotient,
    remainder,
    shifted,
)
from optiml_core.source.macro_expansion import expand_call
from optiml_core.source.polynomials import Polynomial, number, symbol
from optiml_core.source.reaching import DEEPEST, Evaluation, reaching_value
from optiml_core.source.translation_unit import Macro
from optiml_core.source.tree_queries import called_name, operator_of, text_of, walk, without_parentheses

_BUILTINS = {"threadIdx", "blockIdx", "blockDim", "gridDim"}


@frozen
class InlineFunction:
    """A device function whose body is one ``return``: its parameters' names and the expression."""

    parameters: tuple[str, ...]
    value: Node


@define(eq=False)
class IndexContext:
    """What the evaluation of one function's expressions knows.

    ``constants``: names with integer values (macros, ``const`` integers). ``arrays``: pointer
    parameters and file-scope arrays as pointer values. ``scalars``: by-value parameters, template
    parameters and the like. ``bound``: parameters of a function that is being looked through.
    """

    definitions: FunctionDefinitions
    constants: Mapping[str, int]
    arrays: Mapping[str, PointerValue]
    scalars: frozenset[str]
    macros: Mapping[str, Macro]
    functions: Mapping[str, InlineFunction]
    aliases: Mapping[str, str]
    extents: Mapping[str, tuple[Polynomial | None, ...]] = field(factory=dict)  # of file-scope arrays
    bound: Mapping[str, AffineForm] = field(factory=dict)
    # What was found already: values by kind and place of the definition, and what variables depend on directly.
    values: dict[tuple[str, int, int], object] = field(factory=dict)
    direct: dict[int, tuple[frozenset[str], tuple[LocalVariable, ...]]] = field(factory=dict)

    # ------------------------------------------------------------------------------ integers

    def integer(self, node: Node, at: int, depth: int = 0) -> AffineForm:
        """The form of an integer expression as evaluated at byte ``at``; never fails, may be opaque."""
        if depth > DEEPEST:
            return self.opaque(node, at, depth)
        node = without_parentheses(node)
        kind = node.type
        if kind == "number_literal":
            value = integer_literal(text_of(node))
            return constant_form(number(value)) if value is not None else constant_form(symbol(f"({text_of(node)})"))
        if kind == "identifier":
            return self._identifier(text_of(node), node, at, depth)
        if kind == "field_expression":
            return self._member(node, at, depth)
        if kind == "binary_expression":
            return self._binary(node, at, depth)
        if kind == "unary_expression" and operator_of(node) in ("-", "+"):
            argument = node.child_by_field_name("argument")
            if argument is not None:
                inner = self.integer(argument, at, depth + 1)
                return -inner if operator_of(node) == "-" else inner
        if kind == "cast_expression" and self._is_integer_type(text_of(node.child_by_field_name("type"))):
            value_node = node.child_by_field_name("value")
            if value_node is not None:
                return self.integer(value_node, at, depth + 1)
        if kind == "call_expression":
            return self._call(node, at, depth)
        if kind in ("sizeof_expression", "true", "false", "conditional_expression"):
            known = evaluate_node(node, self.constants)
            if known is not None:
                return constant_form(number(known))
        if kind == "qualified_identifier":
            name = text_of(node)
            known = self.constants.get(name.rsplit("::", 1)[-1])
            return constant_form(number(known) if known is not None else symbol(name))
        return self.opaque(node, at, depth)

    def opaque(self, node: Node, at: int, depth: int) -> AffineForm:
        return opaque_form(text_of(node), self.dependencies(node, at, depth))

    def dependencies(self, node: Node, at: int, depth: int) -> frozenset[str]:
        """The thread, block and loop variables (and ``memory``) that an expression's value depends on."""
        if depth > DEEPEST:
            return frozenset({MEMORY})
        node = without_parentheses(node)
        kind = node.type
        if kind == "identifier":
            return self._identifier(text_of(node), node, at, depth + 1).depends_on
        if kind == "field_expression" and self._builtin(node) is not None:
            return self._member(node, at, depth).depends_on
        found: set[str] = set()
        if kind == "subscript_expression" or (kind == "pointer_expression" and operator_of(node) == "*"):
            found.add(MEMORY)
        if kind == "call_expression":
            found |= _call_dependencies(called_name(node.child_by_field_name("function") or node))
        for child in node.named_children:
            if kind == "call_expression" and child.type in ("identifier", "qualified_identifier", "primitive_type"):
                continue  # the function's name
            if child.type in ("field_identifier", "type_descriptor", "string_literal", "template_function"):
                continue
            found |= self.dependencies(child, at, depth + 1)
        return frozenset(found)

    def _identifier(self, name: str, node: Node, at: int, depth: int) -> AffineForm:
        if name in self.bound:
            return self.bound[name]
        variable = self.definitions.variable(name, at)
        if variable is not None:
            if variable.extents or "*" in variable.type:
                return opaque_form(name, frozenset({MEMORY}))
            return self.value_of(variable, at, depth)
        if name in self.constants:
            return constant_form(number(self.constants[name]))
        changed = self.definitions.parameters.get(name)
        if changed is not None:
            return self.value_of(changed, at, depth)
        macro = self.macros.get(name)
        if macro is not None and macro.parameters is None and depth < DEEPEST:
            expanded = parse_expression(macro.body)
            if expanded is not None and text_of(expanded) != name:
                return self.integer(expanded, at, depth + 1)
        if name == "warpSize":
            return constant_form(number(32))
        return constant_form(symbol(name))

    def _builtin(self, node: Node) -> tuple[str, str] | None:
        argument, member = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if argument is not None and argument.type == "identifier" and text_of(argument) in _BUILTINS:
            return text_of(argument), text_of(member)
        return None

    def _member(self, node: Node, at: int, depth: int) -> AffineForm:
        builtin = self._builtin(node)
        name = text_of(node).replace(" ", "")
        if builtin is not None:
            return variable_form(name) if builtin[0] in ("threadIdx", "blockIdx") else constant_form(symbol(name))
        argument = node.child_by_field_name("argument")
        if argument is not None and argument.type == "identifier" and operator_of(node) != "->":
            base = text_of(argument)
            if base in self.scalars and base not in self.definitions.parameters:
                return constant_form(symbol(name))
        found = self.dependencies(argument, at, depth + 1) if argument is not None else frozenset()
        return opaque_form(name, found | {MEMORY} if operator_of(node) == "->" else found)

    def _binary(self, node: Node, at: int, depth: int) -> AffineForm:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = operator_of(node)
        if left is None or right is None or operator not in ("+", "-", "*", "/", "%", "<<", ">>", "&"):
            known = evaluate_node(node, self.constants)
            return constant_form(number(known)) if known is not None else self.opaque(node, at, depth)
        a, b = self.integer(left, at, depth + 1), self.integer(right, at, depth + 1)
        if operator == "+":
            return a + b
        if operator == "-":
            return a - b
        operation = {"*": product, "/": quotient, "%": remainder, "<<": shifted, "&": bit_and}.get(operator)
        if operation is None:  # ">>"
            steps = b.constant.value if b.is_uniform else None
            return quotient(a, constant_form(number(1 << steps))) if steps is not None and 0 <= steps < 63 else (
                opaque_form(f"({a}) >> ({b})", a.depends_on | b.depends_on)
            )  # fmt: skip
        return operation(a, b)

    def _is_integer_type(self, written: str) -> bool:
        from optiml_core.source.declarations import resolve_alias

        element = element_type_of(resolve_alias(written, self.aliases))
        return element is not None and element.lanes == 1 and element.dtype.startswith(("int", "uint"))

    def _call(self, node: Node, at: int, depth: int) -> AffineForm:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None:
            return self.opaque(node, at, depth)
        name, values = called_name(function), arguments.named_children
        if function.type == "template_function" and name in ("static_cast", "reinterpret_cast") and len(values) == 1:
            target = text_of(function.child_by_field_name("arguments")).strip("<>").strip()
            if self._is_integer_type(target):
                return self.integer(values[0], at, depth + 1)
        if len(values) == 1 and self._is_integer_type(name):
            return self.integer(values[0], at, depth + 1)
        if name in ("__mul24", "__umul24") and len(values) == 2:
            return product(self.integer(values[0], at, depth + 1), self.integer(values[1], at, depth + 1))
        if name in ("min", "max") and len(values) == 2:
            a, b = self.integer(values[0], at, depth + 1), self.integer(values[1], at, depth + 1)
            if a.is_uniform and b.is_uniform:
                x, y = a.constant.value, b.constant.value
                if x is not None and y is not None:
                    return constant_form(number(min(x, y) if name == "min" else max(x, y)))
                return constant_form(symbol(f"{name}({a}, {b})"))
        macro = self.macros.get(name)
        if macro is not None and macro.parameters is not None:
            expanded = expand_call(macro, [text_of(v) for v in values])
            tree = parse_expression(expanded) if expanded is not None else None
            if tree is not None:
                return self.integer(tree, at, depth + 1)
        inline = self.functions.get(name.rsplit("::", 1)[-1])
        if inline is not None and len(inline.parameters) == len(values) and depth < DEEPEST // 2:
            forms = [self.integer(v, at, depth + 1) for v in values]
            inner = IndexContext(
                FunctionDefinitions(self.definitions.takes_value), self.constants, {}, frozenset(), self.macros,
                self.functions, self.aliases, {}, dict(zip(inline.parameters, forms, strict=True)),
            )  # fmt: skip
            return inner.integer(inline.value, inline.value.start_byte, depth + 10)
        return self.opaque(node, at, depth)

    # ----------------------------------------------------------------------------- variables

    def value_of(self, variable: LocalVariable, at: int, depth: int) -> AffineForm:
        """The integer value of a local variable at byte ``at``."""
        evaluate = self._integer_value(variable)
        how = Evaluation("integer", evaluate, AffineForm.__add__, lambda name: constant_form(symbol(name)))
        found = reaching_value(self, variable, at, depth, how)
        return found if found is not None else opaque_form(variable.name, self._all_dependencies(variable, depth))

    def _integer_value(self, variable: LocalVariable) -> Callable[[Node, int, int], AffineForm | None]:
        written = variable.type.replace("const ", "").replace("&", "").strip()
        if variable.at < 0 or "auto" in written or self._is_integer_type(written):
            return self.integer
        return lambda node, at, depth: None

    def _all_dependencies(self, variable: LocalVariable, depth: int) -> frozenset[str]:
        """What any of the variable's values may depend on, through other variables, and where control flow
        decides among them."""
        found: set[str] = set()
        seen = {variable.at}
        waiting = [variable]
        while waiting:
            names, others = self._direct_dependencies(waiting.pop())
            found |= names
            for other in others:
                if other.at not in seen:
                    seen.add(other.at)
                    waiting.append(other)
        return frozenset(found or {MEMORY})

    def _direct_dependencies(self, variable: LocalVariable) -> tuple[frozenset[str], tuple[LocalVariable, ...]]:
        known = self.direct.get(variable.at)
        if known is not None:
            return known
        names: set[str] = set()
        others: dict[int, LocalVariable] = {}
        for definition in self.definitions.definitions_of(variable):
            names.update(self._loop_names(definition.loops))
            if definition.operator == "?":
                names.add(MEMORY)
            for node in walk(definition.value) if definition.value is not None else ():
                if node.type == "identifier":
                    name = text_of(node)
                    other = self.definitions.variable(name, definition.at) or self.definitions.parameters.get(name)
                    if other is not None:
                        others[other.at] = other
                elif node.type == "field_expression" and self._builtin(node) is not None:
                    name = text_of(node).replace(" ", "")
                    names.update({name} if name.startswith(("threadIdx", "blockIdx")) else ())
                elif node.type == "subscript_expression" or (
                    node.type == "pointer_expression" and operator_of(node) == "*"
                ):
                    names.add(MEMORY)
                elif node.type == "call_expression":
                    names |= _call_dependencies(called_name(node.child_by_field_name("function") or node))
        result = (frozenset(names), tuple(others.values()))
        self.direct[variable.at] = result
        return result

    def _loop_names(self, loops: tuple[int, ...]) -> list[str]:
        return [self.loop_variable(self.definitions.loops[start]) for start in loops]

    def loop_variable(self, loop: LoopNode) -> str:
        """The name of a loop's iteration number: the variable of its head, else ``loop@LINE``."""
        from optiml_core.source.loop_heads import head_variable

        name = head_variable(loop.node)
        return name if name else f"loop@{loop.node.start_byte}"

    # ------------------------------------------------------------------------------ pointers

    def pointer(self, node: Node, at: int, depth: int = 0) -> PointerValue | None:
        """What a pointer expression points to, or None if it cannot be followed."""
        from optiml_core.source.pointer_values import pointer_value

        return pointer_value(self, node, at, depth)


def _call_dependencies(name: str) -> set[str]:
    """What calls depend on beyond their arguments: ranks on the thread, everything unknown on memory."""
    if name in ("thread_rank", "thread_index", "meta_group_rank"):
        return {"threadIdx.x", "threadIdx.y", "threadIdx.z"}
    if name in ("group_index", "block_rank", "block_index"):
        return {"blockIdx.x", "blockIdx.y", "blockIdx.z"}
    if name in ("min", "max", "abs", "static_cast", "int", "float", "unsigned", "size_t", "num_threads", "size",
                "__mul24", "__umul24", "floor", "ceil", "floorf", "ceilf", "ceil_div", "sqrtf", "log2f", "group_dim",
                "make_int2", "make_int3", "make_int4", "__popc", "__ffs", "__clz", "dim_threads"):  # fmt: skip
        return set()
    return {MEMORY}

"""One more column in a shared array, so that the elements of a column lie in different banks."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import THREAD_AXES, KernelBody, read_kernel
from optiml_core.rewrites.layout import code_of, edit
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.polynomials import coefficient, depends_on
from optiml_core.rewrites.syntax import DeclaredVariable, field, text_of, walk_types
from optiml_core.rewrites.type_names import resolved_type
from optiml_core.source import element_type_of

BANKS = 32
BANK_BYTES = 4


@frozen
class _Array:
    variable: DeclaredVariable
    extents: tuple[Node, ...]  # outermost first


def _arrays(body: KernelBody) -> list[_Array] | Refusal:
    found = []
    reason = "the kernel has no shared array of two dimensions"
    for variable in body.locals.values():
        if not variable.is_array or "__shared__" not in variable.type:
            continue
        extents = _extents(variable.declarator)
        if len(extents) != 2:
            continue
        verdict = _refusal(body, variable, extents)
        if verdict is None:
            found.append(_Array(variable, extents))
        else:
            reason = verdict
    return found or Refusal(reason)


def _extents(declarator: Node) -> tuple[Node, ...]:
    found: list[Node] = []
    current = declarator
    while current.type == "array_declarator":
        size = current.child_by_field_name("size")
        if size is None:
            return ()
        found.insert(0, size)
        current = field(current, "declarator")
    return tuple(found)


def _refusal(body: KernelBody, variable: DeclaredVariable, extents: tuple[Node, ...]) -> str | None:
    """Why a shared array is not padded, or None."""
    name = variable.name
    width = body.polynomial(extents[1]).constant
    element = element_type_of(resolved_type(body.unit, variable.type))
    if width is None or element is None:
        return f"the width or the element type of `{name}` is not known"
    if variable.value is not None:
        return f"`{name}` has an initialiser"
    row_words = width * element.size / BANK_BYTES
    if row_words % 2 or row_words < 2:
        return f"rows of `{name}` begin in different banks already"
    accesses = [access for access in accesses_in(body, body.body) if access.array == name]
    uses = [node for node in walk_types(body.body, "identifier") if text_of(node) == name]
    # One use is the declaration; every other one must be a whole two-dimensional subscript.
    if len(uses) != len(accesses) + 1 or any(len(one.indices) != 2 or one.kind == "address" for one in accesses):
        return f"`{name}` is used other than by two subscripts"
    if not any(
        any(
            depends_on(access.indices[0], [axis])
            and (coefficient(access.indices[1], axis) is None or not coefficient(access.indices[1], axis).terms)  # type: ignore[union-attr]
            for axis in THREAD_AXES[:1]
        )
        for access in accesses
    ):
        return f"no warp walks down a column of `{name}`"
    return None


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _arrays(body)
    if isinstance(found, Refusal):
        return found
    return tuple(Option({"array": one.variable.name}, f"one more column in `{one.variable.name}`") for one in found)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _arrays(body)
    if isinstance(found, Refusal):
        return found
    one = next((array for array in found if array.variable.name == option.parameters["array"]), None)
    if one is None:
        return Refusal("there is no such array")
    width = code_of(context.unit, one.extents[1])
    text = str(int(width) + 1) if width.isdigit() else f"{width} + 1"
    rationale = f"A row of `{one.variable.name}` is one longer: the elements of a column lie in different banks."
    edits = [edit(context.unit, one.extents[1].start_byte, one.extents[1].end_byte, text)]
    return finish(context, body, edits, rationale)


REWRITE = Rewrite("pad-shared", ("shared-bank-conflict",), options, apply)

"""What a kernel's own text says about its arguments: lengths, what is read and written, what indexes what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from optiml_core.records import Failure, Kernel
from optiml_core.source import TranslationUnit, element_type_of
from optiml_core.workload.elements import pointee_spelling
from optiml_core.workload.expression import Expression, Name, evaluate, names_in, write_expression
from optiml_core.workload.inference.kernel_bounds import (
    KernelBody,
    bounded_value,
    collect_bounds,
    polynomial_in,
    upper_bound,
    walk,
)
from optiml_core.workload.inference.polynomial import Polynomial, added, atom, constant, expression_of, multiplied
from optiml_core.workload.inference.program import Program, index_function
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
    expression_fragment,
    path_of,
    without_casts,
)

_INDEX = re.compile(r"(threadIdx|blockIdx)\.([xyz])")


@frozen(eq=False)
class KernelFacts:
    """``reaches``: for each pointer the lengths its accesses need, over scalar arguments, `grid.x` and `block.x`.
    ``axes``: for x, y, z what bounds `blockIdx * blockDim + threadIdx`. ``blocks``: what bounds `blockIdx` alone.
    ``read`` and ``written``: pointers. ``indexes``: integer pointers whose values index another pointer,
    with that pointer and the factor that the value is multiplied by.
    ``offsets``: those whose values are a loop's bounds, with the pointer that the loop walks.
    """

    reaches: dict[str, list[Expression]] = field(factory=dict)
    axes: dict[str, Expression] = field(factory=dict)
    blocks: dict[str, Expression] = field(factory=dict)
    read: set[str] = field(factory=set)
    written: set[str] = field(factory=set)
    indexes: dict[str, tuple[str, Expression | None]] = field(factory=dict)
    offsets: dict[str, str] = field(factory=dict)
    dimensions: int = 1
    words: frozenset[str] = frozenset()


def kernel_facts(
    unit: TranslationUnit, kernel: Kernel, program: Program, constants: Mapping[str, Expression]
) -> KernelFacts:
    """Reads the kernel's body. ``constants``: what stands for the whole-number constants of the file that it names."""
    node = unit.node(kernel)
    if node is None:
        return KernelFacts()
    function = index_function(program, unit, node)
    if function is None:
        return KernelFacts()
    pointers = {one.name: one.element.size if one.element else 0 for one in kernel.parameters if one.is_pointer}
    scalars = {one.name for one in kernel.parameters if not one.is_pointer}
    scalars |= {one.name for one in kernel.template_parameters if one.kind not in ("typename", "class")}
    text = unit.source.slice(kernel.body_range)
    facts = KernelFacts(
        dimensions=1 + max((("xyz".index(match[2])) for match in _INDEX.finditer(text)), default=0),
        words=frozenset(re.findall(r"[A-Za-z_]\w*", text)),
    )
    named: frozenset[str] = frozenset().union(*(names_in(value) for value in constants.values()))
    body = KernelBody(program, function, pointers, scalars, {}, set(), constants, named | scalars, {})
    whole = Fragment(function.node, function.data)
    for fragment in walk(whole):
        collect_bounds(body, fragment)
    for fragment in walk(whole):
        _collect_access(facts, body, fragment)
    _collect_axes(facts, body)
    return facts


# ------------------------------------------------------------------------------------ accesses


def _collect_access(facts: KernelFacts, body: KernelBody, fragment: Fragment) -> None:
    kind = fragment.node.type
    if kind == "subscript_expression":
        owner = fragment.child("argument")
        listed = fragment.child("indices")
        index = next(iter(listed.named()), None) if listed else None
    elif kind == "pointer_expression" and fragment.text.startswith("*"):
        owner, index = fragment.child("argument"), None
    elif kind == "call_expression":
        _note_handed(facts, body, fragment)
        return
    else:
        return
    if owner is None:
        return
    base = _base(body, owner, 0)
    if base is None:
        return
    pointer, offset, scale = base
    _note_use(facts, body, pointer, fragment)
    position = constant(0) if index is None else polynomial_in(body, index, 0)
    if index is not None:
        _note_indirection(facts, body, pointer, index, 0)
    reach = _reach_of(body, offset, position, scale)
    if reach is None:
        return
    known = facts.reaches.setdefault(pointer, [])
    if reach not in known:
        known.append(reach)


def _base(body: KernelBody, owner: Fragment, depth: int) -> tuple[str, Polynomial | None, int] | None:
    """The argument behind a pointer expression, its offset in the argument's elements, and how many of those one
    step of the expression takes (4 for a `float4*` made of a `float*`)."""
    if depth > 8:
        return None
    scale = 1
    inner = without_casts(owner)
    if inner.node.type == "binary_expression":
        left, right = inner.child("left"), inner.child("right")
        for one, other in ((left, right), (right, left)):
            found = _base(body, one, depth + 1) if one is not None else None
            if found is not None and other is not None:
                moved = polynomial_in(body, other, depth)
                offset = None if moved is None or found[1] is None else added(found[1], moved)
                return found[0], offset, found[2]
        return None
    if inner.node.type == "pointer_expression" and inner.text.startswith("&"):
        target = inner.child("argument")
        if target is not None and target.node.type == "subscript_expression":
            array, listed = target.child("argument"), target.child("indices")
            found = _base(body, array, depth + 1) if array else None
            index = next(iter(listed.named()), None) if listed else None
            if found is None or index is None:
                return None
            moved = polynomial_in(body, index, depth)
            return found[0], None if moved is None or found[1] is None else added(found[1], moved), found[2]
        return None
    path = path_of(inner)
    if path is None or path.endswith("[]"):
        return None
    events = body.function.events.get(path, [])
    changed = any(event.kind in ("compound", "step") for event in events)
    if path in body.pointers:
        return path, None if changed or any(event.kind == "value" for event in events) else constant(0), scale
    values = [event for event in events if event.kind == "value" and event.value is not None]
    if len(values) != 1 or values[0].value is None:
        return None
    found = _base(body, values[0].value, depth + 1)
    if found is None:
        return None
    own = element_type_of(pointee_spelling(values[0].type))
    whole = body.pointers[found[0]]
    if own is not None and whole and own.size > whole and own.size % whole == 0:
        scale = own.size // whole
    return found[0], None if changed else found[1], scale * found[2]


def _note_handed(facts: KernelFacts, body: KernelBody, call: Fragment) -> None:
    """A pointer that is handed on may be read and written there; the store and load intrinsics do one of both."""
    name = called_name(call)
    for position, argument in enumerate(arguments_of(call)):
        handed = _base(body, argument, 0)
        if handed is None:
            continue
        if not re.fullmatch(r"__st(wb|cg|cs|wt)", name) or position:
            facts.read.add(handed[0])
        if not re.fullmatch(r"__ld(g|cg|ca|cs|lu|cv)", name):
            facts.written.add(handed[0])
        if position == 0 and re.fullmatch(r"__(st|ld)\w+|atomic\w+", name):
            reach = _reach_of(body, handed[1], constant(0), handed[2])
            if reach is not None and reach not in facts.reaches.setdefault(handed[0], []):
                facts.reaches[handed[0]].append(reach)


def _reach_of(
    body: KernelBody, offset: Polynomial | None, position: Polynomial | None, scale: int
) -> Expression | None:
    """One more than the largest element that ``offset + position * scale`` touches."""
    if offset is None or position is None:
        return None
    upper = bounded_value(body, added(multiplied(position, constant(scale)), offset), 0)
    return None if upper is None else expression_of(added(upper, constant(max(scale, 1))))


def _note_use(facts: KernelFacts, body: KernelBody, pointer: str, access: Fragment) -> None:
    node, parent = access.node, access.node.parent
    around = ("parenthesized_expression", "field_expression", "subscript_expression")
    while parent is not None and parent.type in around:
        node, parent = parent, parent.parent
    if parent is not None and parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
        facts.written.add(pointer)
        right = parent.child_by_field_name("right")
        sign = access.data[node.end_byte : right.start_byte] if right is not None else b"="
        if sign.strip() != b"=":
            facts.read.add(pointer)
        return
    if parent is not None and parent.type in ("update_expression", "pointer_expression"):
        facts.written.add(pointer)
    facts.read.add(pointer)


def _note_indirection(facts: KernelFacts, body: KernelBody, pointer: str, index: Fragment, depth: int) -> None:
    """Whether the index is, or is bounded by, a value that another argument holds."""
    if depth > 4:
        return
    for fragment in walk(index):
        if fragment.node.type == "subscript_expression":
            owner = fragment.child("argument")
            base = _base(body, owner, 0) if owner else None
            if base is not None and base[0] != pointer:
                facts.indexes.setdefault(base[0], (pointer, _factor_of(body, fragment)))
        elif fragment.node.type == "identifier":
            for bound in body.bounds.get(fragment.text, ()):
                for inner in walk(bound):
                    owner = inner.child("argument") if inner.node.type == "subscript_expression" else None
                    base = _base(body, owner, 0) if owner else None
                    if base is not None:
                        facts.offsets.setdefault(base[0], pointer)
                if bound.node.type == "identifier":
                    _note_bound_variable(facts, body, pointer, bound.text)
            for event in body.function.events.get(fragment.text, ()):
                if event.kind == "value" and event.value is not None and depth < 3 and fragment.text not in body.bounds:
                    _note_indirection(facts, body, pointer, event.value, depth + 1)


def _factor_of(body: KernelBody, load: Fragment) -> Expression | None:
    """What a loaded value is multiplied by: the k of `x[i] * k`."""
    node = load.node
    while node.parent is not None and node.parent.type in ("parenthesized_expression", "cast_expression"):
        node = node.parent
    parent = Fragment(node.parent, load.data) if node.parent is not None else None
    if parent is None or parent.node.type != "binary_expression":
        return None
    left, right = parent.child("left"), parent.child("right")
    if left is None or right is None:
        return None
    between = load.data[left.node.end_byte : right.node.start_byte].strip()
    other = right if left.node == node else left
    value = polynomial_in(body, other, 0, bounded=False) if between == b"*" else None
    return None if value is None else expression_of(value)


def _note_bound_variable(facts: KernelFacts, body: KernelBody, pointer: str, name: str) -> None:
    for event in body.function.events.get(name, ()):
        for inner in walk(event.value) if event.value is not None else ():
            owner = inner.child("argument") if inner.node.type == "subscript_expression" else None
            base = _base(body, owner, 0) if owner else None
            if base is not None:
                facts.offsets.setdefault(base[0], pointer)


# ---------------------------------------------------------------------------------------- axes


def _collect_axes(facts: KernelFacts, body: KernelBody) -> None:
    """What bounds each axis of the grid: by the definition of the variable that a condition bounds."""
    for key in body.bounds:
        upper = upper_bound(body, key, 0)
        if upper is None:
            continue
        fragment = expression_fragment(key)
        position = polynomial_in(body, fragment, 0, bounded=False) if fragment is not None else None
        if position is None:
            continue
        names = {factor.text for monomial in position for factor in monomial if isinstance(factor, Name)}
        axes = {name[-1] for name in names if name.startswith(("threadIdx.", "blockIdx."))}
        if len(axes) != 1:
            continue
        axis = axes.pop()
        limit = expression_of(added(upper, constant(1)))
        if f"blockIdx.{axis}" in names and f"threadIdx.{axis}" in names:
            facts.axes.setdefault(axis, limit)
        elif f"blockIdx.{axis}" in names and position == atom(Name(f"blockIdx.{axis}")):
            facts.blocks.setdefault(axis, limit)


def largest_reach(reaches: Sequence[Expression], values: Mapping[str, int]) -> Expression | None:
    """The reach that is largest for the given values; unknown names count as one."""
    best: tuple[float, str, Expression] | None = None
    for reach in reaches:
        value = evaluate(reach, {name: values.get(name, 1) for name in names_in(reach)})
        if isinstance(value, Failure):
            continue
        candidate = (float(value), write_expression(reach), reach)
        if best is None or candidate[:2] > best[:2]:
            best = candidate
    return None if best is None else best[2]

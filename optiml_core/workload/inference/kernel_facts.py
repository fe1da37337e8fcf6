"""What a kernel's own text says about its arguments: how far its indexes reach, and what is read and written.

A variable that a condition or a loop bounds (`if (row < rows)`) stands for everything below that bound; other
variables are replaced by their definition; `threadIdx.x` reaches to `block.x - 1`. The largest index, plus one,
is the length. Names count as positive numbers. This is inference: what it cannot follow it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from optiml_core.records import Kernel
from optiml_core.source import TranslationUnit, element_type_of
from optiml_core.workload.elements import pointee_spelling
from optiml_core.workload.expression import Binary, Expression, Name, Number, names_in, write_expression
from optiml_core.workload.inference.polynomial import (
    Polynomial,
    added,
    atom,
    constant,
    expression_of,
    largest,
    multiplied,
    polynomial_of,
    simplified,
)
from optiml_core.workload.inference.program import (
    Event,
    Fragment,
    Function,
    Program,
    arguments_of,
    called_name,
    expanded,
    expression_fragment,
    index_function,
    path_of,
    without_casts,
)

_INDEX = re.compile(r"(threadIdx|blockIdx)\.([xyz])")
_DEEPEST = 24


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


@frozen(eq=False)
class _Body:
    program: Program
    function: Function
    pointers: dict[str, int]  # bytes of an element, 0 where it is not known
    scalars: set[str]
    bounds: dict[str, list[Fragment]]  # variable -> what it stays below
    inclusive: set[int]  # the bounds (by id) that it may reach
    constants: Mapping[str, Expression]
    plain: frozenset[str]  # names that a declaration can use
    facts: KernelFacts


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
    body = _Body(program, function, pointers, scalars, {}, set(), constants, named | scalars, facts)
    whole = Fragment(function.node, function.data)
    for fragment in _walk(whole):
        _collect_bounds(body, fragment)
    for fragment in _walk(whole):
        _collect_access(body, fragment)
    _collect_axes(body)
    return facts


def _walk(fragment: Fragment) -> Iterator[Fragment]:
    waiting = [fragment.node]
    while waiting:
        node = waiting.pop()
        yield Fragment(node, fragment.data)
        waiting.extend(reversed(node.named_children))


# ------------------------------------------------------------------------------------- bounds


def _collect_bounds(body: _Body, fragment: Fragment) -> None:
    kind = fragment.node.type
    if kind in ("if_statement", "while_statement", "for_statement"):
        condition, consequence = fragment.child("condition"), fragment.child("consequence")
        if condition is None:
            return
        leaves = consequence is not None and re.match(r"[\s{]*(return|continue|break)\b", consequence.text) is not None
        for comparison in _comparisons(condition):
            _bound(body, comparison, negative=leaves)
        if kind == "for_statement":
            _counting_down(body, fragment)


def _counting_down(body: _Body, loop: Fragment) -> None:
    """`for (i = start; i >= 0; i--)` and halving loops stay at most at their start."""
    update, first = loop.child("update"), loop.child("initializer")
    if update is None or first is None or not re.search(r"--|-=|>>=|/=", update.text):
        return
    for inner in _walk(first):
        value = inner.child("value") if inner.node.type == "init_declarator" else inner.child("right")
        target = inner.child("declarator") if inner.node.type == "init_declarator" else inner.child("left")
        if value is not None and target is not None and inner.node.type in ("init_declarator", "assignment_expression"):
            body.bounds.setdefault(target.text.strip(), []).append(value)
            body.inclusive.add(value.node.id)


def _comparisons(condition: Fragment) -> Iterator[Fragment]:
    for fragment in _walk(condition):
        if fragment.node.type == "binary_expression":
            yield fragment


def _bound(body: _Body, comparison: Fragment, negative: bool) -> None:
    left, right = comparison.child("left"), comparison.child("right")
    if left is None or right is None:
        return
    operator = comparison.data[left.node.end_byte : right.node.start_byte].decode("utf-8", "replace").strip()
    if operator not in ("<", "<=", ">", ">="):
        return
    if negative:
        operator = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
    if operator in (">", ">="):
        left, right = right, left
        operator = {">": "<", ">=": "<="}[operator]
    key = _key(left)
    # `0 < i` bounds nothing from above.
    if re.fullmatch(r"[\d.]+f?", key):
        return
    if right.node.type == "call_expression" and called_name(right) == "min":
        for argument in arguments_of(right):
            body.bounds.setdefault(key, []).append(argument)
    body.bounds.setdefault(key, []).append(right)
    if operator == "<=":
        body.inclusive.add(right.node.id)


def _key(fragment: Fragment) -> str:
    return re.sub(r"\s+", "", without_casts(fragment).text)


def _upper(body: _Body, key: str, depth: int) -> Polynomial | None:
    """The largest value of a bounded variable; of several bounds the first that the kernel's names can express."""
    for bound in body.bounds.get(key, ()):
        value = _polynomial(body, bound, depth + 1, bounded=False)
        if value is None or not all(_is_plain(body, factor) for monomial in value for factor in monomial):
            continue
        return value if bound.node.id in body.inclusive else added(value, constant(-1))
    return None


def _is_plain(body: _Body, factor: Expression) -> bool:
    """Whether an atom is a name that a declaration can use, or made of such."""
    match factor:
        case Name(text):
            return text in body.plain or text.startswith(("block.", "grid."))
        case Number():
            return True
        case Binary(_, left, right):
            return _is_plain(body, left) and _is_plain(body, right)
    arguments = getattr(factor, "arguments", ())
    return bool(arguments) and all(_is_plain(body, argument) for argument in arguments)


# -------------------------------------------------------------------------------- polynomials


def _polynomial(body: _Body, fragment: Fragment, depth: int, bounded: bool = True) -> Polynomial | None:
    """An index as a polynomial; ``bounded``: bounded variables stay atoms `%name`, to be bounded later."""
    if depth > _DEEPEST:
        return None
    fragment = without_casts(fragment)
    kind = fragment.node.type
    key = _key(fragment)
    may_be_bounded = bounded and kind != "number_literal" and key in body.bounds and key not in body.scalars
    if may_be_bounded and _upper(body, key, depth) is not None:
        return atom(Name("%" + key))
    if kind == "number_literal":
        digits = fragment.text.rstrip("uUlL")
        try:
            return constant(int(digits, 0))
        except ValueError:
            return None
    if kind == "binary_expression":
        return _binary_polynomial(body, fragment, depth, bounded)
    if kind in ("identifier", "field_expression", "qualified_identifier"):
        return _named_polynomial(body, fragment, depth, bounded)
    if kind == "conditional_expression":
        return _larger(body, fragment, depth, bounded)
    if kind == "call_expression":
        return _call_polynomial(body, fragment, depth, bounded)
    if kind == "unary_expression" and fragment.text.startswith("-"):
        argument = fragment.child("argument")
        inner = _polynomial(body, argument, depth + 1, bounded) if argument else None
        return None if inner is None else added({}, inner, -1)
    return None


def _binary_polynomial(body: _Body, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    left, right = fragment.child("left"), fragment.child("right")
    if left is None or right is None:
        return None
    operator = fragment.data[left.node.end_byte : right.node.start_byte].decode("utf-8", "replace").strip()
    second = _polynomial(body, right, depth + 1, bounded)
    if operator in ("%", "&"):
        # The remainder is below its divisor, whatever the dividend.
        if second is None:
            return None
        return (added(second, constant(-1)) if operator == "%" else second) if bounded else None
    first = _polynomial(body, left, depth + 1, bounded)
    if first is None or second is None:
        return None
    if operator == "+":
        return added(first, second)
    if operator == "-":
        return added(first, second, -1)
    if operator == "*":
        return multiplied(first, second)
    if operator == "<<" and set(second) <= {()}:
        return multiplied(first, constant(1 << min(second.get((), 0), 40)))
    if operator == ">>" and set(second) <= {()}:
        second = constant(1 << min(second.get((), 0), 40))
        operator = "/"
    if operator == "/":
        upper = _bounded_value(body, first, depth) if bounded else first
        if upper is None or not second:
            return None
        if set(upper) <= {()} and set(second) <= {()}:
            return constant(upper.get((), 0) // second[()])
        return polynomial_of(simplified(Binary("/", expression_of(upper), expression_of(second))))
    return None


def _named_polynomial(body: _Body, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    path = path_of(fragment)
    if path is None:
        return None
    built_in = re.fullmatch(r"(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])", path)
    if built_in:
        space, axis = built_in.groups()
        if space in ("blockDim", "gridDim"):
            return atom(Name(f"{'block' if space == 'blockDim' else 'grid'}.{axis}"))
        return atom(Name(path))
    events = body.function.events.get(path, [])
    if path in body.scalars and not events:
        return atom(Name(path))
    if not events and path in body.constants:
        return polynomial_of(body.constants[path])
    if not events:
        macro = body.program.macros.get(path)
        inner = expression_fragment(expanded(macro, ())) if macro is not None and macro.parameters is None else None
        return _polynomial(body, inner, depth + 1, bounded) if inner is not None else None
    values = [event for event in events if event.kind in ("value", "constructed") and event.value is not None]
    if len(values) != 1 or any(event.kind in ("compound", "step", "address") for event in events):
        in_loop = [event for event in values if event.type]
        if len(values) != 1 or not in_loop:
            return None
        changed = [event for event in events if event.kind in ("compound", "step")]
        if any(event.operator in ("+", "*", "<<") for event in changed):
            return None
    return _definition(body, values[0], depth, bounded)


def _definition(body: _Body, event: Event, depth: int, bounded: bool) -> Polynomial | None:
    value = event.value
    if value is None:
        return None
    if event.kind == "constructed":
        listed = value.named()
        return _polynomial(body, listed[0], depth + 1, bounded) if len(listed) == 1 else None
    return _polynomial(body, value, depth + 1, bounded)


def _larger(body: _Body, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    yes, no = fragment.child("consequence"), fragment.child("alternative")
    first = _polynomial(body, yes, depth + 1, bounded) if yes else None
    second = _polynomial(body, no, depth + 1, bounded) if no else None
    if first is None or second is None:
        return None
    return first if len(first) >= len(second) else second


def _call_polynomial(body: _Body, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    name, arguments = called_name(fragment), arguments_of(fragment)
    macro = body.program.macros.get(name)
    if macro is not None and macro.parameters is not None:
        inner = expression_fragment(expanded(macro, [f"({one.text})" for one in arguments]))
        return _polynomial(body, inner, depth + 1, bounded) if inner else None
    if name == "min" and len(arguments) == 2:
        # Either bounds it: the one that is free of thread indexes is the smaller claim.
        found = [_polynomial(body, one, depth + 1, bounded) for one in arguments]
        plain = [
            one for one in found if one is not None and all(_is_plain(body, factor) for term in one for factor in term)
        ]
        return plain[0] if plain else next((one for one in found if one is not None), None)
    if name in ("__mul24", "__umul24") and len(arguments) == 2:
        first, second = (_polynomial(body, one, depth + 1, bounded) for one in arguments)
        return None if first is None or second is None else multiplied(first, second)
    return None


def _bounded_value(body: _Body, polynomial: Polynomial, depth: int) -> Polynomial | None:
    """The largest value of an index over all threads, blocks and iterations."""

    def bound(factor: Expression) -> Polynomial | None:
        if isinstance(factor, Name):
            if factor.text.startswith("%"):
                return _upper(body, factor.text[1:], depth + 1)
            built_in = re.fullmatch(r"(threadIdx|blockIdx)\.([xyz])", factor.text)
            if built_in:
                space = "block" if built_in[1] == "threadIdx" else "grid"
                return added(atom(Name(f"{space}.{built_in[2]}")), constant(-1))
        return atom(factor)

    return largest(polynomial, bound)


# ------------------------------------------------------------------------------------ accesses


def _collect_access(body: _Body, fragment: Fragment) -> None:
    kind = fragment.node.type
    if kind == "subscript_expression":
        owner = fragment.child("argument")
        listed = fragment.child("indices")
        index = next(iter(listed.named()), None) if listed else None
    elif kind == "pointer_expression" and fragment.text.startswith("*"):
        owner, index = fragment.child("argument"), None
    elif kind == "call_expression":
        _note_handed(body, fragment)
        return
    else:
        return
    if owner is None:
        return
    base = _base(body, owner, 0)
    if base is None:
        return
    pointer, offset, scale = base
    _note_use(body, pointer, fragment)
    position = constant(0) if index is None else _polynomial(body, index, 0)
    if index is not None:
        _note_indirection(body, pointer, index, 0)
    reach = _reach_of(body, offset, position, scale)
    if reach is None:
        return
    known = body.facts.reaches.setdefault(pointer, [])
    if reach not in known:
        known.append(reach)


def _base(body: _Body, owner: Fragment, depth: int) -> tuple[str, Polynomial | None, int] | None:
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
                moved = _polynomial(body, other, depth)
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
            moved = _polynomial(body, index, depth)
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


def _note_handed(body: _Body, call: Fragment) -> None:
    """A pointer that is handed on may be read and written there; the store and load intrinsics do one of both."""
    name = called_name(call)
    for position, argument in enumerate(arguments_of(call)):
        handed = _base(body, argument, 0)
        if handed is None:
            continue
        if not re.fullmatch(r"__st(wb|cg|cs|wt)", name) or position:
            body.facts.read.add(handed[0])
        if not re.fullmatch(r"__ld(g|cg|ca|cs|lu|cv)", name):
            body.facts.written.add(handed[0])
        if position == 0 and re.fullmatch(r"__(st|ld)\w+|atomic\w+", name):
            reach = _reach_of(body, handed[1], constant(0), handed[2])
            if reach is not None and reach not in body.facts.reaches.setdefault(handed[0], []):
                body.facts.reaches[handed[0]].append(reach)


def _reach_of(body: _Body, offset: Polynomial | None, position: Polynomial | None, scale: int) -> Expression | None:
    """One more than the largest element that ``offset + position * scale`` touches."""
    if offset is None or position is None:
        return None
    upper = _bounded_value(body, added(multiplied(position, constant(scale)), offset), 0)
    return None if upper is None else expression_of(added(upper, constant(max(scale, 1))))


def _note_use(body: _Body, pointer: str, access: Fragment) -> None:
    node, parent = access.node, access.node.parent
    around = ("parenthesized_expression", "field_expression", "subscript_expression")
    while parent is not None and parent.type in around:
        node, parent = parent, parent.parent
    if parent is not None and parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
        body.facts.written.add(pointer)
        right = parent.child_by_field_name("right")
        sign = access.data[node.end_byte : right.start_byte] if right is not None else b"="
        if sign.strip() != b"=":
            body.facts.read.add(pointer)
        return
    if parent is not None and parent.type in ("update_expression", "pointer_expression"):
        body.facts.written.add(pointer)
    body.facts.read.add(pointer)


def _note_indirection(body: _Body, pointer: str, index: Fragment, depth: int) -> None:
    """Whether the index is, or is bounded by, a value that another argument holds."""
    if depth > 4:
        return
    for fragment in _walk(index):
        if fragment.node.type == "subscript_expression":
            owner = fragment.child("argument")
            base = _base(body, owner, 0) if owner else None
            if base is not None and base[0] != pointer:
                body.facts.indexes.setdefault(base[0], (pointer, _factor_of(body, fragment)))
        elif fragment.node.type == "identifier":
            for bound in body.bounds.get(fragment.text, ()):
                for inner in _walk(bound):
                    owner = inner.child("argument") if inner.node.type == "subscript_expression" else None
                    base = _base(body, owner, 0) if owner else None
                    if base is not None:
                        body.facts.offsets.setdefault(base[0], pointer)
                if bound.node.type == "identifier":
                    _note_bound_variable(body, pointer, bound.text)
            for event in body.function.events.get(fragment.text, ()):
                if event.kind == "value" and event.value is not None and depth < 3 and fragment.text not in body.bounds:
                    _note_indirection(body, pointer, event.value, depth + 1)


def _factor_of(body: _Body, load: Fragment) -> Expression | None:
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
    value = _polynomial(body, other, 0, bounded=False) if between == b"*" else None
    return None if value is None else expression_of(value)


def _note_bound_variable(body: _Body, pointer: str, name: str) -> None:
    for event in body.function.events.get(name, ()):
        for inner in _walk(event.value) if event.value is not None else ():
            owner = inner.child("argument") if inner.node.type == "subscript_expression" else None
            base = _base(body, owner, 0) if owner else None
            if base is not None:
                body.facts.offsets.setdefault(base[0], pointer)


# ---------------------------------------------------------------------------------------- axes


def _collect_axes(body: _Body) -> None:
    """What bounds each axis of the grid: by the definition of the variable that a condition bounds."""
    for key in body.bounds:
        upper = _upper(body, key, 0)
        if upper is None:
            continue
        fragment = expression_fragment(key)
        position = _polynomial(body, fragment, 0, bounded=False) if fragment is not None else None
        if position is None:
            continue
        names = {factor.text for monomial in position for factor in monomial if isinstance(factor, Name)}
        axes = {name[-1] for name in names if name.startswith(("threadIdx.", "blockIdx."))}
        if len(axes) != 1:
            continue
        axis = axes.pop()
        limit = expression_of(added(upper, constant(1)))
        if f"blockIdx.{axis}" in names and f"threadIdx.{axis}" in names:
            body.facts.axes.setdefault(axis, limit)
        elif f"blockIdx.{axis}" in names and position == atom(Name(f"blockIdx.{axis}")):
            body.facts.blocks.setdefault(axis, limit)


def largest_reach(reaches: Sequence[Expression], values: Mapping[str, int]) -> Expression | None:
    """The reach that is largest for the given values; unknown names count as one."""
    from optiml_core.records import Failure
    from optiml_core.workload.expression import evaluate, names_in

    best: tuple[float, str, Expression] | None = None
    for reach in reaches:
        value = evaluate(reach, {name: values.get(name, 1) for name in names_in(reach)})
        if isinstance(value, Failure):
            continue
        candidate = (float(value), write_expression(reach), reach)
        if best is None or candidate[:2] > best[:2]:
            best = candidate
    return None if best is None else best[2]

"""How far the indexes of a kernel reach, by its own conditions and loops.

A variable that a condition or a loop bounds (`if (row < rows)`) stands for everything below that bound, under its
own name; other variables are replaced by their definition; `threadIdx.x` reaches to `block.x - 1`. Keeping bounded
names whole, where `source.accesses` expands them to thread indexes, is what lets a length read `rows * cols`.
Names count as positive numbers. What cannot be followed is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import frozen
from tree_sitter import Node

from optiml_core.workload.expression import Binary, Expression, Name, Number
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
from optiml_core.workload.inference.program import Event, Function, Program
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
    expanded,
    expression_fragment,
    path_of,
    without_casts,
)

DEEPEST = 24


@frozen(eq=False)
class KernelBody:
    program: Program
    function: Function
    pointers: dict[str, int]  # bytes of an element, 0 where it is not known
    scalars: set[str]
    bounds: dict[str, list[Fragment]]  # variable -> what it stays below
    inclusive: set[int]  # the bounds (by id) that it may reach
    constants: Mapping[str, Expression]
    plain: frozenset[str]  # names that a declaration can use
    last: dict[str, Polynomial]  # the last value of counters whose steps are known numbers


def walk(fragment: Fragment) -> Iterator[Fragment]:
    waiting = [fragment.node]
    while waiting:
        node = waiting.pop()
        yield Fragment(node, fragment.data)
        waiting.extend(reversed(node.named_children))


# ------------------------------------------------------------------------------------- bounds


def collect_bounds(body: KernelBody, fragment: Fragment) -> None:
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
            _counting_in_steps(body, fragment)


def _counting_down(body: KernelBody, loop: Fragment) -> None:
    """`for (i = start; i >= 0; i--)` and halving loops stay at most at their start."""
    update, first = loop.child("update"), loop.child("initializer")
    if update is None or first is None or not re.search(r"--|-=|>>=|/=", update.text):
        return
    for inner in walk(first):
        value = inner.child("value") if inner.node.type == "init_declarator" else inner.child("right")
        target = inner.child("declarator") if inner.node.type == "init_declarator" else inner.child("left")
        if value is not None and target is not None and inner.node.type in ("init_declarator", "assignment_expression"):
            body.bounds.setdefault(target.text.strip(), []).append(value)
            body.inclusive.add(value.node.id)


def _counting_in_steps(body: KernelBody, loop: Fragment) -> None:
    """`for (i = 0; i < 32; i += 8)` ends at 24."""
    match = re.fullmatch(
        r"\s*(?:[\w ]+\s)?(\w+)\s*=\s*0\s*;?\s*\|\s*(\w+)\s*<\s*([\w ]+?)\s*\|\s*(\w+)\s*\+=\s*(\w+)\s*",
        "|".join(part.text if part else "" for part in (loop.child(n) for n in ("initializer", "condition", "update"))),
    )
    if match is None or len({match[1], match[2], match[4]}) != 1:
        return
    values = []
    for text in (match[3], match[5]):
        fragment = expression_fragment(text)
        value = polynomial_in(body, fragment, 0, bounded=False) if fragment is not None else None
        if value is None or not set(value) <= {()} or not value.get((), 0) > 0:
            return
        values.append(value[()])
    body.last[match[1]] = constant((values[0] - 1) // values[1] * values[1])


def _comparisons(condition: Fragment) -> Iterator[Fragment]:
    for fragment in walk(condition):
        if fragment.node.type == "binary_expression":
            yield fragment


def _bound(body: KernelBody, comparison: Fragment, negative: bool) -> None:
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
    key = key_of(left)
    # `0 < i` bounds nothing from above.
    if re.fullmatch(r"[\d.]+f?", key):
        return
    if right.node.type == "call_expression" and called_name(right) == "min":
        for argument in arguments_of(right):
            body.bounds.setdefault(key, []).append(argument)
    body.bounds.setdefault(key, []).append(right)
    if operator == "<=":
        body.inclusive.add(right.node.id)


def key_of(fragment: Fragment) -> str:
    return re.sub(r"\s+", "", without_casts(fragment).text)


def upper_bound(body: KernelBody, key: str, depth: int) -> Polynomial | None:
    """The largest value of a bounded variable; of several bounds the first that the kernel's names can express."""
    if key in body.last:
        return body.last[key]
    for bound in body.bounds.get(key, ()):
        value = polynomial_in(body, bound, depth + 1, bounded=False)
        if value is None or not all(_is_plain(body, factor) for monomial in value for factor in monomial):
            continue
        return value if bound.node.id in body.inclusive else added(value, constant(-1))
    return None


def _is_plain(body: KernelBody, factor: Expression) -> bool:
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


def polynomial_in(body: KernelBody, fragment: Fragment, depth: int, bounded: bool = True) -> Polynomial | None:
    """An index as a polynomial; ``bounded``: bounded variables stay atoms `%name`, to be bounded later."""
    if depth > DEEPEST:
        return None
    fragment = without_casts(fragment)
    kind = fragment.node.type
    key = key_of(fragment)
    may_be_bounded = bounded and kind != "number_literal" and key in body.bounds and key not in body.scalars
    if may_be_bounded and upper_bound(body, key, depth) is not None:
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
        inner = polynomial_in(body, argument, depth + 1, bounded) if argument else None
        return None if inner is None else added({}, inner, -1)
    return None


def _binary_polynomial(body: KernelBody, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    left, right = fragment.child("left"), fragment.child("right")
    if left is None or right is None:
        return None
    operator = fragment.data[left.node.end_byte : right.node.start_byte].decode("utf-8", "replace").strip()
    second = polynomial_in(body, right, depth + 1, bounded)
    if operator in ("%", "&"):
        # The remainder is below its divisor, whatever the dividend.
        if second is None:
            return None
        return (added(second, constant(-1)) if operator == "%" else second) if bounded else None
    first = polynomial_in(body, left, depth + 1, bounded)
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
        upper = bounded_value(body, first, depth) if bounded else first
        if upper is None or not second:
            return None
        if set(upper) <= {()} and set(second) <= {()}:
            return constant(upper.get((), 0) // second[()])
        whole = _whole_quotient(upper, second)
        if whole is not None:
            return whole
        return polynomial_of(simplified(Binary("/", expression_of(upper), expression_of(second))))
    return None


def _whole_quotient(above: Polynomial, below: Polynomial) -> Polynomial | None:
    """(q * r - 1) / q is r - 1, and q * r / q is r, for a product q."""
    if len(below) != 1:
        return None
    (factors, coefficient), *_ = below.items()
    rest = above.get((), 0)
    quotient: Polynomial = {}
    for monomial, own in above.items():
        if monomial == ():
            continue
        left = list(monomial)
        if own % coefficient or any(left.count(factor) < factors.count(factor) for factor in factors):
            return None
        for factor in factors:
            left.remove(factor)
        quotient[tuple(left)] = own // coefficient
    if rest == 0:
        return quotient
    return added(quotient, constant(-1)) if rest == -1 else None


def _named_polynomial(body: KernelBody, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    path = path_of(fragment)
    if path is None:
        return _group_polynomial(body, fragment)
    if path == "warpSize":
        return constant(32)
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
        return polynomial_in(body, inner, depth + 1, bounded) if inner is not None else None
    values = [event for event in events if event.kind in ("value", "constructed") and event.value is not None]
    changes = [event for event in events if event.kind in ("compound", "step", "address")]
    if any(event.kind == "address" or event.operator in ("+", "*", "<<") for event in changes):
        return None  # it grows; one that only shrinks stays at most at its start
    value = values[0] if len(values) == 1 else _value_before(body, values, fragment)
    return None if value is None else _definition(body, value, depth, bounded)


def _value_before(body: KernelBody, values: list[Event], use: Fragment) -> Event | None:
    """Of several assignments the last one before the use, if it is certain to be the one that counts."""
    if use.data is not body.function.data:
        return None
    at = use.node.start_byte
    # `rest = rest % n` reads the value before itself.
    before = [event for event in values if event.start < at and not event.node.start_byte <= at < event.node.end_byte]
    if not before or not _block(before[-1].node).start_byte <= at < _block(before[-1].node).end_byte:
        return None
    loop = use.node.parent
    while loop is not None and loop.type not in ("for_statement", "while_statement", "do_statement"):
        loop = loop.parent
    later = [event for event in values if event.start > at]
    if loop is not None and any(loop.start_byte <= event.start < loop.end_byte for event in later):
        return None  # the next iteration brings another value
    return before[-1]


def _block(node: Node) -> Node:
    """The block that a statement stands in."""
    parent = node.parent
    while parent is not None and parent.type != "compound_statement":
        node, parent = parent, parent.parent
    return parent or node


def _definition(body: KernelBody, event: Event, depth: int, bounded: bool) -> Polynomial | None:
    value = event.value
    if value is None:
        return None
    if event.kind == "constructed":
        listed = value.named()
        return polynomial_in(body, listed[0], depth + 1, bounded) if len(listed) == 1 else None
    return polynomial_in(body, value, depth + 1, bounded)


def _larger(body: KernelBody, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    yes, no = fragment.child("consequence"), fragment.child("alternative")
    first = polynomial_in(body, yes, depth + 1, bounded) if yes else None
    second = polynomial_in(body, no, depth + 1, bounded) if no else None
    if first is None or second is None:
        return None
    return first if len(first) >= len(second) else second


def _call_polynomial(body: KernelBody, fragment: Fragment, depth: int, bounded: bool) -> Polynomial | None:
    name, arguments = called_name(fragment), arguments_of(fragment)
    if name in ("thread_rank", "size", "num_threads"):
        return _group_polynomial(body, fragment)
    macro = body.program.macros.get(name)
    if macro is not None and macro.parameters is not None:
        inner = expression_fragment(expanded(macro, [f"({one.text})" for one in arguments]))
        return polynomial_in(body, inner, depth + 1, bounded) if inner else None
    if name == "min" and len(arguments) == 2:
        # Either bounds it: the one that is free of thread indexes is the smaller claim.
        found = [polynomial_in(body, one, depth + 1, bounded) for one in arguments]
        plain = [
            one for one in found if one is not None and all(_is_plain(body, factor) for term in one for factor in term)
        ]
        return plain[0] if plain else next((one for one in found if one is not None), None)
    if name in ("__mul24", "__umul24") and len(arguments) == 2:
        first, second = (polynomial_in(body, one, depth + 1, bounded) for one in arguments)
        return None if first is None or second is None else multiplied(first, second)
    return None


def _group_polynomial(body: KernelBody, fragment: Fragment) -> Polynomial | None:
    """What cooperative groups call the built-in variables: `block.group_index().x`, `grid.thread_rank()`."""
    match = re.fullmatch(r"(\w+)\.(\w+)\(\)(?:\.([xyz]))?", re.sub(r"\s+", "", fragment.text))
    if match is None:
        return None
    group, what, axis = match.groups()
    if axis is not None:
        names = {"group_index": "blockIdx", "thread_index": "threadIdx", "group_dim": "block", "dim_threads": "block"}
        return atom(Name(f"{names[what]}.{axis}")) if what in names else None
    made = " ".join(event.value.text for event in body.function.events.get(group, ()) if event.value is not None)
    partition = re.search(r"tiled_partition\s*<\s*(\d+)", made)
    if partition:
        size = constant(int(partition[1]))
    elif "this_grid" in made:
        size = {(): 1}
        for extent in ("block.x", "block.y", "block.z", "grid.x", "grid.y", "grid.z"):
            size = multiplied(size, atom(Name(extent)))
    elif "this_thread_block" in made:
        size = multiplied(multiplied(atom(Name("block.x")), atom(Name("block.y"))), atom(Name("block.z")))
    else:
        return None
    return added(size, constant(-1)) if what == "thread_rank" else size


def bounded_value(body: KernelBody, polynomial: Polynomial, depth: int) -> Polynomial | None:
    """The largest value of an index over all threads, blocks and iterations."""

    def bound(factor: Expression) -> Polynomial | None:
        if isinstance(factor, Name):
            if factor.text.startswith("%"):
                return upper_bound(body, factor.text[1:], depth + 1)
            built_in = re.fullmatch(r"(threadIdx|blockIdx)\.([xyz])", factor.text)
            if built_in:
                space = "block" if built_in[1] == "threadIdx" else "grid"
                return added(atom(Name(f"{space}.{built_in[2]}")), constant(-1))
        return atom(factor)

    return largest(polynomial, bound)

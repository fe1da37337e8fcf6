"""From expressions over roots to expressions over the kernel's own names.

A root that is passed straight to a parameter takes the parameter's name; a composite argument takes the place of
the same expression in lengths and shapes; what is left becomes a helper name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from optiml_core.workload.expression import (
    FUNCTIONS,
    Binary,
    Call,
    Expression,
    Name,
    Negation,
    Number,
    Value,
    names_in,
    negated,
    replace_names,
)
from optiml_core.workload.inference.polynomial import (
    Polynomial,
    atom,
    expression_of,
    multiplied,
    polynomial_of,
    simplified,
)
from optiml_core.workload.inference.values import Quantity, Root
from optiml_core.workload.items import RESERVED

# A literal at least this large that equals one argument's literal is taken to be that argument.
LEAST_MATCHED_LITERAL = 16


@frozen
class Naming:
    """``names``: root key to name. ``values``: the expression of every scalar argument and helper, by name.
    ``composites``: arguments that stand for an expression. ``same``: further arguments that hold a root.
    ``arguments``: the names in ``values`` that are scalar arguments."""

    names: dict[str, str] = field(factory=dict)
    values: dict[str, Expression] = field(factory=dict)
    composites: list[tuple[str, Expression]] = field(factory=list)
    same: dict[str, list[str]] = field(factory=dict)
    arguments: set[str] = field(factory=set)


def name_roots(
    arguments: Sequence[tuple[str, Quantity]],
    others: Iterable[Expression],
    roots: Mapping[str, Root],
    taken: Iterable[str],
) -> Naming:
    """Names for everything: ``arguments`` are the scalars passed, ``others`` the lengths and shapes to be written."""
    naming = Naming(arguments={name for name, _ in arguments})
    composites: list[tuple[str, Expression, Value]] = []
    for name, quantity in arguments:
        expression = simplified(quantity.expression)
        match expression:
            case Name(key) if key in roots and key not in naming.names:
                naming.names[key] = name
                naming.values[name] = Number(roots[key].value)
            case Name(key) if key in roots:
                naming.values[name] = Name(naming.names[key])
                naming.same.setdefault(naming.names[key], []).append(name)
            case Number():
                naming.values[name] = Number(quantity.value)
            case _:
                composites.append((name, expression, quantity.value))
    remaining = [simplified(other) for other in others]
    first_of: dict[Expression, str] = {}
    for name, expression, value in composites:
        if expression in first_of:
            first = first_of[expression]
            naming.values[name] = Name(first)
            naming.same.setdefault(first, []).append(name)
            continue
        first_of[expression] = name
        replaced = [with_composite(other, expression, name) for other in remaining]
        elsewhere = [*replaced, *(other for _, other, _ in composites if other != expression)]
        used: frozenset[str] = frozenset().union(*(names_in(one) for one in elsewhere))
        keys = names_in(expression)
        # Constants of the file do not vary, so what is computed from them alone stands for itself too.
        varying = {key for key in keys if roots[key].kind != "macro"}
        if not varying & (used | set(naming.names)):
            # Nothing else follows from its parts: the argument stands for itself.
            naming.values[name] = Number(value)
            remaining = replaced
            naming.composites.append((name, expression))
        elif keys <= set(naming.names):
            naming.values[name] = expression
        else:
            naming.values[name] = expression
            naming.composites.append((name, expression))
            remaining = replaced
    wanted: frozenset[str] = frozenset().union(*(names_in(one) for one in [*remaining, *naming.values.values()]))
    used_names = set(taken) | set(naming.values)
    for key in sorted(wanted & set(roots) - set(naming.names), key=lambda one: list(roots).index(one)):
        name = _free_name(roots[key].name, used_names)
        used_names.add(name)
        naming.names[key] = name
        naming.values[name] = Number(roots[key].value)
    for name, expression in list(naming.values.items()):
        naming.values[name] = _renamed(expression, naming)
    return naming


def written(expression: Expression, naming: Naming) -> Expression:
    """An expression over roots in the kernel's names."""
    expression = simplified(expression)
    for name, composite in naming.composites:
        expression = with_composite(expression, composite, name)
    return simplified(_renamed(expression, naming))


def with_literals(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """A literal that equals exactly one argument's literal is replaced by the argument: they were one number once."""
    holders: dict[int, list[str]] = {}
    for name, value in values.items():
        if isinstance(value, Number) and isinstance(value.value, int) and value.value >= LEAST_MATCHED_LITERAL:
            holders.setdefault(value.value, []).append(name)
    if isinstance(expression, Number) and isinstance(expression.value, int):
        held = holders.get(expression.value, [])
        return Name(held[0]) if len(held) == 1 else expression
    return expression


def _renamed(expression: Expression, naming: Naming) -> Expression:
    return replace_names(expression, lambda name: Name(naming.names.get(name.text, name.text)))


def _free_name(wanted: str, used: set[str]) -> str:
    """A name of the language near ``wanted`` that nothing else has."""
    name = re.sub(r"\W+", "_", wanted).strip("_") or "size"
    if name[0].isdigit():
        name = "n" + name
    while name in used or name in FUNCTIONS or name in RESERVED:
        name += "_"
    return name


def with_composite(expression: Expression, composite: Expression, name: str) -> Expression:
    """``expression`` with ``composite`` in it replaced by the name: as a part, or as a factor of a product."""
    if expression == composite:
        return Name(name)
    whole, part = polynomial_of(expression), polynomial_of(composite)
    if whole is not None and part is not None and len(part) == 1 and () not in part:
        reduced = _factored(whole, part, name)
        if reduced is not None:
            return expression_of(reduced)
    if whole is not None and part is not None and whole == part:
        return Name(name)
    match expression:
        case Binary(operator, left, right, column):
            return Binary(
                operator, with_composite(left, composite, name), with_composite(right, composite, name), column
            )
        case Call(function, arguments, column):
            return Call(function, tuple(with_composite(one, composite, name) for one in arguments), column)
        case Negation(operand):
            return negated(with_composite(operand, composite, name))
    return expression


def _factored(whole: Polynomial, part: Polynomial, name: str) -> Polynomial | None:
    """``whole`` with the one product in ``part`` taken out of its terms; None if it is in none of them."""
    (factors, coefficient), *_ = part.items()
    found = False
    total: Polynomial = {}
    for monomial, own in whole.items():
        rest = list(monomial)
        fits = own % coefficient == 0
        for factor in factors:
            if factor in rest:
                rest.remove(factor)
            else:
                fits = False
        if fits:
            found = True
            product = multiplied({tuple(rest): own // coefficient}, atom(Name(name)))
            for key, count in product.items():
                total[key] = total.get(key, 0) + count
        else:
            total[monomial] = total.get(monomial, 0) + own
    return total if found else None

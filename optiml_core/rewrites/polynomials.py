"""Integer index expressions as polynomials over names, so that ``a * K + i`` can be taken apart.

An atom is a name (``cols``), a builtin (``threadIdx.x``) or, where an operation is no polynomial
(``n / 2``, a call, a load), its squeezed text. Two expressions are the same index if their
polynomials are equal. Machine arithmetic wraps where ours does not, so equality here is equality
wherever the original does not overflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import prod

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.syntax import arguments_of, called_name, field, operator_of, squeeze, text_of, unwrap

_INTEGER_CASTS = frozenset({
    "int", "unsigned", "unsignedint", "uint", "long", "longlong", "unsignedlong", "unsignedlonglong", "size_t",
    "ssize_t", "ptrdiff_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
})  # fmt: skip

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

Monomial = tuple[str, ...]  # atoms in alphabetical order, repeated for powers


@frozen
class Polynomial:
    """A sum of integer multiples of monomials, in a fixed order, without zero terms."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @property
    def constant(self) -> int | None:
        """The value of a polynomial with no atoms, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def atoms(self) -> frozenset[str]:
        return frozenset(atom for monomial, _ in self.terms for atom in monomial)

    @property
    def names(self) -> frozenset[str]:
        """Every identifier that the value depends on, also inside opaque atoms."""
        return frozenset(name for atom in self.atoms for name in _names_of_atom(atom))

    def value(self, values: Mapping[str, int]) -> int | None:
        """The number that the polynomial is where all its atoms are known, else None."""
        if not self.atoms <= values.keys():
            return None
        return sum(factor * prod(values[part] for part in monomial) for monomial, factor in self.terms)


def _names_of_atom(atom: str) -> frozenset[str]:
    """``threadIdx.x/32`` depends on ``threadIdx.x`` (and on ``threadIdx``), not on a variable ``x``."""
    dotted = _DOTTED.findall(atom)
    return frozenset(dotted) | frozenset(name.split(".")[0] for name in dotted)


def _from(terms: Mapping[Monomial, int]) -> Polynomial:
    return Polynomial(tuple(sorted((monomial, factor) for monomial, factor in terms.items() if factor)))


def constant(value: int) -> Polynomial:
    return _from({(): value})


def atom(name: str) -> Polynomial:
    return _from({(name,): 1})


def add(*operands: Polynomial) -> Polynomial:
    total: dict[Monomial, int] = {}
    for operand in operands:
        for monomial, factor in operand.terms:
            total[monomial] = total.get(monomial, 0) + factor
    return _from(total)


def negate(operand: Polynomial) -> Polynomial:
    return _from({monomial: -factor for monomial, factor in operand.terms})


def subtract(left: Polynomial, right: Polynomial) -> Polynomial:
    return add(left, negate(right))


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    total: dict[Monomial, int] = {}
    for first, first_factor in left.terms:
        for second, second_factor in right.terms:
            monomial = tuple(sorted(first + second))
            total[monomial] = total.get(monomial, 0) + first_factor * second_factor
    return _from(total)


def coefficient(polynomial: Polynomial, name: str) -> Polynomial | None:
    """What ``name`` is multiplied by; None if the polynomial is not linear in it (also inside an opaque atom)."""
    total: dict[Monomial, int] = {}
    for monomial, factor in polynomial.terms:
        power = monomial.count(name)
        rest = tuple(part for part in monomial if part != name)
        if power > 1 or any(name in _names_of_atom(part) for part in rest):
            return None
        if power == 1:
            total[rest] = total.get(rest, 0) + factor
    return _from(total)


def renamed(polynomial: Polynomial, old: str, new: str) -> Polynomial:
    """The polynomial with one atom under another name."""
    if old == new:
        return polynomial
    terms = [
        (tuple(sorted(new if part == old else part for part in monomial)), factor)
        for monomial, factor in polynomial.terms
    ]
    return Polynomial(tuple(sorted(terms)))


def without(polynomial: Polynomial, names: Iterable[str]) -> Polynomial:
    """The terms in which none of ``names`` occurs."""
    dropped = frozenset(names)
    return _from(
        {m: f for m, f in polynomial.terms if not any(_names_of_atom(part) & dropped or part in dropped for part in m)}
    )


def depends_on(polynomial: Polynomial, names: Iterable[str]) -> bool:
    return bool(polynomial.names & frozenset(names) or polynomial.atoms & frozenset(names))


def read_polynomial(node: Node, meaning: Callable[[str], Polynomial | None]) -> Polynomial:
    """The polynomial of an integer expression.

    ``meaning`` gives the value of a name (a local defined once, a macro) or None to keep it as an atom.
    """
    node = unwrap(node)
    match node.type:
        case "number_literal":
            return _number(text_of(node))
        case "identifier" | "field_expression":
            name = squeeze(text_of(node))
            known = meaning(name)
            return atom(name) if known is None else known
        case "binary_expression":
            return _binary(node, meaning)
        case "unary_expression" if operator_of(node) == "-":
            return negate(read_polynomial(field(node, "argument"), meaning))
        case "unary_expression" if operator_of(node) == "+":
            return read_polynomial(field(node, "argument"), meaning)
        case "cast_expression" if _is_integer_type(text_of(field(node, "type"))):
            return read_polynomial(field(node, "value"), meaning)
        case "call_expression":
            return _call(node, meaning)
    return _opaque(node, meaning)


def _number(text: str) -> Polynomial:
    try:
        return constant(int(text.rstrip("uUlL"), 0))
    except ValueError:
        return atom(text)


def _binary(node: Node, meaning: Callable[[str], Polynomial | None]) -> Polynomial:
    left = read_polynomial(field(node, "left"), meaning)
    right = read_polynomial(field(node, "right"), meaning)
    match operator_of(node):
        case "+":
            return add(left, right)
        case "-":
            return subtract(left, right)
        case "*":
            return multiply(left, right)
        case "<<" if right.constant is not None and 0 <= right.constant < 31:
            return multiply(left, constant(1 << right.constant))
        case operator if left.constant is not None and right.constant not in (None, 0) and operator in ("/", "%"):
            # Index arithmetic on literals; both are non-negative in any index that makes sense.
            if left.constant >= 0 and right.constant is not None and right.constant > 0:
                value = left.constant // right.constant if operator == "/" else left.constant % right.constant
                return constant(value)
        case _:
            pass
    return _opaque(node, meaning)


def _call(node: Node, meaning: Callable[[str], Polynomial | None]) -> Polynomial:
    """``size_t(rows)`` and ``static_cast<int>(x)`` are their argument."""
    arguments = arguments_of(node)
    function = field(node, "function")
    if len(arguments) == 1:
        target = text_of(function)
        if called_name(node) == "static_cast" and "<" in target:
            target = target[target.index("<") + 1 : target.rindex(">")]
        if _is_integer_type(target):
            return read_polynomial(arguments[0], meaning)
    return _opaque(node, meaning)


def _is_integer_type(text: str) -> bool:
    return squeeze(text.replace("const", "").replace("std::", "")) in _INTEGER_CASTS


def _opaque(node: Node, meaning: Callable[[str], Polynomial | None]) -> Polynomial:
    """One atom for the whole expression, its names spelled out so that what they depend on stays visible."""
    pieces: list[str] = []
    at = node.start_byte
    raw = node.text or b""

    def copy(to: int) -> None:
        pieces.append(raw[at - node.start_byte : to - node.start_byte].decode("utf-8", "surrogateescape"))

    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in ("identifier", "field_expression") and current.start_byte >= at:
            known = meaning(squeeze(text_of(current)))
            if known is not None:
                copy(current.start_byte)
                pieces.append(f"({spell(known)})")
                at = current.end_byte
                continue
            if current.type == "field_expression":
                continue
        stack.extend(reversed(current.children))
    copy(node.end_byte)
    return atom(squeeze("".join(pieces)))


def spell(polynomial: Polynomial) -> str:
    """C++ text of a polynomial: ``2 * x + cols * y``."""
    if not polynomial.terms:
        return "0"
    text = ""
    for monomial, factor in sorted(polynomial.terms, key=lambda term: (not term[0], term[0])):
        magnitude = abs(factor)
        parts = ([] if magnitude == 1 and monomial else [str(magnitude)]) + list(monomial)
        sign = "-" if factor < 0 else "+"
        product = " * ".join(parts)
        text = (f"-{product}" if factor < 0 else product) if not text else f"{text} {sign} {product}"
    return text

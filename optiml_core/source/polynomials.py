"""Integer polynomials over names: what multiplies a thread index where sizes are only known at launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import frozen

Monomial = tuple[str, ...]


@frozen
class Polynomial:
    """A sum of integer coefficients times products of names, for example ``4*blockDim.x*cols + 1``.

    ``monomials`` is sorted and holds no zero coefficients, so that equal polynomials compare equal.
    A name is a launch constant: a scalar parameter, ``blockDim.x``, a template parameter, a macro,
    or the text of an expression of such (``"(n / 4)"``) that is no polynomial itself.
    """

    monomials: tuple[tuple[Monomial, int], ...] = ()

    @property
    def value(self) -> int | None:
        """The number, if no name is left in it."""
        if not self.monomials:
            return 0
        if len(self.monomials) == 1 and self.monomials[0][0] == ():
            return self.monomials[0][1]
        return None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(name for monomial, _ in self.monomials for name in monomial)

    def __add__(self, other: Polynomial) -> Polynomial:
        return _of((*self.monomials, *other.monomials))

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((monomial, -factor) for monomial, factor in self.monomials))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _of(
            (tuple(sorted((*a, *b))), x * y) for a, x in self.monomials for b, y in other.monomials
        )  # fmt: skip

    def divided_by(self, divisor: int) -> Polynomial | None:
        """The exact quotient by a number, or None where a coefficient leaves a remainder."""
        if divisor == 0 or any(factor % divisor for _, factor in self.monomials):
            return None
        return Polynomial(tuple((monomial, factor // divisor) for monomial, factor in self.monomials))

    def shared_out(self, parts: int) -> Polynomial:
        """The quotient by a number that is known to divide the value: what no coefficient shows becomes a
        name of its own (``"(N / 4)"``)."""
        exact = [(m, f // parts) for m, f in self.monomials if f % parts == 0]
        rest = Polynomial(tuple((m, f) for m, f in self.monomials if f % parts))
        if not rest.monomials:
            return Polynomial(tuple(exact))
        text = str(rest)
        whole = symbol(f"({text} / {parts})" if " " not in text else f"(({text}) / {parts})")
        return _of(exact) + whole

    def evaluate(self, values: Mapping[str, int]) -> int | None:
        """The number for given values of the names (C arithmetic in composite names), or None if one is missing."""
        total = 0
        for monomial, factor in self.monomials:
            product = factor
            for name in monomial:
                value = values.get(name)
                if value is None:
                    value = evaluate_composite(name, values)
                if value is None:
                    return None
                product *= value
            total += product
        return total

    def __str__(self) -> str:
        if not self.monomials:
            return "0"
        parts: list[str] = []
        for monomial, factor in sorted(self.monomials, key=lambda item: (-len(item[0]), item[0])):
            body = " * ".join(monomial)
            size = abs(factor)
            text = str(size) if not monomial else (body if size == 1 else f"{size} * {body}")
            sign = "-" if factor < 0 else "+"
            parts.append(f"{sign} {text}" if parts else (f"-{text}" if factor < 0 else text))
        return " ".join(parts)


def _of(items: Iterable[tuple[Monomial, int]]) -> Polynomial:
    sums: dict[Monomial, int] = {}
    for monomial, factor in items:
        sums[monomial] = sums.get(monomial, 0) + factor
    return Polynomial(tuple(sorted((m, f) for m, f in sums.items() if f)))


def number(value: int) -> Polynomial:
    return _of([((), value)])


def symbol(name: str) -> Polynomial:
    return Polynomial((((name,), 1),))


ZERO = Polynomial()
ONE = number(1)


def truncated_quotient(a: int, b: int) -> int | None:
    """C's integer division: towards zero; None for a zero divisor."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncated_remainder(a: int, b: int) -> int | None:
    quotient = truncated_quotient(a, b)
    return None if quotient is None else a - b * quotient


INTEGER_OPERATIONS: Mapping[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": truncated_quotient,
    "%": truncated_remainder,
    "<<": lambda a, b: a << b if 0 <= b < 64 else None,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else None,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}


def evaluate_composite(text: str, values: Mapping[str, int]) -> int | None:
    """The value of an integer expression's text for given values of its names, as C computes it; else None."""
    from optiml_core.source.constant_expressions import evaluate_text

    return evaluate_text(text, values) if not text.isidentifier() else None

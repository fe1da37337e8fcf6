"""The index of a memory access as a sum over thread, block and loop variables."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from attrs import frozen

from optiml_core.source.polynomials import ONE, ZERO, Polynomial

THREAD_VARIABLES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
BLOCK_VARIABLES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
LONGEST_TEXT = 400
MEMORY = "memory"  # what a value read from memory depends on


@frozen
class AffineForm:
    """``constant`` plus the sum of ``coefficient * variable`` over ``terms``.

    A variable is ``threadIdx.x`` .. ``blockIdx.z`` or a loop's variable. A loop's variable stands for
    the number of its iteration (0, 1, 2 ...): start and step are folded into constant and
    coefficient, so that ``for (i = threadIdx.x; i < n; i += blockDim.x) a[i]`` has the form
    ``threadIdx.x + blockDim.x * i``. Coefficients are polynomials in launch constants.

    What is not affine stands as a variable named by its text (``"threadIdx.x % 32"``), listed in
    ``opaque`` with the variables that it depends on (``"memory"`` for a loaded value).
    Terms are sorted by name; none is zero.
    """

    terms: tuple[tuple[str, Polynomial], ...] = ()
    constant: Polynomial = ZERO
    opaque: tuple[tuple[str, frozenset[str]], ...] = ()

    def coefficient(self, variable: str) -> Polynomial | None:
        """What one step of ``variable`` adds to the index; None where an opaque term depends on it."""
        for _, depends_on in self.opaque:
            if variable in depends_on:
                return None
        return dict(self.terms).get(variable, ZERO)

    @property
    def is_affine(self) -> bool:
        """Whether nothing opaque is left."""
        return not self.opaque

    @property
    def is_uniform(self) -> bool:
        """Whether the value is the same in all threads and iterations of a launch."""
        return not self.terms

    @property
    def depends_on(self) -> frozenset[str]:
        """Every variable that the value depends on, also through opaque terms."""
        hidden = dict(self.opaque)
        found: set[str] = set()
        for name, _ in self.terms:
            found |= hidden.get(name, frozenset({name}))
        return frozenset(found)

    @property
    def symbols(self) -> frozenset[str]:
        """The launch constants that occur in coefficients and constant."""
        return self.constant.symbols.union(*(p.symbols for _, p in self.terms))

    def evaluate(self, values: Mapping[str, int]) -> int | None:
        """The index for given values of variables and launch constants; None if one is missing."""
        total = self.constant.evaluate(values)
        for name, factor in self.terms:
            value, scale = values.get(name), factor.evaluate(values)
            if total is None or scale is None:
                return None
            if value is None:
                from optiml_core.source.polynomials import evaluate_composite

                value = evaluate_composite(name, values)
                if value is None:
                    return None
            total += value * scale
        return total

    def __add__(self, other: AffineForm) -> AffineForm:
        sums = dict(self.terms)
        for name, factor in other.terms:
            sums[name] = sums.get(name, ZERO) + factor
        return _form(sums, self.constant + other.constant, {**dict(self.opaque), **dict(other.opaque)})

    def scaled(self, factor: Polynomial) -> AffineForm:
        """Every coefficient times a launch constant."""
        return _form({n: p * factor for n, p in self.terms}, self.constant * factor, dict(self.opaque))

    def __neg__(self) -> AffineForm:
        return AffineForm(tuple((n, -p) for n, p in self.terms), -self.constant, self.opaque)

    def __sub__(self, other: AffineForm) -> AffineForm:
        return self + -other

    def divided_by(self, divisor: int) -> AffineForm | None:
        """The exact quotient, or None where some coefficient leaves a remainder."""
        constant = self.constant.divided_by(divisor)
        terms = [(n, p.divided_by(divisor)) for n, p in self.terms]
        if constant is None or any(p is None for _, p in terms):
            return None
        return AffineForm(tuple((n, p) for n, p in terms if p is not None), constant, self.opaque)

    def shared_out(self, parts: int) -> AffineForm:
        """The quotient by a number that is known to divide every term, as an aligned address is known to
        be a multiple of its element's size."""
        found = AffineForm((), self.constant.shared_out(parts))
        hidden = dict(self.opaque)
        for name, factor in self.terms:
            value = factor.value
            if value is None or value % parts == 0:
                term = _form({name: factor.shared_out(parts)}, ZERO, {name: hidden[name]} if name in hidden else {})
            else:
                text = f"({name})" if " " in name else name
                text = text if value == 1 else f"({value} * {text})"
                term = opaque_form(f"{text} / {parts}", hidden.get(name, frozenset({name})))
            found = found + term
        return found

    def __str__(self) -> str:
        parts: list[str] = []
        for name, factor in self.terms:
            text = f"({name})" if " " in name else name
            value = factor.value
            if factor == ONE:
                parts.append(text)
            elif value == -1:
                parts.append(f"-{text}")
            elif value is not None or len(factor.monomials) == 1:
                parts.append(f"{factor} * {text}")
            else:
                parts.append(f"({factor}) * {text}")
        if self.constant != ZERO or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


@frozen
class PointerValue:
    """A pointer as a named array plus an offset in elements of ``element`` (a type's text).

    ``base`` is a parameter, a member of one (``"p.data"``), a global or a local array.
    """

    base: str
    offset: AffineForm
    element: str
    space: str  # "global", "shared", "constant", "local"


def _form(terms: Mapping[str, Polynomial], constant: Polynomial, opaque: Mapping[str, frozenset[str]]) -> AffineForm:
    kept = {name: factor for name, factor in terms.items() if factor != ZERO}
    return AffineForm(
        tuple(sorted(kept.items(), key=lambda item: item[0])),
        constant,
        tuple(sorted(((n, d) for n, d in opaque.items() if n in kept), key=lambda item: item[0])),
    )


def constant_form(value: Polynomial) -> AffineForm:
    return AffineForm((), value)


def variable_form(name: str) -> AffineForm:
    return AffineForm(((name, ONE),))


def opaque_form(text: str, depends_on: frozenset[str]) -> AffineForm:
    """A value that is not affine: known by its text and by what it depends on. One that depends on
    nothing is a launch constant."""
    if len(text) > LONGEST_TEXT:  # chains of operations on opaque values would double it with each
        text = f"{text[:40]} ... {zlib.crc32(text.encode()):08x}"
    if not depends_on:
        from optiml_core.source.polynomials import symbol

        return constant_form(symbol(text if text.isidentifier() else f"({text})"))
    return AffineForm(((text, ONE),), ZERO, ((text, depends_on),))

"""Multiplication, division and bit operations of affine forms: exact where they are, else opaque."""

from __future__ import annotations

from optiml_core.source.affine_form import AffineForm, constant_form, opaque_form
from optiml_core.source.polynomials import (
    ONE,
    ZERO,
    number,
    symbol,
    truncated_quotient,
    truncated_remainder,
)


def _both(a: AffineForm, b: AffineForm) -> frozenset[str]:
    return a.depends_on | b.depends_on


def _bracketed(form: AffineForm) -> str:
    text = str(form)
    return f"({text})" if " " in text else text


def product(a: AffineForm, b: AffineForm) -> AffineForm:
    """A form times a launch constant is affine; of two variables it is opaque."""
    if a.is_uniform:
        return b.scaled(a.constant)
    if b.is_uniform:
        return a.scaled(b.constant)
    return opaque_form(f"{_bracketed(a)} * {_bracketed(b)}", _both(a, b))


def quotient(a: AffineForm, b: AffineForm) -> AffineForm:
    """C's integer division; exact where every coefficient is divisible (no overflow is assumed)."""
    divisor = b.constant.value if b.is_uniform else None
    if divisor is not None and divisor != 0:
        if divisor == 1:
            return a
        exact = a.divided_by(divisor)
        if exact is not None:
            return exact
        if a.is_uniform and a.constant.value is not None:
            value = truncated_quotient(a.constant.value, divisor)
            if value is not None:
                return constant_form(number(value))
    if a.is_uniform and b.is_uniform:
        if a.constant == b.constant and a.constant != ZERO:
            return constant_form(ONE)
        return constant_form(symbol(f"({_bracketed(a)} / {_bracketed(b)})"))
    return opaque_form(f"{_bracketed(a)} / {_bracketed(b)}", _both(a, b))


def remainder(a: AffineForm, b: AffineForm) -> AffineForm:
    """C's remainder; zero where every coefficient is divisible."""
    divisor = b.constant.value if b.is_uniform else None
    if divisor is not None and divisor != 0:
        if a.divided_by(divisor) is not None:
            return constant_form(ZERO)
        if a.is_uniform and a.constant.value is not None:
            value = truncated_remainder(a.constant.value, divisor)
            if value is not None:
                return constant_form(number(value))
    if a.is_uniform and b.is_uniform:
        return constant_form(symbol(f"({_bracketed(a)} % {_bracketed(b)})"))
    return opaque_form(f"{_bracketed(a)} % {_bracketed(b)}", _both(a, b))


def shifted(a: AffineForm, b: AffineForm) -> AffineForm:
    """``a << b``: a product where ``b`` is a number."""
    steps = b.constant.value if b.is_uniform else None
    if steps is not None and 0 <= steps < 63:
        return a.scaled(number(1 << steps))
    if a.is_uniform and b.is_uniform:
        return constant_form(symbol(f"({_bracketed(a)} << {_bracketed(b)})"))
    return opaque_form(f"{_bracketed(a)} << {_bracketed(b)}", _both(a, b))


def bit_and(a: AffineForm, b: AffineForm) -> AffineForm:
    """``a & (2^k - 1)`` is the remainder of a non-negative value by ``2^k`` and is written as such."""
    for form, other in ((a, b), (b, a)):
        mask = other.constant.value if other.is_uniform else None
        if mask is not None and mask > 0 and mask & (mask + 1) == 0:
            return remainder(form, constant_form(number(mask + 1)))
    x, y = (a.constant.value if a.is_uniform else None), (b.constant.value if b.is_uniform else None)
    if x is not None and y is not None:
        return constant_form(number(x & y))
    if a.is_uniform and b.is_uniform:
        return constant_form(symbol(f"({_bracketed(a)} & {_bracketed(b)})"))
    return opaque_form(f"{_bracketed(a)} & {_bracketed(b)}", _both(a, b))

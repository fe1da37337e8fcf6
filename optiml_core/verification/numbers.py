"""The numbers that a text mentions: what code decides by, and so what sizes and contents should lie around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from optiml_core.verification.tokens import tokenize

MOST_NUMBERS = 64  # that are tried
_INTEGER = re.compile(r"(0[xX][\da-fA-F]+|0[bB][01]+|\d+)(?:[uU]?[lL]{0,2}|[lL]{1,2}[uU])")
_FLOAT = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlL]?")


def numbers_in(text: str) -> tuple[float, ...]:
    """Every number of the code and of its macros, and products, sums and shifts of two that stand side by side
    (``4 * 256``, ``1 << 20``); each once, in their order."""
    tokens = tokenize(text)
    found: dict[float, None] = {}
    for words in (tokens.code, *(one for one in tokens.directives if one[1:2] == ("define",))):
        found.update(dict.fromkeys(_numbers(words)))
    return tuple(found)


def _numbers(words: tuple[str, ...]) -> Iterator[float]:
    values = [number_of(word) for word in words]
    for at, value in enumerate(values):
        if value is None:
            continue
        yield value
        other = values[at + 2] if at + 2 < len(values) else None
        if other is None:
            continue
        match words[at + 1]:
            case "*":
                yield value * other
            case "+":
                yield value + other
            case "-":
                yield value - other
            case "<<" if float(value).is_integer() and 0 <= other < 63:
                yield float(int(value) << int(other))
            case _:
                pass


def number_of(word: str) -> float | None:
    """The value of a number as C++ spells it, or None."""
    plain = word.replace("'", "")
    if _INTEGER.fullmatch(plain):
        digits = plain.rstrip("uUlL")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1:].isdigit()
        try:
            return float(int(digits, 8 if octal else 0))
        except (ValueError, OverflowError):
            return None
    found = _FLOAT.fullmatch(plain)
    return float(found.group(1)) if found else None

"""Random expressions of one element, so that two kernels of a family are two kernels."""

from __future__ import annotations

import random
from collections.abc import Sequence


def element_expression(rng: random.Random, terms: Sequence[str], ctype: str, wide_literals: bool = False) -> str:
    """An expression over ``terms`` (each used at least once) that stays finite for ordinary values.

    ``wide_literals``: literals without the `f` that a float expression should have.
    """
    parts = [_dressed(rng, term, ctype, wide_literals) for term in terms]
    rng.shuffle(parts)
    whole = parts[0]
    for part in parts[1:]:
        whole = f"{whole} {rng.choice(['+', '-', '*', '+'])} {part}"
    if len(parts) > 1 and rng.random() < 0.3:
        whole = f"({whole}) * {literal(rng, ctype, wide_literals)}"
    if ctype != "int" and rng.random() < 0.25:
        whole = f"{_function(rng, ctype)}({whole})"
    return whole


def literal(rng: random.Random, ctype: str, wide: bool = False) -> str:
    if ctype == "int":
        return str(rng.randrange(2, 12))
    value = rng.choice(["0.5", "0.25", "2.0", "1.5", "3.0", "0.75", "4.0", "0.125", "1.25"])
    return value if ctype == "double" or wide else value + "f"


def _function(rng: random.Random, ctype: str) -> str:
    name = rng.choice(["tanh", "sin", "cos", "fabs"])
    return name + ("f" if ctype == "float" else "")


def _dressed(rng: random.Random, term: str, ctype: str, wide: bool) -> str:
    number = literal(rng, ctype, wide)
    if ctype == "int":
        forms = [term, f"{number} * {term}", f"({term} + {number})", f"({term} ^ {number})", f"max({term}, {number})"]
        return rng.choice(forms)
    end = "f" if ctype == "float" else ""
    forms = [
        term,
        f"{number} * {term}",
        f"{term} * {number}",
        f"({term} + {number})",
        f"{term} * {term}",
        f"fmax{end}({term}, {literal(rng, ctype)})",
        f"sqrt{end}(fabs{end}({term}) + {literal(rng, ctype)})",
        f"exp{end}(-fabs{end}({term}))",
        f"({number} - {term})",
    ]
    return rng.choice(forms)

"""A formula's expressions as CUDA text and as NumPy values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from optiml_core.synthesis.formulas import (
    Call,
    Choice,
    Expression,
    Fold,
    Load,
    Name,
    Number,
    Operation,
    folds_in,
    parts_of,
    with_parts,
)

Values = npt.NDArray[Any]
LoadText = Callable[[Load], str]
LoadValues = Callable[[Load, Mapping[str, Any]], Values]


def _rsqrt(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


def _erf(x: Any) -> Any:
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(x)


# function: (CUDA name in double; the float form has an f behind it, NumPy)
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "exp": ("exp", np.exp), "log": ("log", np.log), "sqrt": ("sqrt", np.sqrt), "sin": ("sin", np.sin),
    "cos": ("cos", np.cos), "tan": ("tan", np.tan), "tanh": ("tanh", np.tanh), "sinh": ("sinh", np.sinh),
    "cosh": ("cosh", np.cosh), "abs": ("fabs", np.abs), "max": ("fmax", np.fmax), "min": ("fmin", np.fmin),
    "pow": ("pow", np.power), "floor": ("floor", np.floor), "ceil": ("ceil", np.ceil), "atan": ("atan", np.arctan),
    "asin": ("asin", np.arcsin), "acos": ("acos", np.arccos), "log2": ("log2", np.log2), "log10": ("log10", np.log10),
    "log1p": ("log1p", np.log1p), "expm1": ("expm1", np.expm1), "erf": ("erf", _erf), "cbrt": ("cbrt", np.cbrt),
    "rsqrt": ("rsqrt", _rsqrt), "exp2": ("exp2", np.exp2),
}  # fmt: skip
INTEGER_FUNCTIONS = {"abs": "abs", "max": "max", "min": "min"}
COMPARE = {
    "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def index_text(value: Expression) -> str:
    """An index as C++ text. Raises ValueError for what no index may hold."""
    if isinstance(value, Number) and value.text.isdigit():
        return value.text
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Load):
        return f"{value.array}[{', '.join(index_text(one) for one in value.indices)}]"
    if isinstance(value, Operation) and value.operator in "+-*" and len(value.operands) == 2:
        left, right = (index_text(one) for one in value.operands)
        if value.operator == "*":
            grouped = [f"({t})" if " " in t else t for t in (left, right)]
            return " * ".join(grouped)
        right = f"({right})" if isinstance(value.operands[1], Operation) and value.operator == "-" else right
        return f"{left} {value.operator} {right}"
    raise ValueError("no index")


def number_text(text: str, ctype: str) -> str:
    """A number of the text as a literal of ``ctype``."""
    plain = text if ctype == "int" or "." in text or "e" in text.lower() else text + ".0"
    return plain + ("f" if ctype == "float" else "")


def value_text(value: Expression, ctype: str, load: LoadText) -> str:
    """An expression as C++ text computed in ``ctype``; ``load`` prints an element. Folds must be hoisted before."""
    if isinstance(value, Number):
        return number_text(value.text, ctype)
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Load):
        return load(value)
    texts = [value_text(one, ctype, load) for one in parts_of(value)]
    if isinstance(value, Fold):
        return f"{value.operator} over {value.index} of ({texts[0]})"  # for people
    if isinstance(value, Choice):
        return f"({texts[0]} {value.operator} {texts[1]} ? {texts[2]} : {texts[3]})"
    if isinstance(value, Call):
        if ctype == "int":
            return f"{INTEGER_FUNCTIONS.get(value.function, value.function)}({', '.join(texts)})"
        return f"{FUNCTIONS[value.function][0]}{'f' if ctype == 'float' else ''}({', '.join(texts)})"
    assert isinstance(value, Operation)
    if value.operator == "neg":
        return f"-({texts[0]})" if isinstance(value.operands[0], Operation) else f"-{texts[0]}"
    if value.operator == "^":
        if value.operands[1] == Number("2"):
            base = f"({texts[0]})" if isinstance(value.operands[0], Operation) else texts[0]
            return f"{base} * {base}"
        return f"pow{'f' if ctype == 'float' else ''}({texts[0]}, {texts[1]})"
    grouped = [
        f"({text})" if _needs_brackets(value.operator, part, place) else text
        for place, (text, part) in enumerate(zip(texts, value.operands, strict=True))
    ]
    return f"{grouped[0]} {value.operator} {grouped[1]}"


def _needs_brackets(operator: str, part: Expression, place: int) -> bool:
    if not isinstance(part, Operation):
        return False
    if part.operator == "neg":
        return place == 1
    if operator in "*/%":
        return part.operator in "+-" or place == 1 or (part.operator == "^" and operator != "*")
    return place == 1 and operator == "-" and part.operator in "+-"


@frozen
class Hoisted:
    """Folds of an expression as loops before it: ``lines`` compute what ``value`` then names."""

    lines: str
    value: Expression


def hoist(value: Expression, ctype: str, load: LoadText, indent: str = "  ", first: int = 0) -> Hoisted:
    """Every fold becomes a loop that fills ``folded0``, ``folded1`` ..., inner ones inside the outer loop."""
    if isinstance(value, Fold):
        inner = hoist(value.body, ctype, load, indent + "  ", first + 1)
        name, text = f"folded{first}", value_text(inner.value, ctype, load)
        ends = {"float": "f", "double": ""}.get(ctype)
        if value.operator == "sum":
            start, join = {"float": "0.0f", "double": "0.0"}.get(ctype, "0"), f"{name} += {text};"
        else:
            call = value.operator if ends is None else f"f{value.operator}{ends}"
            low = value.operator == "max"
            start = ("-INFINITY" if low else "INFINITY") if ends is not None else (
                "-2147483647 - 1" if low else "2147483647")  # fmt: skip
            join = f"{name} = {call}({name}, {text});"
        loop = f"for (int {value.index} = 0; {value.index} < {value.extent}; {value.index}++) {{"
        lines = f"{indent}{ctype} {name} = {start};\n{indent}{loop}\n{inner.lines}{indent}  {join}\n{indent}}}\n"
        return Hoisted(lines, Name(name))
    if isinstance(value, Load) or not parts_of(value):
        return Hoisted("", value)
    lines, parts = "", []
    for part in parts_of(value):
        one = hoist(part, ctype, load, indent, first)
        first += len(folds_in(part))
        lines += one.lines
        parts.append(one.value)
    return Hoisted(lines, with_parts(value, tuple(parts)))


def evaluate(value: Expression, names: Mapping[str, Any], load: LoadValues) -> Any:
    """The expression's values by NumPy in the widest types; ``load`` gives the elements of a Load."""
    if isinstance(value, Number):
        return int(value.text) if value.text.isdigit() else float(value.text)
    if isinstance(value, Name):
        return names[value.name]
    if isinstance(value, Load):
        return load(value, names)
    if isinstance(value, Fold):
        extent = int(value.extent) if value.extent.isdigit() else int(names[value.extent])
        terms = (evaluate(value.body, {**names, value.index: np.asarray(k)}, load) for k in range(extent))
        total = next(terms)
        join = {"sum": np.add, "max": np.fmax, "min": np.fmin}[value.operator]
        for term in terms:
            total = join(total, term)
        return total
    parts = [evaluate(one, names, load) for one in parts_of(value)]
    if isinstance(value, Choice):
        return np.where(COMPARE[value.operator](parts[0], parts[1]), parts[2], parts[3])
    if isinstance(value, Call):
        return FUNCTIONS[value.function][1](*parts)
    assert isinstance(value, Operation)
    return _combined(value.operator, parts)


def _combined(operator: str, parts: list[Any]) -> Any:
    if operator == "neg":
        return -parts[0]
    left, right = parts
    if operator == "^":
        return np.asarray(left) ** right
    if operator == "%":
        return np.fmod(left, right)  # the sign of the left operand, as in C
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left / right

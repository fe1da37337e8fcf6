"""Recipes for element-wise work said in English: axpy, scale, add, multiply, apply a function, copy, fill."""

from __future__ import annotations

import re
from collections.abc import Mapping

from optiml_core.synthesis.drafting import Missing
from optiml_core.synthesis.formula_recipes import draft_of
from optiml_core.synthesis.formulas import Call, Expression, Fold, Formula, Load, Name, Number, Operation
from optiml_core.synthesis.grammar import Found
from optiml_core.synthesis.reading import Reading, noun, type_named
from optiml_core.synthesis.records import Draft

OPERATIONS = (
    "axpy", "scale", "add value", "divide value", "pair", "add two", "apply", "copy", "fill", "clamp", "add to rows",
    "reverse", "vector distance", "mean squared error",
)  # fmt: skip
SIGNS = {"add": "+", "subtract": "-", "divide": "/", "multiply": "*", "sum": "+", "addition": "+", "difference": "-",
         "product": "*", "multiplication": "*", "quotient": "/"}  # fmt: skip
SPOKEN = {"square root": "sqrt", "exponential": "exp", "absolute value": "abs", "logarithm": "log"}


def phrase(reading: Reading) -> Draft:
    """``Scale x by alpha and add it to y``, ``add a and b``, ``apply tanh to x``, ``copy x``, ``fill x with 0``."""
    if len(reading.operations) != 1:
        raise Missing("Which of the operations is wanted? One kernel does one.")
    (name,) = reading.operations
    found = reading.op(name)
    assert found is not None
    reading.mark("elementwise")
    groups = found.groups
    value: Expression
    if name == "axpy":
        reading.mark("title")
        (x,), (y,) = _arrays(reading, found, "1", 1), _arrays(reading, found, "2", 1)
        value = Operation("+", (Operation("*", (_value(reading, groups), Name(x))), Name(y)))
        return _drafted(reading, y, value, [x, y], "axpy")
    if name == "scale":
        (x,) = _arrays(reading, found, "1", 1)
        by = _value(reading, groups)
        known = reading.declared.get(groups["value"])
        if known is not None and known.shape is not None:
            raise Missing(f"`{groups['value']}` is an array; element by element, or a matrix product?")
        return _drafted(reading, _target(reading, x), Operation("*", (by, Name(x))), [x], "scale")
    if name in ("add value", "divide value"):
        (x,) = _arrays(reading, found, "1", 1)
        verb = groups.get("verb", "divide").lower()
        if (verb == "add") == (" from " in found.text) and verb != "divide":
            raise Missing(f"Is the number added, or taken off: `{found.text}`?")
        value = Operation(SIGNS[verb], (Name(x), _value(reading, groups)))
        return _drafted(reading, _target(reading, x), value, [x], "map")
    if name == "clamp":
        (x,) = _arrays(reading, found, "1", 1)
        low, high = (_value(reading, {"value": groups.get(end) or groups[end + "2"]}) for end in ("low", "high"))
        value = Call("min", (Call("max", (Name(x), low)), high))
        return _drafted(reading, _target(reading, x), value, [x], "map")
    if name == "add to rows":
        return _added_to_rows(reading, found)
    if name == "reverse":
        (x,) = _arrays(reading, found, "1", 1)
        shape = reading.shape_of(x) or ()
        if len(shape) != 1:
            raise Missing(f"Along which axis is `{x}` reversed, and how long is it?")
        if reading.output in (None, x):
            raise Missing(f"I reverse into another array than `{x}`; into which?")
        last = Operation("-", (Operation("-", (Name(shape[0]), Number("1"))), Name("i")))
        into = reading.output or "out"
        reading.add(into, None, shape, True)
        return draft_of(reading, Formula(into, (Name("i"),), Load(x, (last,)), 0, 0), "reverse")
    if name in ("vector distance", "mean squared error"):
        return _distance(reading, found, name)
    if name in ("pair", "add two"):
        return _pair(reading, found)
    if name == "apply":
        return _applied(reading, found)
    (x,) = _arrays(reading, found, "1", 1)
    if name == "copy":
        target = groups.get("target") or reading.output
        if target is None or target == x:
            raise Missing(f"Where should `{x}` be copied to?")
        return _drafted(reading, target, Name(x), [x], "copy")
    value = _value(reading, groups)
    known = reading.declared.get(x)
    if known is None or known.type is None:
        raise Missing(f"Of which type are the elements of `{x}` (float, double, int)?")
    if known.type == "int" and isinstance(value, Number) and not value.text.isdigit():
        raise Missing(f"`{x}` holds integers; with which integer is it filled?")
    return draft_of(reading, Formula(x, (), value, 0, 0), "fill")


def _added_to_rows(reading: Reading, found: Found) -> Draft:
    """``out[i][j] = x[i][j] + bias[j]``, or ``bias[i]`` for columns."""
    (x,) = _arrays(reading, found, "1", 1)
    shape = reading.shape_of(x) or ()
    if len(shape) != 2:
        raise Missing(f"How many rows and columns has `{x}`?")
    bias = found.groups["bias"]
    axis = 1 if found.groups["axis"].lower() == "row" else 0
    reading.add(bias, type_named(found.groups.get("biastype", "")), (shape[axis],), True)
    target = _target(reading, x)
    reading.add(target, None, shape, True)
    places = (Name("row"), Name("col"))
    value = Operation("+", (Load(x, places), Load(bias, (places[axis],))))
    return draft_of(reading, Formula(target, places, value, 0, 0), "map")


def _distance(reading: Reading, found: Found, name: str) -> Draft:
    """The distance of two vectors, or the mean of their squared differences."""
    a, b = _arrays(reading, found, "1", 2)
    shape = reading.shape_of(a) or reading.shape_of(b)
    if shape is None or len(shape) != 1:
        raise Missing(f"How long are `{a}` and `{b}`?")
    for one in (a, b):
        reading.add(one, None, shape, True)
    i = Name("i")
    squared = Operation("^", (Operation("-", (Load(a, (i,)), Load(b, (i,)))), Number("2")))
    value: Expression = Fold("sum", "i", squared)
    if name == "mean squared error":
        value = Operation("/", (value, Name(shape[0]) if not shape[0].isdigit() else Number(shape[0])))
    elif not found.groups.get("squared"):
        value = Call("sqrt", (value,))
    return draft_of(reading, Formula(reading.output or "out", (), value, 0, 0), name)


def _pair(reading: Reading, found: Found) -> Draft:
    groups = found.groups
    if groups.get("noun"):
        names = _arrays(reading, found, "4", 2)
        word = groups["noun"].lower()
    elif found.kind == "op:add two":
        names, word = _arrays(reading, found, "3", 2), "add"
    else:
        names = [*_arrays(reading, found, "1", 1), *_arrays(reading, found, "2", 1)]
        word, by = groups["verb"].lower(), groups["by"].lower()
        if by not in {"add": ("and", "to", "with"), "subtract": ("from",), "divide": ("by",)}[word]:
            raise Missing(f"Which of `{names[0]}` and `{names[1]}` comes first in `{found.text}`?")
        if word == "subtract":
            names.reverse()
    left, right = (Name(one) for one in names)
    value: Expression
    is_extreme = word in ("maximum", "minimum")
    value = Call(word[:3], (left, right)) if is_extreme else Operation(SIGNS[word], (left, right))
    target = reading.output
    if target is None:
        if groups.get("by", "").lower() in ("to", "from") or reading.mark("in place") is not None:
            raise Missing("Where does the result go: into a new array, or in place?")
        target = "out"
    return _drafted(reading, target, value, names, "map")


def _applied(reading: Reading, found: Found) -> Draft:
    groups = found.groups
    (x,) = _arrays(reading, found, "2" if groups.get("function2") else "1", 1)
    word = (groups.get("function") or groups.get("function2") or "").lower()
    name = SPOKEN.get(word, word)
    value: Expression
    if name == "square":
        value = Operation("^", (Name(x), Number("2")))
    elif name in ("negate", "negation"):
        value = Operation("neg", (Name(x),))
    elif name == "reciprocal":
        value = Operation("/", (Number("1"), Name(x)))
    else:
        name = name[:-1] if name.endswith("f") and name != "erf" else name
        value = Call({"ln": "log", "fabs": "abs"}.get(name, name), (Name(x),))
    return _drafted(reading, _target(reading, x), value, [x], "map")


def _arrays(reading: Reading, found: Found, suffix: str, count: int) -> list[str]:
    names = noun(reading, found, suffix)
    if len(names) != count:
        raise Missing(f"Which {'array is' if count == 1 else f'{count} arrays are'} meant in `{found.text}`?")
    return names


def _value(reading: Reading, words: Mapping[str, str]) -> Expression:
    """The number or the named number of an operation."""
    text = re.sub(r"^(?:the )?(?:scalar|constant) ", "", words["value"], flags=re.IGNORECASE)
    if re.match(r"[-\d.]", text):
        if words.get("valuetype"):
            raise Missing(f"Is {text} of another type ({words['valuetype']}) than the elements?")
        plain = text.removeprefix("- ")
        number = Number(plain)
        try:
            float(plain)
        except ValueError:
            raise Missing(f"What number is `{text}`?") from None
        return Operation("neg", (number,)) if text.startswith("-") else number
    ctype = type_named(words.get("valuetype", ""))
    reading.scalars.setdefault(text, ctype)
    return Name(text)


def _target(reading: Reading, source: str) -> str:
    """Where the result goes: the array that is named, or the source itself where ``in place`` is said."""
    named = reading.output
    if named is not None:
        return named
    if reading.mark("in place") is not None:
        return source
    raise Missing(f"Where does the result go: into a new array (`into y`), or in place of `{source}`?")


def _drafted(reading: Reading, target: str, value: Expression, arrays: list[str], pattern: str) -> Draft:
    shape = next((s for name in arrays if (s := reading.shape_of(name))), reading.shape_of(target))
    if shape is None and reading.length is not None:
        shape = (reading.length,)
    if shape is None:
        raise Missing(f"How long is `{arrays[0]}` (`n floats in {arrays[0]}`)?")
    for name in dict.fromkeys([*arrays, target]):
        reading.add(name, None, shape, True)
    return draft_of(reading, Formula(target, (), value, 0, 0), pattern)

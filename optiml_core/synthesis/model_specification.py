"""A model's reading of a description: data in JSON and one formula in our closed language, never code.

The reference is a formula of ``formulas.py``, read by our parser and evaluated by our NumPy code; the tests are arrays.
A reading whose reference contradicts its own tests is refused. That it is the wrong reading cannot be found here:
the specification is shown, with the model's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from optiml_core.records import Failure
from optiml_core.synthesis.formula_recipes import draft_of
from optiml_core.synthesis.formulas import read_formula
from optiml_core.synthesis.grammar import Cover, Found
from optiml_core.synthesis.reading import Declared, Missing, Reading
from optiml_core.synthesis.records import TYPES, Array, Draft, dtype_of

MOST_PARAMETERS = 16
MOST_NUMBERS = 4096
LONGEST_FORMULA = 600
MOST_TESTS = 8
IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,39}")
EDGES = {"none": "", "zero": "zero outside", "clamp": "clamp", "copy": "copy"}
SPECIFICATION_FORM = """\
{"parameters": [{"name": "x", "type": "float", "shape": ["rows", "cols"]}, {"name": "alpha", "type": "float"}],
 "formula": "y[i][j] = alpha * x[i][j] - max over k of x[i][k]", "edge": "none",
 "tests": [{"sizes": {"rows": 1, "cols": 2}, "scalars": {"alpha": 2.0}, "inputs": {"x": [1.0, 3.0]},
            "output": [-1.0, 3.0]}]}
Types: float, double, int. Parameters are the arrays, the result included, and numbers (no shape); sizes are the names
in the shapes. The formula gives one array: + - * / %, numbers, functions (exp log sqrt sin cos tanh abs max min pow),
`c < d ? e : f`, elements with indices, index arrays (`x[idx[i]]`), and `sum|max|min over k of (...)`. `edge` is what an
index outside an array means: none, zero, clamp or copy."""


def read_specification(value: Mapping[str, Any]) -> Draft | Failure:
    """The specification in a model's JSON, with the plain kernel that our own recipe makes of its formula."""
    parameters = value.get("parameters")
    if not isinstance(parameters, list) or not 1 <= len(parameters) <= MOST_PARAMETERS:
        return Failure("bad-answer", f"`parameters` must be a list of at most {MOST_PARAMETERS} objects")
    edge = value.get("edge", "none")
    if not isinstance(edge, str) or edge not in EDGES:
        return Failure("bad-answer", f"`edge` must be one of {', '.join(EDGES)}")
    text = value.get("formula")
    if not isinstance(text, str) or len(text) > LONGEST_FORMULA:
        return Failure("bad-answer", f"`formula` must be a text of at most {LONGEST_FORMULA} characters")
    formula = read_formula(text)
    if formula is None:
        return Failure("bad-answer", "`formula` is not one formula of the closed language")
    reading = Reading([], Cover((), ()), formulas=[formula], outputs=[formula.target])
    for one in parameters:
        problem = _parameter(reading, one)
        if problem is not None:
            return problem
    if EDGES[edge]:
        reading.marks[EDGES[edge]] = Found("mark", 0, 0, {}, edge)
    try:
        draft = draft_of(reading, formula, "map")
    except Missing as missing:
        return Failure("bad-answer", f"the formula is not complete: {missing}")
    made = {one.name for one in draft.specification.parameters}
    unused = [name for name in (*reading.declared, *reading.scalars) if name not in made]
    if unused:
        return Failure("bad-answer", f"the formula does not use {', '.join(unused)}")
    return _agrees_with_tests(draft, value.get("tests")) or draft


def _parameter(reading: Reading, one: Any) -> Failure | None:
    if not isinstance(one, dict):
        return Failure("bad-answer", "a parameter must be an object")
    name, ctype, shape = one.get("name"), one.get("type"), one.get("shape") or []
    if not isinstance(name, str) or IDENTIFIER.fullmatch(name) is None:
        return Failure("bad-answer", "a parameter's name must be an identifier of at most 40 characters")
    if not isinstance(ctype, str) or ctype not in TYPES:
        return Failure("bad-answer", f"the type of {name} must be one of {', '.join(TYPES)}")
    if not isinstance(shape, list) or len(shape) > 4:
        return Failure("bad-answer", f"the shape of {name} must be a list of at most 4 extents")
    extents = [str(extent) for extent in shape]
    if not all(IDENTIFIER.fullmatch(extent) or re.fullmatch(r"[1-9]\d{0,5}", extent) for extent in extents):
        return Failure("bad-answer", f"the extents of {name} must be names or numbers")
    if name in reading.declared or name in reading.scalars:
        return Failure("bad-answer", f"{name} is declared twice")
    if extents:
        reading.declared[name] = Declared(name, ctype, tuple(extents), True, False)
    else:
        reading.scalars[name] = ctype
    return None


def _agrees_with_tests(draft: Draft, tests: Any) -> Failure | None:
    if tests is None or tests == []:
        return None
    if not isinstance(tests, list) or len(tests) > MOST_TESTS:
        return Failure("bad-answer", f"`tests` must be a list of at most {MOST_TESTS} objects")
    for number, test in enumerate(tests, 1):
        problem = _test_problem(draft, test)
        if problem:
            return Failure("bad-answer", f"test {number}: {problem}")
    return None


def _test_problem(draft: Draft, test: Any) -> str:
    if not isinstance(test, dict):
        return "is no object"
    names: dict[str, int | float] = {}
    for group, least in (("sizes", 1), ("scalars", None)):
        given = test.get(group) or {}
        if not isinstance(given, dict) or not all(_is_number(one) for one in given.values()):
            return f"`{group}` must hold numbers"
        if least is not None and not all(
            isinstance(one, int) and least <= one <= MOST_NUMBERS for one in given.values()
        ):
            return "sizes must be whole and small"
        names |= given
    inputs = test.get("inputs") or {}
    if not isinstance(inputs, dict):
        return "`inputs` must be an object"
    arrays: dict[str, Array] = {}
    output = None
    for one in draft.specification.parameters:
        if not one.is_array:
            if one.name not in names:
                return f"{one.name} has no value"
            continue
        shape = [int(names[e]) if e in names else int(e) if e.isdigit() else 0 for e in one.shape]
        if one.role != "input":
            output = (one, shape)
        if one.role in ("input", "in-out"):
            values = _array(inputs.get(one.name), one.type, shape)
            if isinstance(values, str):
                return f"{one.name} {values}"
            arrays[one.name] = values
    assert output is not None
    wanted = _array(test.get("output"), output[0].type, output[1])
    if isinstance(wanted, str):
        return f"the output {wanted}"
    try:
        with np.errstate(all="ignore"):
            (found,) = draft.compute(arrays, names).values()
    except (IndexError, ValueError, KeyError, OverflowError) as error:
        return f"the formula cannot be evaluated: {error}"
    if not np.allclose(
        np.asarray(found, np.float64).reshape(-1), wanted.reshape(-1), rtol=1e-3, atol=1e-3, equal_nan=True
    ):
        return "the formula gives another output than the test says"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _array(value: Any, ctype: str, shape: list[int]) -> Array | str:
    flat: list[Any] = [value]
    while any(isinstance(one, list) for one in flat):
        flat = [inner for one in flat for inner in (one if isinstance(one, list) else [one])]
        if len(flat) > MOST_NUMBERS:
            return f"has more than {MOST_NUMBERS} numbers"
    if not all(_is_number(one) for one in flat):
        return "must be numbers"
    if len(flat) != math.prod(shape):
        return f"has {len(flat)} numbers, not {math.prod(shape)}"
    wide = np.float64 if dtype_of(ctype).kind == "f" else np.int64
    return np.asarray(flat, dtype=wide).reshape(shape)

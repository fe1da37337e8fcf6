"""Recipes for formulas: maps, fused maps, gathers and stencils over one or two indices; and English for short ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    guarded_index,
    line_grid,
    sizes_of,
    vector_shape,
)
from optiml_core.synthesis.formulas import (
    FUNCTIONS,
    INTEGER_FUNCTIONS,
    Call,
    Expression,
    Formula,
    Load,
    Name,
    Number,
    Operation,
    evaluate,
    index_text,
    loads_in,
    names_in,
    offset_of,
    parts_of,
    value_text,
)
from optiml_core.synthesis.reading import NAME, Reading
from optiml_core.synthesis.records import Array, Draft, Specification, SpecificationParameter

ZERO = r"outside(?: \w+)* (?:zero|0)|zero (?:boundary|boundaries|padding)|zero outside"
COPY = r"(?:boundary|border|edge) \w+ (?:are|is|stay|remain)(?: \w+)? (?:copied|unchanged)|copy the (?:boundary|border)"
CLAMP = r"clamp(?:ed)?|nearest|repeat(?:ed)? (?:the )?(?:edge|border)"


def map_draft(reading: Reading, formula: Formula, pattern: str = "map") -> Draft:
    """One thread per element of the result."""
    indices = _result_indices(reading, formula)
    value = _spelled_out(reading, formula.value, indices)
    target = formula.target
    loads = loads_in(value)
    gathers = {index.array for load in loads for index in load.indices if isinstance(index, Load)}
    shape = _shape_of_result(reading, target, loads, indices)
    reads = {load.array for load in loads}
    scalars = sorted(names_in(value) - reads - set(indices) - set(shape))
    parameters = [_input(reading, name, shape, name in gathers, loads) for name in _in_order(reading, reads - {target})]
    types = {one.type for one in parameters if one.name not in gathers} or {reading.type_of(target) or "float"}
    ctype = "double" if "double" in types else "float" if "float" in types else "int"
    if ctype == "int" and _divides(value):
        raise Missing("Should the division of integers drop the remainder, or are the elements floats?")
    if ctype == "int" and not _functions(value) <= set(INTEGER_FUNCTIONS):
        raise Missing("The elements are integers; should the result be float or double?")
    if target in reads:
        for load in loads:
            if load.array == target and tuple(load.indices) != tuple(Name(i) for i in indices):
                raise Missing(f"`{target}` is read at other places than it is written; where should the result go?")
    role = "in-out" if target in reads else "output"
    declared = reading.declared.get(target)
    parameters.append(array(reading, target, shape, role, (declared.type if declared else None) or ctype))
    for name in scalars:
        if name not in reading.declared and name not in ("alpha", "beta", "a", "b", "c", "s"):
            raise Missing(f"What is `{name}`: an array (how long?) or a number?")
        parameters.append(SpecificationParameter(name, reading.type_of(name) or ctype, "scalar", (), "", "1.5"))
    parameters += sizes_of([shape, *(one.shape for one in parameters)])
    shifted = [load for load in loads if any((offset_of(i) or ("", 0))[1] for i in load.indices)]
    rule = _edge_rule(reading) if shifted else ""
    by_name = {one.name: one for one in parameters}

    def load_text(load: Load) -> str:
        return _load_text(load, by_name[load.array].shape, ctype, rule if load in shifted else "")

    text = value_text(value, ctype, load_text)
    where = _linear(indices, shape)
    body = _index_lines(indices, shape)
    if rule == "copy":
        inside = _inside_tests(shifted, by_name)
        same = load_text(Load(shifted[0].array, tuple(Name(i) for i in indices)))
        body += f"  const bool interior = {' && '.join(inside)};\n  {target}[{where}] = interior ? {text} : {same};\n"
    else:
        body += f"  {target}[{where}] = {text};\n"

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> dict[str, Array]:
        extents = [int(names[e]) if e in names else int(e) for e in shape]
        grids = dict(zip(indices, np.indices(extents), strict=True))

        def values(load: Load) -> Array:
            return _elements(load, arrays, grids, rule)

        result = np.broadcast_to(np.asarray(evaluate(value, {**names, **grids}, values)), extents).copy()
        if rule == "copy":
            interior = np.ones(extents, bool)
            for load in shifted:
                for index, extent in zip(load.indices, arrays[load.array].shape, strict=True):
                    place = evaluate(index, grids, values)
                    interior &= (place >= 0) & (place < extent)
            result = np.where(interior, result, arrays[shifted[0].array])
        return {target: result}

    rules = {"zero": "elements outside count as zero", "copy": "points without all neighbours are copied",
             "clamp": "outside counts as the nearest element", "": "none needed"}  # fmt: skip
    specification = Specification(
        f"{pattern.replace(' ', '_')}_{target}".lower(),
        pattern if not shifted else "stencil",
        tuple(parameters),
        f"{target}[{', '.join(indices)}] = {value_text(value, 'int', lambda load: _plain(load))}",
        (rules[rule], INDEX_LIMIT),
    )
    if len(shape) == 2:
        return Draft(specification, body, (f"ceil_div({shape[1]}, 32)", f"ceil_div({shape[0]}, 8)"), (32, 8), compute)
    return Draft(specification, body, line_grid(shape[0]), (256,), compute)


def _plain(load: Load) -> str:
    return f"{load.array}[{', '.join(index_text(one) for one in load.indices)}]"


def _result_indices(reading: Reading, formula: Formula) -> tuple[str, ...]:
    if formula.indices:
        plain = [one.name for one in formula.indices if isinstance(one, Name)]
        if len(plain) != len(formula.indices) or len(plain) > 2:
            raise Missing(f"Write the left side as `{formula.target}[i]` or `{formula.target}[i][j]`.")
        return tuple(plain)
    read = [reading.shape_of(name) for name in names_in(formula.value)] + [reading.shape_of(formula.target)]
    return ("row", "col") if any(shape is not None and len(shape) == 2 for shape in read) else ("i",)


def _spelled_out(reading: Reading, value: Expression, indices: tuple[str, ...]) -> Expression:
    """Whole arrays in a formula become their elements at the result's indices."""
    if isinstance(value, Name):
        if value.name in indices:
            return value
        shape = reading.shape_of(value.name)
        if shape is None:
            return value
        if len(shape) != len(indices):
            raise Missing(f"How does `{value.name}` go with a result of {len(indices)} dimensions?")
        return Load(value.name, tuple(Name(one) for one in indices))
    if isinstance(value, Load):
        return value
    parts = tuple(_spelled_out(reading, one, indices) for one in parts_of(value))
    if isinstance(value, Operation):
        return Operation(value.operator, parts)
    return Call(value.function, parts) if isinstance(value, Call) else value


def _shape_of_result(reading: Reading, target: str, loads: list[Load], indices: tuple[str, ...]) -> tuple[str, ...]:
    for name in [target, *(load.array for load in loads if all(offset_of(i) for i in load.indices))]:
        shape = reading.shape_of(name)
        if shape is not None and len(shape) == len(indices):
            return shape
    found = reading.search(rf"{indices[0]} of (?P<size>\w+) \w+")
    if found is not None:
        return (found["size"],)
    if len(indices) == 2:
        raise Missing(f"How many rows and columns has `{target}`? Write `{target} (rows x cols)`.")
    return (reading.length or "n",)


def _in_order(reading: Reading, names: set[str]) -> list[str]:
    return sorted(names, key=lambda name: reading.tokens.index(name))


def _input(
    reading: Reading, name: str, shape: tuple[str, ...], is_index: bool, loads: list[Load]
) -> SpecificationParameter:
    dimensions = len(next((load.indices for load in loads if load.array == name), ("",)))
    known = reading.shape_of(name) or (shape if dimensions == len(shape) else None)
    if known is None or len(known) != dimensions:
        raise Missing(f"How long is `{name}`?")
    if not is_index:
        return array(reading, name, known)
    user = next(load for load in loads if any(isinstance(i, Load) and i.array == name for i in load.indices))
    extent = vector_shape(reading, user.array)[0]
    content = f"permutation({extent})" if reading.says("permutation") and known[0] == extent else f"index({extent})"
    declared = reading.declared.get(name)
    integer = declared.type if declared is not None and declared.type == "int" else "int"
    return array(reading, name, known, "input", integer, content)


def _divides(value: Expression) -> bool:
    return (isinstance(value, Operation) and value.operator == "/") or any(_divides(one) for one in parts_of(value))


def _functions(value: Expression) -> set[str]:
    own = {value.function} if isinstance(value, Call) else set()
    return own.union(*(_functions(one) for one in parts_of(value)))


def _edge_rule(reading: Reading) -> str:
    for rule, pattern in (("zero", ZERO), ("copy", COPY), ("clamp", CLAMP)):
        if reading.says(pattern):
            return rule
    raise Missing("What counts outside the array: zero, the nearest element, or are such points copied?")


def _index_lines(indices: tuple[str, ...], shape: tuple[str, ...]) -> str:
    if len(indices) == 1:
        return guarded_index(shape[0], indices[0])
    row, col = indices
    return (
        f"  const int {col} = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  const int {row} = blockIdx.y * blockDim.y + threadIdx.y;\n"
        f"  if ({row} >= {shape[0]} || {col} >= {shape[1]}) return;\n"
    )


def _linear(indices: tuple[str, ...], shape: tuple[str, ...]) -> str:
    if len(indices) == 1:
        return indices[0]
    first = f"({indices[0]})" if " " in indices[0] else indices[0]
    return f"{first} * {shape[1]} + {indices[1]}"


def _load_text(load: Load, shape: tuple[str, ...], ctype: str, rule: str) -> str:
    places = tuple(index_text(one) for one in load.indices)
    if rule == "clamp":
        places = tuple(f"min(max({p}, 0), {e} - 1)" for p, e in zip(places, shape, strict=True))
    plain = f"{load.array}[{_linear(places, shape)}]"
    if rule != "zero":
        return plain
    tests = _tests(load, shape)
    zero = {"float": "0.0f", "double": "0.0"}.get(ctype, "0")
    return f"({' && '.join(tests)} ? {plain} : {zero})"


def _tests(load: Load, shape: tuple[str, ...]) -> list[str]:
    tests = []
    for index, extent in zip(load.indices, shape, strict=True):
        offset = (offset_of(index) or ("", 0))[1]
        if offset < 0:
            tests.append(f"{index_text(index)} >= 0")
        elif offset > 0:
            tests.append(f"{index_text(index)} < {extent}")
    return tests


def _inside_tests(shifted: list[Load], by_name: Mapping[str, SpecificationParameter]) -> list[str]:
    return list(dict.fromkeys(test for load in shifted for test in _tests(load, by_name[load.array].shape)))


def _elements(load: Load, arrays: Mapping[str, Array], grids: Mapping[str, Array], rule: str) -> Array:
    values = arrays[load.array]
    places, inside = [], np.asarray(True)
    for index, extent in zip(load.indices, values.shape, strict=True):
        place = np.asarray(evaluate(index, grids, lambda inner: _elements(inner, arrays, grids, "")))
        inside = inside & (place >= 0) & (place < extent)
        places.append(np.clip(place, 0, extent - 1))
    found: Any = values[tuple(places)]
    return np.asarray(np.where(inside, found, 0) if rule == "zero" else found)


def formula_recipe(reading: Reading) -> Draft | None:
    """A description that carries its formula."""
    if len(reading.formulas) > 1:
        raise Missing("I read more than one formula; which one should be computed first?")
    return map_draft(reading, reading.formulas[0]) if reading.formulas else None


OPERATIONS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def phrase_recipe(reading: Reading) -> Draft | None:
    """``Scale x by alpha and add it to y``, ``multiply x by s``, ``add a and b``, ``apply tanh to x``."""
    the = r"(?:the )?(?:vectors? |arrays? |\w+ floats (?:of|in) |each (?:element )?of |elements of )*"
    scaled = reading.search(
        rf"(?:scale|multiply) {the}{NAME} by (?:the )?(?:float |double |int )?(?P<by>\w+)"
        rf"(?P<add> and add (?:it|the result) to {the}(?P<to>\w+))?"
    )
    if scaled is not None:
        by: Expression = Number(scaled["by"]) if scaled["by"].isdigit() else Name(scaled["by"])
        value: Expression = Operation("*", (by, Name(scaled["name"])))
        target = scaled["to"] or (reading.output or scaled["name"])
        if scaled["add"]:
            value = Operation("+", (value, Name(target)))
        names = [scaled["name"], target]
        if isinstance(by, Name):
            reading.add(by.name, None, None)
        return _phrase(reading, target, value, names, "axpy" if scaled["add"] else "scale")
    pair = reading.search(rf"(?P<verb>add|subtract|multiply|divide) {the}{NAME} (?:and|by|to|from) {the}(?P<other>\w+)")
    if pair is not None:
        left, right = pair["name"], pair["other"]
        if pair["verb"].lower() == "subtract" and f" {left} from " in reading.text:
            left, right = right, left
        value = Operation(OPERATIONS[pair["verb"].lower()], (Name(left), Name(right)))
        return _phrase(reading, reading.output or "out", value, [left, right], "map")
    applied = reading.search(rf"(?:apply )?(?P<function>relu|sigmoid|{'|'.join(FUNCTIONS)}) (?:to|of) .*")
    if applied is not None and len(reading.inputs()) == 1:
        x: Expression = Name(reading.inputs()[0])
        word = applied["function"].lower()
        one = Number("1")
        if word == "relu":
            value = Call("max", (x, Number("0")))
        elif word == "sigmoid":
            value = Operation("/", (one, Operation("+", (one, Call("exp", (Operation("neg", (x,)),))))))
        elif word in ("max", "min", "pow"):
            return None
        else:
            value = Call(word, (x,))
        return _phrase(reading, reading.output or "out", value, [reading.inputs()[0]], "map")
    return None


def _phrase(reading: Reading, target: str, value: Expression, arrays: list[str], pattern: str) -> Draft:
    shape = next((s for name in arrays if (s := reading.shape_of(name))), (reading.length or "n",))
    for name in dict.fromkeys([*arrays, target]):
        reading.add(name, None, shape)
    return map_draft(reading, Formula(target, (), value, 0, 0), pattern)


def average_of_neighbours(reading: Reading) -> Draft | None:
    """A Jacobi step said in English: every point becomes the average of its four (or two) neighbours."""
    found = reading.search(r"average of its (?P<many>four|two|4|2)(?: nearest| direct)? neighbou?rs")
    if found is None:
        return None
    grid = [name for name in reading.inputs() if name != reading.output]
    if len(grid) != 1:
        raise Missing("Which array holds the grid, and how large is it?")
    source, target = grid[0], reading.output or "out"
    becomes = reading.search(r"point of (?P<name>\w+) becomes")
    if becomes is not None and becomes["name"] != source:
        target = becomes["name"]
    shape = reading.shape_of(source) or ()
    four = found["many"] in ("four", "4")
    if len(shape) != (2 if four else 1):
        raise Missing(f"How many rows and columns has `{source}`?")
    reading.add(target, None, shape)
    r, c = Name("row"), Name("col")
    i = Name("i")

    def at(*places: Expression) -> Expression:
        return Load(source, places)

    def moved(index: Expression, operator: str) -> Expression:
        return Operation(operator, (index, Number("1")))

    if four:
        near = [at(moved(r, "-"), c), at(moved(r, "+"), c), at(r, moved(c, "-")), at(r, moved(c, "+"))]
        indices: tuple[Expression, ...] = (r, c)
    else:
        near, indices = [at(moved(i, "-")), at(moved(i, "+"))], (i,)
    total = near[0]
    for one in near[1:]:
        total = Operation("+", (total, one))
    value = Operation("*", (Number("0.25" if four else "0.5"), total))
    return map_draft(reading, Formula(target, indices, value, 0, 0), "stencil")

"""Kernels from formulas: maps, stencils, gathers and scatters, folds (``sum over k of``), up to four dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    block_reduction,
    highest,
    literal,
    lowest,
    only_input,
    output_of,
    sizes_of,
)
from optiml_core.synthesis.element_access import (
    elements,
    index_lines,
    inside_tests,
    linear,
    load_text_of,
    place_text,
    plain_text,
)
from optiml_core.synthesis.formula_planning import Plan, index_names, plan_of, reversed_index
from optiml_core.synthesis.formula_values import INTEGER_FUNCTIONS, LoadText, evaluate, hoist, index_text, value_text
from optiml_core.synthesis.formulas import (
    Expression,
    Fold,
    Formula,
    Load,
    Name,
    Number,
    Operation,
    folds_in,
    loads_in,
    names_in,
    operators_in,
    parts_of,
    with_parts,
)
from optiml_core.synthesis.reading import Reading
from optiml_core.synthesis.records import Array, Draft, Specification, SpecificationParameter

SCALARS = ("alpha", "beta", "gamma", "a", "b", "c", "s", "eps", "dt", "dx", "dy", "lambda_")
RULES = {"zero": "elements outside count as zero", "copy": "points without all neighbours are copied",
         "clamp": "outside counts as the nearest element", "": "none needed"}  # fmt: skip


def formula(reading: Reading) -> Draft:
    """A description that carries its formula."""
    if len(reading.formulas) > 1:
        raise Missing("I read more than one formula; which one should be computed?")
    for harmless in ("elementwise", "in that order", "title"):
        reading.mark(harmless)
    return draft_of(reading, reading.formulas[0])


def draft_of(reading: Reading, given: Formula, pattern: str = "map") -> Draft:
    """One thread for each element of the result (of a scatter: of the source)."""
    plan = plan_of(reading, given)
    loads = [*loads_in(plan.value), *(load for index in plan.place for load in loads_in(index))]
    target, reads = plan.target, {load.array for load in loads_in(plan.value)} | {
        load.array for index in plan.place for load in loads_in(index)}  # fmt: skip
    indexing = {inner.array for load in loads for index in load.indices for inner in loads_in(index)}
    indexing |= {inner.array for index in plan.place for inner in loads_in(index)}
    is_scatter = any(isinstance(one, Load) for one in plan.place)
    parameters = _inputs(reading, plan, loads, reads - {target}, indexing)
    ctype = _compute_type(reading, plan, parameters, indexing)
    _check_operators(plan.value, ctype)
    loops = set(plan.indices) | {fold.index for fold in folds_in(plan.value)}
    if target in reads and any(load.array == target and load.indices != plan.place for load in loads):
        raise Missing(f"`{target}` is read at other places than it is written; where should the result go?")
    shape = _target_shape(reading, plan, is_scatter)
    if is_scatter:
        role, pattern = ("zeroed output" if plan.adds else "output"), "scatter"
        _check_scatter(reading, plan, shape)
    else:
        role = "in-out" if target in reads else "output"
    if reading.mark("in place") is not None and role != "in-out":
        raise Missing(f"In place, but `{target}` is not among what is read; which array is updated?")
    parameters.append(array(reading, target, shape, role, ctype))
    if reading.declared.get(target) and reading.declared[target].type not in (None, ctype):
        raise Missing(f"The result would be {ctype}, but `{target}` is said to be {reading.declared[target].type}?")
    taken = {one.name for one in parameters}
    sizes = sizes_of([plan.extents, *(one.shape for one in parameters), [f.extent for f in folds_in(plan.value)]])
    loose = _added_names(plan.value) if not given.indices else set()
    for name in sorted(names_in(plan.value) - taken - loops - {one.name for one in sizes}):
        is_known = name in reading.scalars or name in reading.declared
        # `c = a + b` may speak of arrays; `a * x` with an array x does not.
        if not is_known and (name not in SCALARS or name in loose or not reads):
            raise Missing(f"What is `{name}`: an array (how long?) or a number?")
        kind = reading.scalars.get(name) or reading.type_of(name) or ctype
        parameters.append(SpecificationParameter(name, kind, "scalar", (), "", "3" if kind == "int" else "1.5"))
    parameters += sizes
    if len({one.name for one in parameters}) != len(parameters):
        raise Missing("One name stands for an array and for a size; which is which?")
    if loops & {one.name for one in parameters}:
        raise Missing("A name is both an index and a parameter; which is it?")
    shapes = {one.name: one.shape for one in parameters}
    limits = dict(zip(plan.indices, plan.extents, strict=True)) | {f.index: f.extent for f in folds_in(plan.value)}
    shifted = [load for load in loads_in(plan.value) if _can_leave(load, shapes[load.array], limits)]
    rule = _edge_rule(reading, bool(folds_in(plan.value))) if shifted else ""

    def load_text(load: Load) -> str:
        return load_text_of(load, shapes, ctype, rule if load in shifted else "", loops)

    outer = _outer_folds(plan.value)
    if not plan.indices_given and len(outer) == 1:
        called = "fold" if pattern == "map" else pattern
        return _one_number(plan, outer[0], parameters, ctype, load_text, shifted, rule, called)
    hoisted = hoist(plan.value, ctype, load_text)
    text = value_text(hoisted.value, ctype, load_text)
    where = linear(tuple(place_text(one, shapes) for one in plan.place), shape)
    body = index_lines(plan.indices, plan.extents) + hoisted.lines
    if rule == "copy":
        inside = list(dict.fromkeys(test for load in shifted for test in inside_tests(load, shapes[load.array], loops)))
        same = load_text(Load(shifted[0].array, tuple(Name(i) for i in plan.indices)))
        body += f"  const bool interior = {' && '.join(inside)};\n  {target}[{where}] = interior ? {text} : {same};\n"
    elif is_scatter and plan.adds:
        body += f"  atomicAdd(&{target}[{where}], {text});\n"
    else:
        body += f"  {target}[{where}] = {text};\n"

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> dict[str, Array]:
        return _computed(plan, shifted, rule, shape, arrays, names)

    kind = pattern if is_scatter or pattern != "map" else _pattern(plan, shifted, indexing)
    rules = [RULES[rule]] + (["the launcher sets the result to zero first"] if role == "zeroed output" else [])
    rules += [f"no two elements of an index array are equal; places of `{target}` that none names stay as they are"] * (
        is_scatter and not plan.adds)  # fmt: skip
    left = f"{target}[{', '.join(index_text(one) for one in plan.place)}]"
    specification = Specification(
        f"{kind.replace(' ', '_')}_{target}".lower(), kind, tuple(parameters),
        f"{left} {'+=' if plan.adds and is_scatter else '='} {value_text(plan.value, 'int', plain_text)}",
        (*rules, INDEX_LIMIT),
    )  # fmt: skip
    if len(plan.extents) == 2:
        rows, cols = plan.extents
        return Draft(specification, body, (f"ceil_div({cols}, 32)", f"ceil_div({rows}, 8)"), (32, 8), compute)
    return Draft(specification, body, (f"ceil_div({' * '.join(plan.extents)}, 256)",), (256,), compute)


def _added_names(value: Expression) -> set[str]:
    """Lone names that are added or subtracted."""
    inner: set[str] = set().union(*(_added_names(one) for one in parts_of(value)))
    if isinstance(value, Operation) and value.operator in "+-":
        return inner | {one.name for one in value.operands if isinstance(one, Name)}
    return inner


def _outer_folds(value: Expression) -> list[Fold]:
    """The folds that lie in no other."""
    if isinstance(value, Fold):
        return [value]
    return [fold for part in parts_of(value) for fold in _outer_folds(part)]


def _with_total(value: Expression, fold: Fold) -> Expression:
    if value == fold:
        return Name("total")
    parts = tuple(_with_total(one, fold) for one in parts_of(value))
    return with_parts(value, parts) if parts else value


def _one_number(
    plan: Plan, fold: Fold, parameters: list[SpecificationParameter], ctype: str, load_text: LoadText,
    shifted: list[Load], rule: str, pattern: str,
) -> Draft:  # fmt: skip
    """``s = sum over i of x[i] * y[i]``: one block goes along the index."""
    inner = hoist(fold.body, ctype, load_text, "    ")
    ends = {"float": "f", "double": ""}.get(ctype)
    call = fold.operator if ends is None else f"f{fold.operator}{ends}"
    join = "mine + other" if fold.operator == "sum" else f"{call}(mine, other)"
    low = {"sum": literal(ctype, "0"), "max": lowest(ctype), "min": highest(ctype)}[fold.operator]
    body = (
        f"  __shared__ {ctype} partial[256];\n  {ctype} mine = {low};\n"
        f"  for (int {fold.index} = threadIdx.x; {fold.index} < {fold.extent}; {fold.index} += 256) {{\n"
        f"{inner.lines}    const {ctype} other = {value_text(inner.value, ctype, load_text)};\n"
        f"    mine = {join};\n  }}\n"
        f"  partial[threadIdx.x] = mine;\n{block_reduction(ctype, join)}"
    )
    total = value_text(_with_total(plan.value, fold), ctype, load_text)
    body += f"  if (threadIdx.x == 0) {{\n    const {ctype} total = partial[0];\n"
    body += f"    {plan.target}[0] = {total};\n  }}\n"

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> dict[str, Array]:
        return _computed(plan, shifted, rule, ("1",), arrays, names)

    specification = Specification(
        f"{pattern.replace(' ', '_')}_{plan.target}".lower(), pattern, tuple(parameters),
        f"{plan.target} = {value_text(plan.value, 'int', plain_text)}", (RULES[rule], INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, ("1",), (256,), compute)


def _pattern(plan: Plan, shifted: list[Load], indexing: set[str]) -> str:
    if folds_in(plan.value):
        return "fold"
    if shifted:
        return "stencil"
    return "gather" if indexing else "map"


def _inputs(
    reading: Reading, plan: Plan, loads: list[Load], names: set[str], indexing: set[str]
) -> list[SpecificationParameter]:
    made = []
    extents = dict(zip(plan.indices, plan.extents, strict=True)) | {f.index: f.extent for f in folds_in(plan.value)}
    for name in sorted(names, key=lambda one: (reading.place(one), one)):
        uses = [load for load in loads if load.array == name]
        uses += [inner for index in plan.place for inner in loads_in(index) if inner.array == name]
        if len({len(use.indices) for use in uses}) > 1:
            raise Missing(f"How many dimensions has `{name}`?")
        shape = reading.shape_of(name)
        if shape is None:
            plain = [tuple(one.name for one in use.indices if isinstance(one, Name)) for use in uses]
            best = next((one for use, one in zip(uses, plain, strict=True) if len(one) == len(use.indices)), None)
            if best is None or any(one not in extents for one in best):
                raise Missing(f"How long is `{name}`?")
            shape = tuple(extents[one] for one in best)
        if len(shape) != len(uses[0].indices):
            raise Missing(f"`{name}` has {len(shape)} extents, but {len(uses[0].indices)} indices?")
        if name not in indexing:
            made.append(array(reading, name, shape))
            continue
        declared = reading.declared.get(name)
        if declared is not None and declared.type not in (None, "int"):
            raise Missing(f"`{name}` is used as an index, so its elements must be int; are they?")
        limit = _limit(reading, plan, loads, name)
        unique = reading.mark("permutation") is not None and len(shape) == 1
        content = f"permutation({limit})" if unique and shape[0] == limit else f"index({limit})"
        made.append(array(reading, name, shape, "input", "int", content))
    return made


def _limit(reading: Reading, plan: Plan, loads: list[Load], name: str) -> str:
    """Below what the elements of an index array must stay: the extent of the axis that they are used on."""
    limits = set()
    for load in [*loads, Load(plan.target, plan.place)]:
        for axis, index in enumerate(load.indices):
            if any(inner.array == name for inner in loads_in(index)):
                if not isinstance(index, Load):
                    raise Missing(f"May `{index_text(index)}` lie outside `{load.array}`?")
                shape = reading.shape_of(load.array)
                if shape is None:
                    raise Missing(f"How long is `{load.array}`?")
                limits.add(shape[axis])
    if len(limits) != 1:
        raise Missing(f"Which array does `{name}` index?")
    return limits.pop()


def _compute_type(reading: Reading, plan: Plan, parameters: list[SpecificationParameter], indexing: set[str]) -> str:
    types = {one.type for one in parameters if one.name not in indexing}
    if not types:
        types = {reading.type_of(plan.target) or "float"}
    if len(types) > 1:
        raise Missing(f"The arrays have different types ({', '.join(sorted(types))}); in which type is it computed?")
    ctype = types.pop()
    if ctype == "unsigned char":
        raise Missing("The elements are bytes; should the arithmetic be that of int or float?")
    return ctype


def _check_operators(value: Expression, ctype: str) -> None:
    used = operators_in(value)
    if ctype != "int":
        if "%" in used:
            raise Missing("`%` is for integers; is the remainder of floats (fmod) meant?")
        return
    if "/" in used:
        raise Missing("Should the division of integers drop the remainder, or are the elements floats?")
    if {one for one in used if one.isalpha()} - set(INTEGER_FUNCTIONS) - {"neg"}:
        raise Missing("The elements are integers; should the result be float or double?")
    if any("." in number.text or "e" in number.text for number in _numbers(value)):
        raise Missing("The elements are integers but a number of the formula is not; which type has the result?")
    if "%" in used and any(not isinstance(one, Number) or one.text == "0" for one in _divisors(value)):
        raise Missing("`%` by what may be zero; what is the result then?")


def _numbers(value: Expression) -> list[Number]:
    inner = [number for part in parts_of(value) for number in _numbers(part)]
    return [value, *inner] if isinstance(value, Number) else inner


def _divisors(value: Expression) -> list[Expression]:
    inner = [one for part in parts_of(value) for one in _divisors(part)]
    return [value.operands[1], *inner] if isinstance(value, Operation) and value.operator == "%" else inner


def _target_shape(reading: Reading, plan: Plan, is_scatter: bool) -> tuple[str, ...]:
    shape = reading.shape_of(plan.target)
    if is_scatter:
        if shape is None or len(shape) != 1:
            raise Missing(f"How long is `{plan.target}`?")
        return shape
    return shape if shape is not None and shape != ("1",) else plan.extents


def _check_scatter(reading: Reading, plan: Plan, shape: tuple[str, ...]) -> None:
    if not plan.adds and (reading.mark("permutation") is None or shape != plan.extents):
        raise Missing("Can two elements go to the same place (then which one wins, or are they added), or are the "
                      "indices a permutation?")  # fmt: skip


def _can_leave(load: Load, shape: tuple[str, ...], limits: Mapping[str, str]) -> bool:
    """Whether an index may lie outside its axis; ``n - 1 - i`` of an i below n does not."""

    def stays(index: Expression, extent: str) -> bool:
        turned = reversed_index(index, extent)
        if turned is not None:
            return limits.get(turned[0]) == extent
        return isinstance(index, (Load, Name))

    return not all(stays(index, extent) for index, extent in zip(load.indices, shape, strict=True))


def _edge_rule(reading: Reading, has_fold: bool) -> str:
    chosen = [
        rule for rule, mark in (("zero", "zero outside"), ("copy", "copy"), ("clamp", "clamp")) if reading.mark(mark)
    ]
    if len(chosen) > 1:
        raise Missing("Two rules for what lies outside; which one holds?")
    if not chosen:
        raise Missing("What counts outside the array: zero, the nearest element, or are such points copied?")
    if chosen == ["copy"] and has_fold:
        raise Missing("Copied edges do not go with a sum over an index; should outside count as zero?")
    return chosen[0]


def _computed(
    plan: Plan, shifted: list[Load], rule: str, shape: tuple[str, ...], arrays: Mapping[str, Array],
    names: Mapping[str, int | float],
) -> dict[str, Array]:  # fmt: skip
    def extent(text: str) -> int:
        return int(text) if text.isdigit() else int(names[text])

    def values(load: Load, all_names: Mapping[str, Any]) -> Array:
        return elements(load, arrays, all_names, rule if load in shifted else "")

    extents = [extent(one) for one in plan.extents]
    everything: dict[str, Any] = {**names, **dict(zip(plan.indices, np.indices(extents), strict=True))}
    result = np.broadcast_to(np.asarray(evaluate(plan.value, everything, values)), extents).copy()
    if rule == "copy":
        interior = np.ones(extents, bool)
        for load in shifted:
            for index, limit in zip(load.indices, arrays[load.array].shape, strict=True):
                place = evaluate(index, everything, values)
                interior &= (place >= 0) & (place < limit)
        result = np.where(interior, result, arrays[shifted[0].array])
    if any(isinstance(one, Load) for one in plan.place):
        places = np.asarray(evaluate(plan.place[0], everything, values))
        out = np.zeros([extent(one) for one in shape], result.dtype)
        if plan.adds:
            np.add.at(out, places, result)
        else:
            out[places] = result
        return {plan.target: out}
    return {plan.target: result}


def permutation_of_axes(reading: Reading) -> Draft:
    """``permute x (a x b x c) to (c, a, b)`` or ``by (2, 0, 1)``: axis ``d`` of the result is axis ``axes[d]``."""
    found = reading.op("permute")
    assert found is not None
    source = only_input(reading)
    shape = reading.shape_of(source) or ()
    if found.groups.get("axes"):
        axes = [int(one) for one in found.groups["axes"].split(" , ")]
    else:
        wanted = [one for one in found.groups["to"].split(" ") if one not in ("x", ",")]
        if len(set(shape)) != len(shape):
            raise Missing(f"Two axes of `{source}` have the same extent; in which order (by (2, 0, 1))?")
        axes = [shape.index(one) if one in shape else -1 for one in wanted]
    if sorted(axes) != list(range(len(shape))):
        raise Missing(f"In which order do the {len(shape)} axes of `{source}` stand in the result?")
    target = output_of(reading)
    names = index_names(len(shape))
    reading.add(target, None, tuple(shape[axis] for axis in axes))
    place = tuple(Name(names[axis]) for axis in axes)
    value = Load(source, tuple(Name(one) for one in names))
    return draft_of(reading, Formula(target, place, value, 0, 0), "permute")

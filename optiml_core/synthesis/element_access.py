"""Elements of arrays as C++ text and as NumPy values, with the rule for what lies outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optiml_core.synthesis.drafting import Missing, guarded_index
from optiml_core.synthesis.formula_values import evaluate, index_text
from optiml_core.synthesis.formulas import Expression, Load, Name, offset_of
from optiml_core.synthesis.records import Array


def index_lines(indices: tuple[str, ...], extents: tuple[str, ...]) -> str:
    if len(indices) == 1:
        return guarded_index(extents[0], indices[0])
    if len(indices) == 2:
        row, col = indices
        return (
            f"  const int {col} = blockIdx.x * blockDim.x + threadIdx.x;\n"
            f"  const int {row} = blockIdx.y * blockDim.y + threadIdx.y;\n"
            f"  if ({row} >= {extents[0]} || {col} >= {extents[1]}) return;\n"
        )
    lines = "  int rest = blockIdx.x * blockDim.x + threadIdx.x;\n" + f"  if (rest >= {' * '.join(extents)}) return;\n"
    for index, extent in reversed(list(zip(indices[1:], extents[1:], strict=True))):
        lines += f"  const int {index} = rest % {extent};\n  rest /= {extent};\n"
    return lines + f"  const int {indices[0]} = rest;\n"


def linear(indices: tuple[str, ...], shape: tuple[str, ...]) -> str:
    text = indices[0]
    for index, extent in zip(indices[1:], shape[1:], strict=True):
        text = f"({text}) * {extent} + {index}" if " " in text else f"{text} * {extent} + {index}"
    return text


def place_text(index: Expression, shapes: Mapping[str, tuple[str, ...]]) -> str:
    """An index as C++ text, elements of index arrays by their linear place."""
    if isinstance(index, Load):
        return f"{index.array}[{linear(tuple(place_text(one, shapes) for one in index.indices), shapes[index.array])}]"
    try:
        return index_text(index)
    except ValueError:
        raise Missing("An index may only add, subtract and multiply integers; how is the element found?") from None


def load_text_of(load: Load, shapes: Mapping[str, tuple[str, ...]], ctype: str, rule: str, loops: set[str]) -> str:
    shape = shapes[load.array]
    places = tuple(place_text(one, shapes) for one in load.indices)
    if rule == "clamp":
        places = tuple(f"min(max({p}, 0), {e} - 1)" for p, e in zip(places, shape, strict=True))
    plain = f"{load.array}[{linear(places, shape)}]"
    if rule != "zero":
        return plain
    zero = {"float": "0.0f", "double": "0.0"}.get(ctype, "0")
    return f"({' && '.join(inside_tests(load, shape, loops))} ? {plain} : {zero})"


def inside_tests(load: Load, shape: tuple[str, ...], loops: set[str]) -> list[str]:
    tests = []
    for index, extent in zip(load.indices, shape, strict=True):
        moved = offset_of(index)
        if isinstance(index, (Name, Load)):
            continue
        if moved is None or moved[0] not in loops or moved[1] < 0:
            tests.append(f"{index_text(index)} >= 0")
        if moved is None or moved[0] not in loops or moved[1] > 0:
            tests.append(f"{index_text(index)} < {extent}")
    return tests


def plain_text(load: Load) -> str:
    return f"{load.array}[{', '.join(index_text(one) for one in load.indices)}]"


def elements(load: Load, arrays: Mapping[str, Array], names: Mapping[str, Any], rule: str) -> Array:
    values = arrays[load.array]
    places, inside = [], np.asarray(True)
    for index, extent in zip(load.indices, values.shape, strict=True):
        place = np.asarray(evaluate(index, names, lambda inner, all_names: elements(inner, arrays, all_names, "")))
        inside = inside & (place >= 0) & (place < extent)
        places.append(np.clip(place, 0, extent - 1))
    found: Any = values[tuple(places)]
    return np.asarray(np.where(inside, found, 0) if rule == "zero" else found)

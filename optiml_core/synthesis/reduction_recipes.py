"""Reductions of all elements, of rows or of columns: sums, extremes, norms, means; argmax and counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    block_reduction,
    ctype_of,
    highest,
    literal,
    lowest,
    only_input,
    output_of,
    sizes_of,
)
from optiml_core.synthesis.formula_values import number_text
from optiml_core.synthesis.reading import Reading, type_named
from optiml_core.synthesis.records import Array, Draft, Specification, SpecificationParameter

Computed = dict[str, Array]


@frozen
class Fold:
    """A reduction: the term of one element, how two partial results join, and the result from the last one."""

    term: str  # of `value`
    join: str  # of `mine` and `other`
    start: str
    finish: str  # of `total` and `length`
    compute: Callable[[Array, int], Any]
    reference: str


OPERATIONS = (
    "sum", "sum of squares", "sum of absolute", "euclidean norm", "largest absolute", "norm", "mean", "largest",
    "smallest",
)  # fmt: skip


def _fold(name: str, ctype: str) -> Fold:
    zero = literal(ctype, "0")
    ends = {"float": "f", "double": ""}.get(ctype)
    most = f"fmax{ends}(mine, other)" if ends is not None else "max(mine, other)"
    least = f"fmin{ends}(mine, other)" if ends is not None else "min(mine, other)"
    absolute = f"fabs{ends}(value)" if ends is not None else "abs(value)"
    if name in ("euclidean norm", "norm", "mean") and ends is None:
        raise Missing("The elements are integers; should the result be float or double?")
    if name == "norm":
        raise Missing("Which norm: the Euclidean norm (l2), the sum of absolute values (l1), or the largest one?")
    plus = "mine + other"
    return {
        "euclidean norm": Fold("value * value", plus, zero, f"sqrt{ends}(total)",
                               lambda x, axis: np.sqrt((x * x).sum(axis)), "sqrt(sum(x**2))"),
        "sum of squares": Fold("value * value", plus, zero, "total", lambda x, axis: (x * x).sum(axis), "sum(x**2)"),
        "sum of absolute": Fold(absolute, plus, zero, "total", lambda x, axis: abs(x).sum(axis), "sum(abs(x))"),
        "largest absolute": Fold(absolute, most, zero, "total", lambda x, axis: abs(x).max(axis), "max(abs(x))"),
        "mean": Fold("value", plus, zero, "total / length", lambda x, axis: x.mean(axis), "mean(x)"),
        "largest": Fold("value", most, lowest(ctype), "total", lambda x, axis: x.max(axis), "max(x)"),
        "smallest": Fold("value", least, highest(ctype), "total", lambda x, axis: x.min(axis), "min(x)"),
        "sum": Fold("value", plus, zero, "total", lambda x, axis: x.sum(axis), "sum(x)"),
    }[name]  # fmt: skip


def direction(reading: Reading, source: str, shape: tuple[str, ...]) -> str:
    """``rows``, ``columns`` or ``all``; for a line always ``all``. Raises Missing where the text leaves it open."""
    said = [name for name in ("rows", "columns", "all") if name in reading.marks]
    if len(shape) == 1:
        reading.mark("all")
        return "all"
    if len(shape) != 2:
        raise Missing(f"`{source}` has {len(shape)} dimensions; I reduce lines and matrices. Over which axis?")
    if said in (["rows", "all"], ["columns", "all"]):
        said = said[:1]  # "over all columns"
    if len(said) != 1:
        raise Missing(f"Over what of `{source}`: all elements, each row, or each column?")
    reading.mark(*said)
    reading.mark("all")
    return said[0]


def one_for_each(reading: Reading, source: str, shape: tuple[str, ...]) -> str:
    """``direction`` where one result comes out of each row or column. ``Sum over the rows`` may as well mean that the
    rows are added up, so that it is asked about."""
    over = direction(reading, source, shape)
    mark = reading.marks.get(over)
    if over == "all" or mark is None or mark.groups.get("side"):
        return over
    if not re.search(r"\b(?:each|every|per|wise|rowwise|columnwise|by|axis|dim|dimension)\b", mark.text, re.IGNORECASE):
        one = over[:-1]
        raise Missing(
            f"One result for each {one} of `{source}` (write `each {one}`), or are the {over} combined into one?"
        )
    return over


def reduction(reading: Reading) -> Draft:
    """Sum, mean, largest, smallest and norms of all elements, of rows or of columns."""
    names = [name for name in OPERATIONS if name in reading.operations]
    if len(names) != 1:
        raise Missing(f"I read {' and '.join(names)}; which one should one kernel compute?")
    reading.op(names[0])
    source = only_input(reading)
    ctype = ctype_of(reading, source)
    if ctype == "unsigned char":
        raise Missing("The elements are bytes; of which type is the result?")
    fold = _fold(names[0], ctype)
    shape = reading.shape_of(source) or ()
    target = output_of(reading)
    over = one_for_each(reading, source, shape)
    if over == "columns":
        return _columns(reading, source, target, ctype, fold, (shape[0], shape[1]))
    per_row = over == "rows"
    length = shape[-1] if per_row or len(shape) == 1 else f"{shape[0]} * {shape[1]}"
    name = "row" if per_row else "total"
    result = (shape[0],) if per_row else ("1",)

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source].reshape(-1 if not per_row else arrays[source].shape)
        return {target: np.atleast_1d(fold.compute(values, 1 if per_row else 0))}

    parameters = [array(reading, source, shape), array(reading, target, result, "output", ctype)]
    specification = Specification(
        f"{name}_{_word(fold)}", "reduction over " + ("rows" if per_row else "all"),
        (*parameters, *sizes_of([shape])),
        f"{target} = {_reference(fold, source)}" + (" of every row" if per_row else ""),
        (f"`{source}` is not empty", INDEX_LIMIT),
    )  # fmt: skip
    body = f"  const int length = {length};\n  const {ctype}* line = {source}" + (
        " + blockIdx.x * length;\n" if per_row else ";\n"
    )
    body += line_fold(ctype, fold, f"{target}[{'blockIdx.x' if per_row else '0'}]")
    return Draft(specification, body, (shape[0],) if per_row else ("1",), (256,), compute)


def _reference(fold: Fold, source: str) -> str:
    return re.sub(r"\bx\b", source, fold.reference)


def _word(fold: Fold) -> str:
    return re.sub(r"\W+", "_", re.sub(r"\bx\b", "", fold.reference)).strip("_").lower()


def line_fold(ctype: str, fold: Fold, target: str) -> str:
    """One block folds ``line[0..length)`` into ``target``."""
    return (
        f"  __shared__ {ctype} partial[256];\n  {ctype} mine = {fold.start};\n"
        "  for (int i = threadIdx.x; i < length; i += 256) {\n"
        f"    const {ctype} value = line[i];\n    const {ctype} other = {fold.term};\n    mine = {fold.join};\n  }}\n"
        "  partial[threadIdx.x] = mine;\n" + block_reduction(ctype, fold.join)
        + f"  if (threadIdx.x == 0) {{\n    const {ctype} total = partial[0];\n    {target} = {fold.finish};\n  }}\n"
    )  # fmt: skip


def _columns(reading: Reading, source: str, target: str, ctype: str, fold: Fold, shape: tuple[str, str]) -> Draft:
    rows, cols = shape
    body = (
        f"  const int col = blockIdx.x * blockDim.x + threadIdx.x;\n  if (col >= {cols}) return;\n"
        f"  const int length = {rows};\n  {ctype} mine = {fold.start};\n"
        f"  for (int row = 0; row < length; row++) {{\n    const {ctype} value = {source}[row * {cols} + col];\n"
        f"    const {ctype} other = {fold.term};\n    mine = {fold.join};\n  }}\n"
        f"  const {ctype} total = mine;\n  {target}[col] = {fold.finish};\n"
    )

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        return {target: fold.compute(arrays[source], 0)}

    parameters = [array(reading, source, shape), array(reading, target, (cols,), "output", ctype)]
    specification = Specification(
        f"column_{_word(fold)}", "reduction over columns", (*parameters, *sizes_of([shape])),
        f"{target} = {_reference(fold, source)} of every column", (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, (f"ceil_div({cols}, 256)",), (256,), compute)


def argument_of_extreme(reading: Reading) -> Draft:
    """Position of the largest or smallest element; the first of equal ones."""
    if "argmax" in reading.operations and "argmin" in reading.operations:
        raise Missing("The position of the largest or of the smallest?")
    largest = reading.op("argmax") is not None
    reading.op("argmin")
    reading.mark("first of ties")
    source = only_input(reading)
    shape = reading.shape_of(source) or ()
    ctype = ctype_of(reading, source)
    if len(shape) == 2 and one_for_each(reading, source, shape) != "rows":
        raise Missing(f"I find the position in each row of `{source}`; is that meant?")
    if len(shape) == 1:
        reading.mark("all")
    per_row = len(shape) == 2
    target = output_of(reading, "index")
    sign = ">" if largest else "<"
    body = f"""  const int length = {shape[-1]};
  const {ctype}* line = {source}{" + blockIdx.x * length" if per_row else ""};
  __shared__ {ctype} best[256];
  __shared__ int position[256];
  // Threads beyond the end repeat the first element, which changes nothing.
  int chosen = threadIdx.x < length ? threadIdx.x : 0;
  for (int i = threadIdx.x; i < length; i += 256) {{
    if (line[i] {sign} line[chosen]) chosen = i;
  }}
  best[threadIdx.x] = line[chosen];
  position[threadIdx.x] = chosen;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {{
    if (threadIdx.x < width) {{
      const {ctype} other = best[threadIdx.x + width];
      const int where = position[threadIdx.x + width];
      if (other {sign} best[threadIdx.x] || (other == best[threadIdx.x] && where < position[threadIdx.x])) {{
        best[threadIdx.x] = other;
        position[threadIdx.x] = where;
      }}
    }}
    __syncthreads();
  }}
  if (threadIdx.x == 0) {target}[{"blockIdx.x" if per_row else "0"}] = position[0];
"""

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source]
        return {target: np.atleast_1d(values.argmax(-1) if largest else values.argmin(-1))}

    name = "argmax" if largest else "argmin"
    parameters = [
        array(reading, source, shape), array(reading, target, (shape[0],) if per_row else ("1",), "output", "int")
    ]  # fmt: skip
    specification = Specification(
        name, name, (*parameters, *sizes_of([shape])), f"{target} = {name}({source}, axis=-1)",
        ("of equal elements the first", f"`{source}` is not empty and holds no NaN", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, (shape[0],) if per_row else ("1",), (256,), compute)


COMPARISONS = {
    "greater than": ">", "larger than": ">", "bigger than": ">", "above": ">", ">": ">", "at least": ">=", ">=": ">=",
    "greater than or equal to": ">=", "less than": "<", "smaller than": "<", "below": "<", "<": "<", "at most": "<=",
    "less than or equal to": "<=", "<=": "<=", "equal to": "==", "exactly": "==", "==": "==", "not equal to": "!=",
}  # fmt: skip


def counting(reading: Reading) -> Draft:
    """How many elements are greater, smaller, equal."""
    found, zeros = reading.op("count") or reading.op("count those"), reading.op("count zeros")
    if found is not None and zeros is not None:
        raise Missing(f"Count `{found.text}` or `{zeros.text}`?")
    if zeros is not None:
        end, limit = "", "0"
        how = "not equal to" if zeros.groups.get("not") else "equal to"
        found = zeros
    else:
        assert found is not None
        end = next(end for end in ("", "2", "3") if found.groups.get(f"how{end}"))
        how, limit = found.groups[f"how{end}"], found.groups[f"value{end}"].replace("- ", "-")
    source = only_input(reading)
    ctype = ctype_of(reading, source)
    shape = reading.shape_of(source) or ()
    if len(shape) != 1:
        raise Missing(f"How many elements has `{source}`?")
    reading.mark("all")
    operator = COMPARISONS[" ".join(how.lower().split())]
    target = output_of(reading, "count")
    is_number = bool(re.match(r"[-\d.]", limit))
    if ctype not in ("float", "double") and is_number and not re.fullmatch(r"-?\d+", limit):
        raise Missing(f"`{source}` holds integers; should they be compared with {limit}?")
    declared = type_named(found.groups.get(f"valuetype{end}", ""))
    if declared not in (None, ctype):
        raise Missing(f"`{limit}` is said to be {declared}, but the elements are {ctype}; how are they compared?")
    text = number_text(limit, ctype) if is_number else limit
    body = (
        f"  __shared__ int partial[256];\n  int found = 0;\n  for (int i = threadIdx.x; i < {shape[0]}; "
        f"i += 256) {{\n    if ({source}[i] {operator} {text}) found++;\n  }}\n"
        "  partial[threadIdx.x] = found;\n" + block_reduction("int", "mine + other")
        + f"  if (threadIdx.x == 0) {target}[0] = partial[0];\n"
    )  # fmt: skip
    compare = {
        ">": np.greater,
        ">=": np.greater_equal,
        "<": np.less,
        "<=": np.less_equal,
        "==": np.equal,
        "!=": np.not_equal,
    }[operator]

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        bound = (np.float32 if ctype == "float" else np.float64)(limit) if is_number else names[limit]
        return {target: np.atleast_1d(compare(arrays[source], bound).sum())}

    parameters = [array(reading, source, shape), array(reading, target, ("1",), "output", "int")]
    if not is_number:
        parameters.append(SpecificationParameter(limit, ctype, "scalar", (), "", literal(ctype, "0").rstrip("f")))
    specification = Specification(
        "count_elements", "count", (*parameters, *sizes_of([shape])),
        f"{target} = count_nonzero({source} {operator} {limit})", (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, ("1",), (256,), compute)

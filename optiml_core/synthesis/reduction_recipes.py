"""Recipes that go over a line: sums, extremes, norms, counts, argmax, scans, softmax, normalisation, products."""

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
    literal,
    lowest,
    matrix_shape,
    only_input,
    output_of,
    sizes_of,
)
from optiml_core.synthesis.reading import Reading
from optiml_core.synthesis.records import Array, Draft, Specification, SpecificationParameter

Computed = dict[str, Array]
ROWS = r"(?:over|along|of|for|in) (?:the |each |every )?(?:rows?)|row - wise|rowwise|per row"
COLUMNS = r"(?:over|of|for|in) (?:the |each |every )?(?:columns?)|column - wise|per column|each column|every column"


@frozen
class Fold:
    """A reduction: the term of one element, how two partial results join, and the result from the last one."""

    term: str  # of `value`
    join: str  # of `mine` and `other`
    start: str
    finish: str  # of `total` and `length`
    compute: Callable[[Array, int], Any]
    reference: str


def _fold(reading: Reading, ctype: str) -> Fold | None:
    zero = literal(ctype, "0")
    root = "sqrtf" if ctype == "float" else "sqrt"
    high, low = lowest(ctype), {"int": "2147483647", "unsigned char": "255"}.get(ctype, "INFINITY")
    ends = {"float": "f", "double": ""}.get(ctype)
    most = f"fmax{ends}(mine, other)" if ends is not None else "max(mine, other)"
    least = f"fmin{ends}(mine, other)" if ends is not None else "min(mine, other)"
    absolute = f"fabs{ends}(value)" if ends is not None else "abs(value)"
    if reading.says(r"(?:euclidean|l2|2) (?:- )?norm|euclidean length", r"norm"):
        return Fold("value * value", "mine + other", zero, f"{root}(total)",
                    lambda x, axis: np.sqrt((x * x).sum(axis)), "sqrt(sum(x**2))")  # fmt: skip
    if reading.says(r"sum of (?:the )?squares"):
        return Fold("value * value", "mine + other", zero, "total", lambda x, axis: (x * x).sum(axis), "sum(x**2)")
    if reading.says(r"sum of (?:the )?absolute values", r"l1 norm"):
        return Fold(absolute, "mine + other", zero, "total", lambda x, axis: abs(x).sum(axis), "sum(abs(x))")
    if reading.says(r"mean", r"average"):
        return Fold("value", "mine + other", zero, "total / length", lambda x, axis: x.mean(axis), "mean(x)")
    if reading.says(r"largest(?: element| value)?", r"max", r"maximum", r"biggest"):
        return Fold("value", most, high, "total", lambda x, axis: x.max(axis), "max(x)")
    if reading.says(r"smallest(?: element| value)?", r"min", r"minimum"):
        return Fold("value", least, low, "total", lambda x, axis: x.min(axis), "min(x)")
    if reading.says(r"sums?", r"add up", r"total"):
        return Fold("value", "mine + other", zero, "total", lambda x, axis: x.sum(axis), "sum(x)")
    return None


def reduction(reading: Reading) -> Draft | None:
    """Sum, mean, largest, smallest and norms of all elements, of rows or of columns."""
    if _fold(reading, "float") is None:
        return None
    source = only_input(reading)
    ctype = ctype_of(reading, source)
    fold = _fold(reading, ctype)
    assert fold is not None
    shape = reading.shape_of(source) or ()
    target = output_of(reading)
    by_rows, by_columns = reading.says(ROWS), reading.says(COLUMNS)
    if len(shape) == 2 and by_columns and not by_rows:
        return _columns(reading, source, target, ctype, fold, (shape[0], shape[1]))
    if len(shape) == 2 and not by_rows and not reading.says("all", "whole", "every element"):
        raise Missing(f"Over what of `{source}`: all elements, each row, or each column?")
    per_row = len(shape) == 2 and by_rows
    length = shape[-1] if per_row or len(shape) == 1 else f"{shape[0]} * {shape[1]}"
    name = "row" if per_row else "total"
    result = (shape[0],) if per_row else ("1",)

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source].reshape(-1 if not per_row else arrays[source].shape)
        return {target: np.atleast_1d(fold.compute(values, 1 if per_row else 0))}

    parameters = [array(reading, source, shape), array(reading, target, result, "output", ctype)]
    specification = Specification(
        f"{name}_{_word(fold)}", "reduction over " + ("rows" if per_row else "all"),
        (*parameters, *sizes_of([shape])), f"{target} = {fold.reference.replace('x', source, 1)}",
        (f"`{source}` is not empty", INDEX_LIMIT),
    )  # fmt: skip
    body = f"  const int length = {length};\n  const {ctype}* line = {source}" + (
        " + blockIdx.x * length;\n" if per_row else ";\n"
    )
    body += line_fold(ctype, fold, f"{target}[{'blockIdx.x' if per_row else '0'}]")
    return Draft(specification, body, (shape[0],) if per_row else ("1",), (256,), compute)


def _word(fold: Fold) -> str:
    return re.sub(r"\W+", "_", fold.reference.replace("x", "")).strip("_").lower()


def line_fold(ctype: str, fold: Fold, target: str) -> str:
    """One block folds ``line[0..length)`` into ``target``."""
    return (
        f"  __shared__ {ctype} partial[256];\n  {ctype} mine = {fold.start};\n"
        "  for (int i = threadIdx.x; i < length; i += blockDim.x) {\n"
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
        f"{target} = {fold.reference.replace('x', source, 1)} of every column", (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, (f"ceil_div({cols}, 256)",), (256,), compute)


def argument_of_extreme(reading: Reading) -> Draft | None:
    """Position of the largest or smallest element; the first of equal ones."""
    found = reading.search(
        r"(?:position|index|place) of the (?P<which>largest|smallest|maximum|minimum)|(?P<short>argmax|argmin)"
    )
    if found is None:
        return None
    largest = (found["which"] or found["short"]).lower() in ("largest", "maximum", "argmax")
    source = only_input(reading)
    shape = reading.shape_of(source) or ()
    ctype = ctype_of(reading, source)
    per_row = len(shape) == 2
    if per_row and not reading.says(ROWS):
        raise Missing(f"The position in each row of `{source}`, or in the whole array?")
    target = output_of(reading, "index")
    sign = ">" if largest else "<"
    body = f"""  const int length = {shape[-1]};
  const {ctype}* line = {source}{" + blockIdx.x * length" if per_row else ""};
  __shared__ {ctype} best[256];
  __shared__ int position[256];
  // Threads beyond the end repeat the first element, which changes nothing.
  int chosen = threadIdx.x < length ? threadIdx.x : 0;
  for (int i = threadIdx.x; i < length; i += blockDim.x) {{
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
    "greater than": ">", "larger than": ">", "above": ">", "at least": ">=", "less than": "<", "smaller than": "<",
    "below": "<", "at most": "<=", "equal to": "==",
}  # fmt: skip


def counting(reading: Reading) -> Draft | None:
    """How many elements are greater, smaller, equal."""
    words = "|".join(COMPARISONS)
    found = reading.search(rf"count(?: how many)? .*?(?P<how>{words}) (?:the )?(?P<limit>[\w.]+)")
    if found is None:
        return None
    source = only_input(reading)
    ctype = ctype_of(reading, source)
    shape = reading.shape_of(source) or ()
    if len(shape) != 1:
        raise Missing(f"How many elements has `{source}`?")
    operator = COMPARISONS[found["how"].lower()]
    limit, target = found["limit"], output_of(reading, "count")
    is_number = bool(re.match(r"[\d.]", limit))
    text = (limit if "." in limit else literal(ctype, limit)) if is_number else limit
    text += "f" if is_number and "." in limit and ctype == "float" else ""
    body = (
        f"  __shared__ int partial[256];\n  int found = 0;\n  for (int i = threadIdx.x; i < {shape[0]}; "
        f"i += blockDim.x) {{\n    if ({source}[i] {operator} {text}) found++;\n  }}\n"
        "  partial[threadIdx.x] = found;\n" + block_reduction("int", "mine + other")
        + f"  if (threadIdx.x == 0) {target}[0] = partial[0];\n"
    )  # fmt: skip
    compare = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal, "==": np.equal}[operator]

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        bound = float(limit) if is_number else names[limit]
        return {target: np.atleast_1d(compare(arrays[source], bound).sum())}

    parameters = [array(reading, source, shape), array(reading, target, ("1",), "output", "int")]
    if not is_number:
        parameters.append(SpecificationParameter(limit, ctype, "scalar", (), "", literal(ctype, "0").rstrip("f")))
    specification = Specification(
        "count_elements", "count", (*parameters, *sizes_of([shape])),
        f"{target} = count_nonzero({source} {operator} {limit})", (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, ("1",), (256,), compute)


def scan(reading: Reading) -> Draft | None:
    """Prefix sums of a line or of every row: one block goes along a line in tiles."""
    if not reading.says(r"prefix sums?", r"running sums?", r"cumulative sums?", r"scan"):
        return None
    source = only_input(reading)
    shape = reading.shape_of(source) or ()
    ctype = ctype_of(reading, source)
    if reading.says("exclusive"):
        exclusive = True
    elif reading.says("inclusive", r"running sums?", r"cumulative sums?"):
        exclusive = False
    else:
        raise Missing("Should each sum include its own element (inclusive) or not (exclusive)?")
    if len(shape) == 2 and not reading.says(ROWS):
        raise Missing(f"Along the rows of `{source}`, or over the whole array?")
    target = output_of(reading)
    zero, rows = literal(ctype, "0"), len(shape) == 2
    offset = " + blockIdx.x * length" if rows else ""
    body = f"""  const int length = {shape[-1]};
  const {ctype}* line = {source}{offset};
  {ctype}* sums = {target}{offset};
  __shared__ {ctype} tile[256];
  {ctype} before = {zero};  // the sum of all earlier tiles
  for (int start = 0; start < length; start += blockDim.x) {{
    const int i = start + threadIdx.x;
    const {ctype} value = i < length ? line[i] : {zero};
    tile[threadIdx.x] = value;
    __syncthreads();
    for (int distance = 1; distance < blockDim.x; distance *= 2) {{
      const {ctype} left = threadIdx.x >= distance ? tile[threadIdx.x - distance] : {zero};
      __syncthreads();
      tile[threadIdx.x] += left;
      __syncthreads();
    }}
"""
    own = "(threadIdx.x > 0 ? tile[threadIdx.x - 1] : " + zero + ")" if exclusive else "tile[threadIdx.x]"
    body += f"    if (i < length) sums[i] = before + {own};\n    before += tile[blockDim.x - 1];\n"
    body += "    __syncthreads();\n  }\n"

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source]
        sums = np.cumsum(values, -1)
        if exclusive:
            sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], -1)
        return {target: sums}

    kind = "exclusive" if exclusive else "inclusive"
    parameters = [array(reading, source, shape), array(reading, target, shape, "output", ctype)]
    specification = Specification(
        f"{kind}_scan", f"{kind} scan", (*parameters, *sizes_of([shape])),
        f"{target} = cumsum({source}, axis=-1)" + (" shifted right by one, starting at 0" if exclusive else ""),
        (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, (shape[0],) if rows else ("1",), (256,), compute)


def softmax(reading: Reading) -> Draft | None:
    """Softmax of every row, with the row's largest element taken off first."""
    if not reading.says("softmax"):
        return None
    if reading.says(COLUMNS) and not reading.says(ROWS):
        raise Missing("I know softmax over rows; should the columns become rows?")
    source = only_input(reading)
    rows, cols = matrix_shape(reading, source)
    ctype, target = ctype_of(reading, source), output_of(reading)
    end = "f" if ctype == "float" else ""
    body = f"""  const {ctype}* line = {source} + blockIdx.x * {cols};
  __shared__ {ctype} partial[256];
  {ctype} largest = -INFINITY;
  for (int i = threadIdx.x; i < {cols}; i += blockDim.x) largest = fmax{end}(largest, line[i]);
  partial[threadIdx.x] = largest;
{block_reduction(ctype, f"fmax{end}(mine, other)")}  largest = partial[0];
  __syncthreads();
  {ctype} sum = {literal(ctype, "0")};
  for (int i = threadIdx.x; i < {cols}; i += blockDim.x) sum += exp{end}(line[i] - largest);
  partial[threadIdx.x] = sum;
{block_reduction(ctype, "mine + other")}  sum = partial[0];
  for (int i = threadIdx.x; i < {cols}; i += blockDim.x) {{
    {target}[blockIdx.x * {cols} + i] = exp{end}(line[i] - largest) / sum;
  }}
"""

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        powers = np.exp(arrays[source] - arrays[source].max(1, keepdims=True))
        return {target: powers / powers.sum(1, keepdims=True)}

    shape = (rows, cols)
    parameters = [array(reading, source, shape), array(reading, target, shape, "output", ctype)]
    specification = Specification(
        "softmax_rows", "softmax", (*parameters, *sizes_of([shape])),
        f"{target} = exp({source} - max) / sum(exp({source} - max)), by rows", (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, (rows,), (256,), compute)


def normalisation(reading: Reading) -> Draft | None:
    """Layer norm and RMS norm of every row, without weights; epsilon is an argument."""
    root_mean = reading.says(r"rms(?: -)? ?norm(?:ali[sz]ation)?", r"root mean square norm(?:ali[sz]ation)?")
    if not root_mean and not reading.says(r"layer(?: -)? ?norm(?:ali[sz]ation)?", "layernorm"):
        return None
    source = only_input(reading)
    shape = matrix_shape(reading, source)
    ctype, target = ctype_of(reading, source), output_of(reading)
    end, zero = ("f" if ctype == "float" else ""), literal(ctype, "0")
    body = f"  const {ctype}* line = {source} + blockIdx.x * {shape[1]};\n  __shared__ {ctype} partial[256];\n"
    if root_mean:
        body += f"  const {ctype} mean = {zero};\n"
    else:
        body += (
            f"  {ctype} sum = {zero};\n  for (int i = threadIdx.x; i < {shape[1]}; i += blockDim.x) sum += line[i];\n"
            "  partial[threadIdx.x] = sum;\n" + block_reduction(ctype, "mine + other")
            + f"  const {ctype} mean = partial[0] / {shape[1]};\n  __syncthreads();\n"
        )  # fmt: skip
    body += f"""  {ctype} squares = {zero};
  for (int i = threadIdx.x; i < {shape[1]}; i += blockDim.x) squares += (line[i] - mean) * (line[i] - mean);
  partial[threadIdx.x] = squares;
{block_reduction(ctype, "mine + other")}  const {ctype} variance = partial[0] / {shape[1]};
  const {ctype} scale = {literal(ctype, "1")} / sqrt{end}(variance + eps);
  for (int i = threadIdx.x; i < {shape[1]}; i += blockDim.x) {{
    {target}[blockIdx.x * {shape[1]} + i] = (line[i] - mean) * scale;
  }}
"""

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source]
        centred = values if root_mean else values - values.mean(1, keepdims=True)
        return {target: centred / np.sqrt((centred**2).mean(1, keepdims=True) + names["eps"])}

    parameters = [
        array(reading, source, shape), array(reading, target, shape, "output", ctype),
        SpecificationParameter("eps", ctype, "scalar", (), "", "1e-5"),
    ]  # fmt: skip
    kind = "rms_norm" if root_mean else "layer_norm"
    specification = Specification(
        kind, kind.replace("_", " "), (*parameters, *sizes_of([shape])),
        f"{target} = ({source}{'' if root_mean else ' - mean'}) / sqrt(mean of squares + eps), by rows",
        ("no weights; eps under the root", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, (shape[0],), (256,), compute)
